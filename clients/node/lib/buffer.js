// SPDX-License-Identifier: Apache-2.0
'use strict';
// The prefetch buffer: how many IDs it should have, and how old they can become. Times are in
// milliseconds of performance.now().
const { MAX_BATCH } = require('./codec');

const MAX_GROWTH = 4; // from one batch to the next

class Buffer {
  left = 0;
  taken = 0; // since the start
  discarded = 0; // for their age, likewise
  #prefetchMs;
  #maxAgeMs;
  #runs = []; // of {next, left, expiresAt}, oldest first
  #first = 0; // runs before it are used up
  #target = 0;
  #measuredAt = -Infinity;
  #rated = 0; // IDs taken since then, as far as they count for the rate

  constructor(prefetchMs, maxAgeMs) {
    this.#prefetchMs = prefetchMs;
    this.#maxAgeMs = maxAgeMs;
  }

  /** Returns the oldest ID that is not too old, or undefined. */
  take() {
    while (this.#first < this.#runs.length) {
      const run = this.#runs[this.#first];
      if (performance.now() < run.expiresAt) {
        return this.#next(run);
      }
      this.#discard();
    }
    return undefined;
  }

  /** Returns up to `count` IDs, whatever their age. Those of a call for many IDs that waited for a
   * server do not count for the rate. */
  takeMany(count, isRated = true) {
    const ids = [];
    this.#rated -= isRated ? 0 : Math.min(count, this.left);
    while (ids.length < count && this.left > 0) {
      ids.push(this.#next(this.#runs[this.#first]));
    }
    return ids;
  }

  #next(run) {
    const id = run.next;
    run.next += 1n;
    run.left -= 1;
    this.left -= 1;
    this.taken += 1;
    this.#rated += 1;
    if (run.left === 0) {
      this.#first += 1;
    }
    return id;
  }

  /** Their age counts from `askedAt`. */
  put(runs, askedAt) {
    this.#runs.splice(0, this.#first);
    this.#first = 0;
    for (const { first, count } of runs) {
      this.#runs.push({ next: first, left: count, expiresAt: askedAt + this.#maxAgeMs });
      this.left += count;
    }
  }

  discardOld() {
    const now = performance.now();
    while (this.#first < this.#runs.length && now >= this.#runs[this.#first].expiresAt) {
      this.#discard();
    }
  }

  #discard() {
    this.left -= this.#runs[this.#first].left;
    this.discarded += this.#runs[this.#first].left;
    this.#first += 1;
  }

  clear() {
    this.#runs = [];
    this.#first = this.left = 0;
  }

  get isLow() {
    return this.left * 2 < this.#target;
  }

  /**
   * Returns how many IDs to request now, 1 or more. All that are then in the buffer last for
   * prefetchMs and two round trips. A program that takes IDs more seldom than they expire gets one.
   */
  wanted(roundTripMs) {
    const now = performance.now();
    const perMs = this.#rated / Math.max(now - this.#measuredAt, 0.001);
    this.#measuredAt = now;
    this.#rated = 0;
    if (perMs * this.#maxAgeMs < 1) {
      this.#target = 0;
    } else {
      const spanMs = this.#prefetchMs + 2 * Math.min(roundTripMs, this.#maxAgeMs / 4);
      this.#target = Math.min(Math.ceil(perMs * spanMs), MAX_GROWTH * Math.max(this.#target, 1),
        MAX_BATCH);
    }
    return Math.max(this.#target - this.left, 1);
  }
}

module.exports = { Buffer };
