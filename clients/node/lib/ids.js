// SPDX-License-Identifier: Apache-2.0
'use strict';
// What IDs are: their parts, the IDs of a span of time, and text forms that sort as they do. An ID is
// a string of decimal digits or a BigInt; a number has lost what is above 2^53, so it is refused.

const MAX_ID = 2n ** 63n - 1n;

/** The BigInt of an ID. */
function toNumber(id) {
  if (typeof id === 'string' && /^[0-9]{1,19}$/.test(id)) {
    id = BigInt(id);
  }
  if (typeof id !== 'bigint') {
    throw new TypeError(`${String(id).slice(0, 40)} is no ID: a string of decimal digits or a `
      + 'BigInt');
  }
  if (id < 0n || id > MAX_ID) {
    throw new RangeError(`${id} is no ID: 0 to ${MAX_ID}`);
  }
  return id;
}

function formed(number, { bigint = false } = {}) {
  return bigint ? number : String(number);
}

/** How an ID divides, from high bits to low: time, datacenter, worker, sequence. */
class Layout {
  constructor({ epochMs, timeBits, datacenterBits, workerBits, sequenceBits, timeUnitMs = 1 }) {
    const bits = timeBits + datacenterBits + workerBits + sequenceBits;
    const parts = [epochMs, timeBits, datacenterBits, workerBits, sequenceBits, timeUnitMs];
    if (!parts.every(Number.isSafeInteger) || Math.min(...parts.slice(1)) < 0 || timeUnitMs < 1
        || bits > 63) {
      throw new RangeError(`a layout of ${parts.slice(1, 5)} bits, a unit of ${timeUnitMs} ms and `
        + `the epoch ${epochMs}: not integers, or above 63 bits`);
    }
    Object.assign(this, {
      epochMs, timeBits, datacenterBits, workerBits, sequenceBits, timeUnitMs,
    });
    Object.freeze(this);
  }

  /** The parts of an ID; RangeError if it is none of this layout. */
  decode(id) {
    const number = toNumber(id);
    const ticks = number >> this.#lowBits;
    if (ticks >> BigInt(this.timeBits)) {
      throw new RangeError(`${number} is no ID of this layout: 0 to ${this.#after() - 1n}`);
    }
    const part = (shift, bits) => Number(BigInt.asUintN(bits, number >> BigInt(shift)));
    return {
      time: new Date(this.epochMs + Number(ticks) * this.timeUnitMs),
      datacenter: part(this.sequenceBits + this.workerBits, this.datacenterBits),
      worker: part(this.sequenceBits, this.workerBits),
      sequence: part(0, this.sequenceBits),
    };
  }

  /**
   * The lowest ID of `from` and the highest of `to`, for WHERE id BETWEEN. A tick that the span has
   * only a part of counts as a whole. The span may begin before the layout or end after it;
   * RangeError if it ends before it begins, or is all outside the layout.
   */
  range(from, to, options) {
    const first = this.#tick(from);
    const last = this.#tick(to);
    if (from > to) {
      throw new RangeError(`the span ends at ${to.toISOString()}, before it begins, at `
        + from.toISOString());
    }
    const ticks = 1n << BigInt(this.timeBits);
    if (last < 0n || first >= ticks) {
      throw new RangeError(`${from.toISOString()} to ${to.toISOString()} is outside the layout`);
    }
    const lowest = (first < 0n ? 0n : first) << this.#lowBits;
    const highest = ((last < ticks ? last + 1n : ticks) << this.#lowBits) - 1n;
    return [formed(lowest, options), formed(highest, options)];
  }

  get #lowBits() {
    return BigInt(this.datacenterBits + this.workerBits + this.sequenceBits);
  }

  #after() {
    return 1n << BigInt(this.timeBits) + this.#lowBits;
  }

  #tick(time) {
    if (!(time instanceof Date) || Number.isNaN(time.getTime())) {
      throw new TypeError(`${String(time).slice(0, 40)} is no valid Date`);
    }
    return BigInt(Math.floor((time.getTime() - this.epochMs) / this.timeUnitMs));
  }
}

const TWITTER = new Layout({
  epochMs: 1288834974657, timeBits: 41, datacenterBits: 5, workerBits: 5, sequenceBits: 12,
});

/** The time, datacenter, worker and sequence of an ID. */
function decode(id, layout = TWITTER) {
  return layout.decode(id);
}

/** The lowest and the highest ID of a span of time: see Layout.range. */
function range(from, to, { layout = TWITTER, bigint = false } = {}) {
  return layout.range(from, to, { bigint });
}

class Form {
  #values;

  constructor(name, digits, width, values) {
    this.name = name;
    this.digits = digits;
    this.width = width;
    this.#values = values;
  }

  write(id) {
    const base = BigInt(this.digits.length);
    let number = toNumber(id);
    let text = '';
    for (let n = 0; n < this.width; n += 1) {
      text = this.digits[Number(number % base)] + text;
      number /= base;
    }
    return text;
  }

  read(text, options) {
    if (typeof text !== 'string') {
      throw new TypeError(`${String(text).slice(0, 40)} is no string`);
    }
    let number = 0n;
    for (const digit of text.slice(0, this.width + 1)) {
      const value = this.#values.get(digit);
      if (value === undefined) {
        throw this.#noId(text);
      }
      number = number * BigInt(this.digits.length) + value;
    }
    if (text.length < 1 || text.length > this.width || number > MAX_ID) {
      throw this.#noId(text);
    }
    return formed(number, options);
  }

  #noId(text) {
    return new RangeError(`${JSON.stringify(text.slice(0, 40))} is no ID in ${this.name}: 1 to `
      + `${this.width} of its digits, ${this.write(MAX_ID)} at most`);
  }
}

function valuesOf(digits, others = {}) {
  const values = new Map([...digits].map((digit, value) => [digit, BigInt(value)]));
  for (const [other, digit] of Object.entries(others)) {
    values.set(other, values.get(digit));
  }
  return values;
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const BASE62_DIGITS = `0123456789${LETTERS}${LETTERS.toLowerCase()}`;
const CROCKFORD_DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const BASE62 = new Form('base62', BASE62_DIGITS, 11, valuesOf(BASE62_DIGITS));
const CROCKFORD = new Form("Crockford's base 32", CROCKFORD_DIGITS, 13, valuesOf(CROCKFORD_DIGITS, {
  ...Object.fromEntries([...CROCKFORD_DIGITS.slice(10)].map((digit) => [digit.toLowerCase(), digit])),
  I: '1', i: '1', L: '1', l: '1', O: '0', o: '0',
}));

module.exports = {
  Layout, TWITTER, decode, range, toNumber, formed,
  toBase62: (id) => BASE62.write(id),
  fromBase62: (text, options) => BASE62.read(text, options),
  toCrockford: (id) => CROCKFORD.write(id),
  fromCrockford: (text, options) => CROCKFORD.read(text, options),
};
