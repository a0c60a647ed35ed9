// SPDX-License-Identifier: Apache-2.0

// How values are written, and how text gets into the page: as text, whatever is in it.

export const byId = (id) => document.getElementById(id);

export function put(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

// Shown with that text; hidden without one.
export function putOrHide(id, text) {
  put(id, text ?? "");
  byId(id).hidden = !text;
}

export function make(name, className, text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

// Rows of a <dl>: [term, text], [term, text, class].
export function putRows(list, rows) {
  list.replaceChildren(...rows.map(([term, text, className]) => {
    const row = make("div", className);
    row.append(make("dt", "", term), make("dd", "", text));
    return row;
  }));
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const whole = (number) => WHOLE.format(number);
export const short = (number) => SHORT.format(number);
// What is not known is a dash.
export const orDash = (value, write) => (value == null ? "–" : write(value));

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

const UNITS = [["y", 31557600], ["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// The two largest units: "3 d 4 h", "9 min 58 s".
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  return UNITS.slice(first, first + 2).map(([unit, size], i) => {
    const above = i === 0 ? Infinity : UNITS[first][1];
    return [Math.floor((seconds % above) / size), unit];
  }).filter(([count], i) => i === 0 || count > 0).map((pair) => pair.join(" ")).join(" ");
}

export function microseconds(us) {
  if (us < 1000) return `${us < 10 ? us.toFixed(1) : whole(us)} µs`;
  if (us < 1e6) return `${(us / 1000).toPrecision(3)} ms`;
  return `${(us / 1e6).toPrecision(3)} s`;
}

export function skew(ms) {
  const size = Math.abs(ms);
  const text = size < 1000 ? `${size.toFixed(1)} ms` : `${(size / 1000).toFixed(1)} s`;
  return `${ms < 0 ? "−" : "+"}${text}`;
}

// "2026-11-21 17:06:27 UTC"
export const time = (ms) => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
export const clockTime = (ms) => new Date(ms).toISOString().slice(11, 19);
