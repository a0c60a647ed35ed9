// SPDX-License-Identifier: Apache-2.0
'use strict';
// The IDs in hand: how many are wanted, and how old they may become. Times are in milliseconds of
// performance.now().
const { MAX_BATCH } = require('./wire');

const GROWTH = 4; // at most, from one batch to the next

class Hand {
  #prefetchMs;
  #maxAgeMs;
  #runs = []; // of {next, left, expires}, oldest first
  #first = 0; // those before it are used up
  #target = 0;
  #looked = -Infinity; // when the rate was measured last
  #taken = 0; // since then

  constructor(prefetchMs, maxAgeMs) {
    this.#prefetchMs = prefetchMs;
    this.#maxAgeMs = maxAgeMs;
    this.left = 0;
  }

  /** The oldest that is not too old; undefined: there is none. */
  take() {
    while (this.#first < this.#runs.length) {
      const run = this.#runs[this.#first];
      if (performance.now() < run.expires) {
        this.#taken += 1;
        return this.#next(run);
      }
      this.#dropFirst();
    }
    return undefined;
  }

  /** `count` at most, whatever their age. Only what `isOne` says is taken one by one counts for the
   * rate: a batch now and then is none. */
  takeMany(count, isOne = false) {
    const ids = [];
    while (ids.length < count && this.left > 0) {
      ids.push(this.#next(this.#runs[this.#first]));
    }
    this.#taken += isOne ? ids.length : 0;
    return ids;
  }

  #next(run) {
    const id = run.next;
    run.next += 1n;
    run.left -= 1;
    this.left -= 1;
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
      this.#runs.push({ next: first, left: count, expires: askedAt + this.#maxAgeMs });
      this.left += count;
    }
  }

  /** Throws away what is too old. */
  age() {
    const now = performance.now();
    while (this.#first < this.#runs.length && now >= this.#runs[this.#first].expires) {
      this.#dropFirst();
    }
  }

  #dropFirst() {
    this.left -= this.#runs[this.#first].left;
    this.#first += 1;
  }

  drop() {
    this.#runs = [];
    this.#first = this.left = 0;
  }

  get isLow() {
    return this.left * 2 < this.#target;
  }

  /**
   * How many are to be fetched now, 1 or more: so many that all in hand last for the time of
   * prefetch and two round trips. Who takes less often than IDs become too old gets just one.
   */
  wanted(roundTripMs) {
    const now = performance.now();
    const perMs = this.#taken / Math.max(now - this.#looked, 0.001);
    this.#looked = now;
    this.#taken = 0;
    if (perMs * this.#maxAgeMs < 1) {
      this.#target = 0;
    } else {
      const lastingMs = this.#prefetchMs + 2 * Math.min(roundTripMs, this.#maxAgeMs / 4);
      this.#target = Math.min(Math.ceil(perMs * lastingMs), GROWTH * Math.max(this.#target, 1),
        MAX_BATCH);
    }
    return Math.max(this.#target - this.left, 1);
  }
}

module.exports = { Hand };
