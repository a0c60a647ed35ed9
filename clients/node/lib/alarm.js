// SPDX-License-Identifier: Apache-2.0
'use strict';

/**
 * Calls act() once at a time that can be moved, not before, and after the event loop has read what has
 * arrived: a program that was busy for longer has its answer in time. Its timer is reused, because
 * most times are moved before they come.
 */
class Alarm {
  #act;
  #at = Infinity; // of performance.now()
  #timer;
  #firesAt = Infinity;
  #keepsAlive = false;

  constructor(act) {
    this.#act = act;
  }

  /** Infinity: never. */
  set(at) {
    this.#at = at;
    if (at < this.#firesAt) {
      clearTimeout(this.#timer);
      this.#firesAt = at;
      this.#timer = setTimeout(() => this.#check(), Math.ceil(Math.max(at - performance.now(), 0)));
      this.keepAlive(this.#keepsAlive);
    }
  }

  get at() {
    return this.#at;
  }

  keepAlive(keepsAlive) {
    this.#keepsAlive = keepsAlive;
    this.#timer?.[keepsAlive ? 'ref' : 'unref']();
  }

  #check() {
    this.#firesAt = Infinity;
    if (performance.now() < this.#at) { // it was moved, or the timer fired early
      this.set(this.#at);
      return;
    }
    setImmediate(() => {
      if (performance.now() >= this.#at) {
        this.#at = Infinity;
        this.#act();
      }
    });
  }
}

module.exports = { Alarm };
