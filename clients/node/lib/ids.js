// SPDX-License-Identifier: Apache-2.0
'use strict';
// The fields of IDs, the IDs of a time range, and text forms that sort as IDs do; index.d.ts documents
// them. An ID is a string of decimal digits or a BigInt. A number is refused: it is exact only up to
// 2^53.
const MAX_ID = 2n ** 63n - 1n;

function toBigInt(id) {
  const number = typeof id === 'string' && /^[0-9]{1,19}$/.test(id) ? BigInt(id) : id;
  if (typeof number !== 'bigint') {
    throw new TypeError(`${String(id).slice(0, 40)} is not an ID: it must be a string of decimal `
      + 'digits or a BigInt');
  }
  if (number < 0n || number > MAX_ID) {
    throw new RangeError(`${number} is not an ID: it must be 0 to ${MAX_ID}`);
  }
  return number;
}

function formed(number, { bigint = false } = {}) {
  return bigint ? number : String(number);
}

class Layout {
  constructor({ epochMs, timeBits, datacenterBits, workerBits, sequenceBits, timeUnitMs = 1 }) {
    const bits = [timeBits, datacenterBits, workerBits, sequenceBits];
    if (![epochMs, timeUnitMs, ...bits].every(Number.isSafeInteger) || Math.min(...bits) < 0
        || timeUnitMs < 1 || bits.reduce((sum, one) => sum + one) > 63) {
      throw new RangeError(`a layout of ${bits} bits, a unit of ${timeUnitMs} ms and the epoch `
        + `${epochMs}: must be integers, and at most 63 bits`);
    }
    Object.freeze(Object.assign(this, {
      epochMs, timeBits, datacenterBits, workerBits, sequenceBits, timeUnitMs,
    }));
  }

  decode(id) {
    const number = toBigInt(id);
    const ticks = number >> this.#lowBits;
    if (ticks >= this.#endTick) {
      throw new RangeError(`${number} is not an ID of this layout: it must be 0 to `
        + `${(this.#endTick << this.#lowBits) - 1n}`);
    }
    const field = (shift, bits) => Number(BigInt.asUintN(bits, number >> BigInt(shift)));
    return {
      time: new Date(this.epochMs + Number(ticks) * this.timeUnitMs),
      datacenter: field(this.sequenceBits + this.workerBits, this.datacenterBits),
      worker: field(this.sequenceBits, this.workerBits),
      sequence: field(0, this.sequenceBits),
    };
  }

  range(from, to, options) {
    const [first, last] = [this.#tickOf(from), this.#tickOf(to)];
    if (from > to || last < 0n || first >= this.#endTick) {
      throw new RangeError(`${from.toISOString()} to ${to.toISOString()} is not a time range in `
        + 'the layout');
    }
    const lowest = (first < 0n ? 0n : first) << this.#lowBits;
    const end = (last < this.#endTick ? last + 1n : this.#endTick) << this.#lowBits;
    return [formed(lowest, options), formed(end - 1n, options)];
  }

  get #lowBits() {
    return BigInt(this.datacenterBits + this.workerBits + this.sequenceBits);
  }

  get #endTick() {
    return 1n << BigInt(this.timeBits);
  }

  #tickOf(time) {
    if (!(time instanceof Date) || Number.isNaN(time.getTime())) {
      throw new TypeError(`${String(time).slice(0, 40)} is not a valid Date`);
    }
    return BigInt(Math.floor((time.getTime() - this.epochMs) / this.timeUnitMs));
  }
}

const TWITTER = new Layout({
  epochMs: 1288834974657, timeBits: 41, datacenterBits: 5, workerBits: 5, sequenceBits: 12,
});

/** Returns [write, read] for a text form with `width` digits; also reads `aliases` of digits. */
function textForm(name, digits, width, aliases) {
  const base = BigInt(digits.length);
  const write = (id) => {
    let [number, text] = [toBigInt(id), ''];
    for (; text.length < width; number /= base) {
      text = digits[Number(number % base)] + text;
    }
    return text;
  };
  const read = (text, options) => {
    if (typeof text !== 'string') {
      throw new TypeError(`${String(text).slice(0, 40)} is not a string`);
    }
    const values = [...text.slice(0, width + 1)].map((one) => digits.indexOf(aliases(one)));
    const number = values.reduce((sum, value) => sum * base + BigInt(value), 0n);
    if (values.length < 1 || values.length > width || values.includes(-1) || number > MAX_ID) {
      throw new RangeError(`${JSON.stringify(text.slice(0, 40))} is not an ID in ${name}: it must `
        + `be 1 to ${width} of its digits, at most ${write(MAX_ID)}`);
    }
    return formed(number, options);
  };
  return [write, read];
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const [toBase62, fromBase62] = textForm('base62',
  `0123456789${LETTERS}${LETTERS.toLowerCase()}`, 11, (digit) => digit);
const [toCrockford, fromCrockford] = textForm("Crockford's base 32",
  '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 13, (digit) => (/[a-z]/i.test(digit)
    ? digit.toUpperCase().replace(/[IL]/, '1').replace('O', '0') : digit));

module.exports = {
  Layout,
  TWITTER,
  decode: (id, layout = TWITTER) => layout.decode(id),
  range: (from, to, { layout = TWITTER, bigint } = {}) => layout.range(from, to, { bigint }),
  toBigInt,
  formed,
  toBase62,
  fromBase62,
  toCrockford,
  fromCrockford,
};
