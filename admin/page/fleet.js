// SPDX-License-Identifier: Apache-2.0

// Who has which worker ID: a row of cells for each datacenter that has any taken, and what is known
// of the one that is pointed at, or was chosen last.

import { byId, clockTime, duration, make, microseconds, plural, put, putOrHide, putRows, skew, time,
  whole } from "./text.js";

// Of a datacenter with more worker IDs, only those that are taken are shown,
const MOST_DRAWN = 64;
// and of these not more.
const MOST_TAKEN = 1000;

const WARNING = "▲"; // before a count that needs an operator

const SIGNS = { self: "this server", serving: "serving", held: "held, not serving",
  quarantined: "quarantined" };

let taken = new Map();   // key: what holds a worker ID, or holds it back
let cells = new Map();   // key: its button
let structure = "";
let chosen = null, pointedAt = null;

function signOf(worker) {
  if (worker.self) return "self";
  return worker.state === "serving" ? "serving" : "held";
}

function until(text, nowMs) {
  if (!text) return "nothing";
  const ms = Date.parse(text), left = ms - nowMs;
  return left > 0 ? `${time(ms)}, in ${duration(left)}` : `${time(ms)}, over`;
}

function rowsOfWorker(worker, nowMs) {
  const since = worker.claimed_at && Date.parse(worker.claimed_at);
  const rows = [
    worker.program ? ["Program", worker.program] : ["Address", worker.address || "not known"],
    ["State", `${worker.state ?? "not known"}${worker.self ? ", this server" : ""}`],
    ["Claimed", since ? `${time(since)}, ${duration(nowMs - since)} ago` : "not yet"],
    ["Reserved until", until(worker.reserved_until, nowMs)],
  ];
  if (worker.round_trip_us != null) rows.push(["Round trip", microseconds(worker.round_trip_us)]);
  if (worker.clock_skew_us != null) rows.push(["Clock", skew(worker.clock_skew_us / 1000)]);
  rows.push(["Nonce", worker.nonce ?? "not known", "long"]);
  return rows;
}

function rowsOfQuarantined(record, nowMs) {
  return [
    ["State", "quarantined: nobody holds it, and what a server reserved is not over"],
    ["Reserved until", until(new Date(record.reserved_until_ms).toISOString(), nowMs)],
  ];
}

// A worker ID of -1 is none yet: such servers are told apart by their nonces.
function keyOf(entry) {
  return entry.worker_id < 0 ? `${entry.datacenter_id}/${entry.nonce}`
    : `${entry.datacenter_id}/${entry.worker_id}`;
}

function entriesOf(list) {
  const found = new Map();
  const add = (entry, sign, rows) => found.set(keyOf(entry), { datacenter: entry.datacenter_id,
    worker: entry.worker_id, sign, rows, address: entry.program ?? entry.address });
  for (const record of list.quarantined ?? [])
    add(record, "quarantined", rowsOfQuarantined(record, list.as_of_ms));
  for (const worker of list.workers.filter(({ kind }) => kind !== "relay")) // it holds none
    add(worker, signOf(worker), rowsOfWorker(worker, list.as_of_ms));
  return found;
}

const headOf = (entry) => `Datacenter ${entry.datacenter}, ` +
  (entry.worker < 0 ? "no worker ID yet" : `worker ${entry.worker}`);

function labelOf(entry) {
  const address = entry.address ? `, ${entry.address}` : "";
  return `${entry.worker < 0 ? "No worker ID yet" : `Worker ${entry.worker}`}: ` +
    `${SIGNS[entry.sign]}${address}`;
}

function makeCell(key, entry) {
  const cell = make("button", "", entry.worker < 0 ? "–" : String(entry.worker));
  cell.type = "button";
  cell.dataset.key = key;
  cell.tabIndex = -1;
  cells.set(key, cell);
  return cell;
}

function makeFree(worker) {
  const cell = make("span", "cell free", String(worker));
  cell.setAttribute("aria-hidden", "true");
  return cell;
}

const rank = (key) => (taken.get(key).worker < 0 ? Infinity : taken.get(key).worker);

// In order of worker IDs, those without one last; with the free ones between them if all are drawn.
function rowOf(keys, size) {
  const buttons = keys.sort((a, b) => rank(a) - rank(b)).slice(0, MOST_TAKEN)
    .map((key) => makeCell(key, taken.get(key)));
  if (size > MOST_DRAWN) return buttons;
  const nodes = Array.from({ length: size }, (_, worker) => makeFree(worker));
  buttons.forEach((button, i) => {
    if (taken.get(keys[i]).worker < 0) nodes.push(button);
    else nodes[taken.get(keys[i]).worker] = button;
  });
  return nodes;
}

