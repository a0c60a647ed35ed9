// SPDX-License-Identifier: Apache-2.0

// The box that takes an ID apart. The server does it; only the row of bits is made here.

import { byId, duration, make, put, putRows, whole } from "./text.js";

const ALL_BITS = 64;

let layout = null;
let latest = 0;

export function useLayout(known) {
  layout = known;
}

// [class, name, bits, value] from the highest bit on.
function fields(parts) {
  const { time_bits, datacenter_bits, worker_bits, sequence_bits } = layout;
  const unused = ALL_BITS - time_bits - datacenter_bits - worker_bits - sequence_bits;
  const ago = Date.now() - parts.timestamp_ms;
  const when = ago >= 0 ? `${duration(ago)} ago` : `in ${duration(-ago)}`;
  return [
    ["unused", unused === 1 ? "sign" : "unused", unused, "0"],
    ["time", "time", time_bits, `${parts.time}, ${when}`],
    ["datacenter", "datacenter", datacenter_bits, whole(parts.datacenter_id)],
    ["worker", "worker", worker_bits, whole(parts.worker_id)],
    ["sequence", "sequence", sequence_bits, whole(parts.sequence)],
  ].filter(([, , bits]) => bits > 0);
}

function showBits(id, list) {
  const digits = BigInt.asUintN(ALL_BITS, BigInt(id)).toString(2).padStart(ALL_BITS, "0");
  const nodes = [], words = [];
  let from = 0;
  for (const [className, name, bits] of list) {
    const own = digits.slice(from, from + bits);
    words.push(`${name} ${own}`);
    for (const digit of own) nodes.push(make("span", className, digit));
    nodes[from].classList.add("first");
    from += bits;
  }
  byId("bits").replaceChildren(...nodes);
  byId("bits").setAttribute("aria-label", `Bits: ${words.join(", ")}`);
}

function show(parts) {
  const list = fields(parts);
  showBits(parts.id, list);
  putRows(byId("parts"), list.map(([className, name, bits, value]) =>
    [`${name}, ${bits} ${bits === 1 ? "bit" : "bits"}`, value, className]));
}

// What the server says of the text: its parts, or {error}.
async function ask(text) {
  try {
    const response = await fetch(`decode/${encodeURIComponent(text)}`,
      { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(3000) });
    return await response.json();
  } catch (error) {
    // "." and ".." lead to a page that is not JSON
    const isReply = error instanceof SyntaxError;
    return { error: isReply ? `${text} is not an ID` : "the server does not answer" };
  }
}

async function decode() {
  const text = byId("id").value.trim();
  const turn = ++latest;
  const answer = text === "" ? {} : await ask(text);
  if (turn !== latest) return;
  const decoded = "id" in answer && layout !== null;
  if (decoded) show(answer);
  byId("decoded").hidden = !decoded;
  put("decode-error", answer.error ?? "");
  byId("id").setAttribute("aria-invalid", String("error" in answer));
}

byId("id").addEventListener("input", decode);
byId("decode").addEventListener("submit", (event) => {
  event.preventDefault();
  decode();
});