function countsOf(keys, size) {
  const of = (...signs) => keys.filter((key) => taken.get(key).worker >= 0 &&
    signs.includes(taken.get(key).sign)).length;
  const held = of("self", "serving", "held"), quarantined = of("quarantined");
  const waiting = keys.filter((key) => taken.get(key).worker < 0).length;
  const free = size - held - quarantined;
  return `${whole(held)} held` + (quarantined ? `, ${whole(quarantined)} quarantined` : "") +
    `, ${free === 0 ? `${WARNING} ` : ""}${whole(free)} free` +
    (waiting ? `, ${WARNING} ${plural(waiting, "server")} without a worker ID` : "") +
    (keys.length > MOST_TAKEN ? `; the first ${whole(MOST_TAKEN)} of them are shown` : "");
}

function makeDatacenter(datacenter, keys, size) {
  const section = make("section", "datacenter");
  const head = make("h3", "", `Datacenter ${datacenter} `);
  const row = make("div", size > MOST_DRAWN ? "cells few" : "cells");
  const counts = countsOf(keys, size);
  head.append(make("span", counts.includes(WARNING) ? "note warn" : "note", counts));
  row.setAttribute("role", "toolbar");
  row.setAttribute("aria-label", `Worker IDs of datacenter ${datacenter}`);
  row.append(...rowOf(keys, size));
  row.querySelector("button").tabIndex = 0;
  section.append(head, row);
  return section;
}

function rebuild(size) {
  const focused = document.activeElement?.dataset.key;
  const byDatacenter = Map.groupBy(taken.keys(), (key) => taken.get(key).datacenter);
  cells = new Map();
  byId("datacenters").replaceChildren(...[...byDatacenter].sort(([a], [b]) => a - b)
    .map(([datacenter, keys]) => makeDatacenter(datacenter, keys, size)));
  if (focused && cells.has(focused)) cells.get(focused).focus();
}

function refreshCells() {
  for (const [key, cell] of cells) {
    const entry = taken.get(key);
    const label = labelOf(entry);
    const className = `cell ${entry.sign}${key === chosen ? " chosen" : ""}`;
    if (cell.className !== className) cell.className = className;
    if (cell.getAttribute("aria-label") !== label) cell.setAttribute("aria-label", label);
  }
}

function showDetails() {
  const own = [...taken.keys()].find((key) => taken.get(key).sign === "self");
  const entry = [pointedAt, chosen, own].map((key) => taken.get(key)).find(Boolean);
  byId("details").hidden = !entry;
  if (!entry) return;
  put("details-head", headOf(entry));
  putRows(byId("details-rows"), entry.rows);
}

export function showFleet(list) {
  const size = 2 ** list.worker_bits, datacenters = 2 ** list.datacenter_bits;
  taken = entriesOf(list);
  const shape = JSON.stringify([size, [...taken].map(([key, { sign }]) => [key, sign])]);
  if (shape !== structure) rebuild(size);
  structure = shape;
  refreshCells();
  showDetails();

  const rest = datacenters - new Set([...taken.values()].map((entry) => entry.datacenter)).size;
  put("fleet-note", `${plural(list.workers.length, "server")}, as of ${clockTime(list.as_of_ms)} UTC`);
  putOrHide("fleet-rest", [
    rest > 0 && `${plural(rest, "more datacenter")}, ${whole(size)} worker IDs each, with none taken.`,
    !list.quarantined_known && "Which worker IDs are quarantined is not known: they count as free.",
  ].filter(Boolean).join(" "));
}

export function showFleetFailure(why) {
  put("fleet-note", `${taken.size > 0 ? "not up to date" : "not known"}: ${why}`);
}

function choose(key) {
  chosen = key;
  for (const cell of cells.get(key).parentElement.querySelectorAll("button"))
    cell.tabIndex = cell.dataset.key === key ? 0 : -1;
  refreshCells();
  showDetails();
}

const STEPS = { ArrowRight: (i) => i + 1, ArrowLeft: (i) => i - 1, Home: () => 0,
  End: (_, count) => count - 1 };

function walk(event) {
  const step = STEPS[event.key];
  if (!step || !event.target.dataset.key) return;
  const row = [...event.target.parentElement.querySelectorAll("button")];
  row[step(row.indexOf(event.target), row.length)]?.focus();
  event.preventDefault();
}

function point(event) {
  const key = event.type === "pointerover" ? event.target.dataset.key ?? null : null;
  if (key === pointedAt) return;
  pointedAt = key;
  showDetails();
}

const fleet = byId("datacenters");
for (const type of ["focusin", "click"])
  fleet.addEventListener(type, ({ target }) => target.dataset.key && choose(target.dataset.key));
for (const type of ["pointerover", "pointerleave"]) fleet.addEventListener(type, point);
fleet.addEventListener("keydown", walk);
