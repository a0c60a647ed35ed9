// SPDX-License-Identifier: Apache-2.0

// Polls the server and shows its status, or since when it has not answered.

import { useLayout } from "./decode.js";
import { showFleet, showFleetFailure } from "./fleet.js";
import { showRate } from "./plot.js";
import { byId, clockTime, duration, make, microseconds, orDash, plural, put, putOrHide, short, skew, time,
  whole } from "./text.js";

const STATUS_EVERY_MS = 1000;
const WORKERS_EVERY_MS = 3000;
const AGAIN_AFTER_MS = 1000; // where there was no answer
const ANSWER_WITHIN_MS = 3000;
const AGENTS_SHOWN = 6;
const AGENT_PREFIX = "ids_generated_";
const CRITICAL_LEFT_MS = 10000;
const CERTIFICATE_SOON_MS = 30 * 86400000;

// What is not here is bad.
const STATE_LEVELS = { serving: "good", starting: "warn", waiting: "warn", reclaiming: "warn",
  draining: "warn" };
const MARKS = { good: "●", warn: "▲", bad: "■", quiet: "○" };

let goneSince = null;
let said = "";

// For those who hear the page: once for each change.
function say(text) {
  if (text !== said) put("spoken", text);
  said = text;
}

function badge(id, level, text) {
  byId(id).className = `badge ${level}`;
  put(id, `${MARKS[level]} ${text}`);
}

// The end of the server's certificate, with a mark in its last month, as the log has it.
function showCertificate(expiresMs, nowMs) {
  const endsSoon = expiresMs !== null && expiresMs - nowMs < CERTIFICATE_SOON_MS;
  put("certificate", expiresMs === null ? "not used" : `${endsSoon ? `${MARKS.warn} ` : ""}until ` +
    time(expiresMs).slice(0, 10));
  byId("certificate").className = endsSoon ? "warn" : "";
}

function showIdentity(status) {
  const worker = status.worker_id ?? "none";
  put("address", status.address);
  badge("state", STATE_LEVELS[status.state] ?? "bad", status.state);
  putOrHide("why", status.ready ? "" : `Not ready: ${status.why_not_ready}`);
  put("datacenter", String(status.datacenter_id));
  put("worker", String(worker));
  put("uptime", duration(status.uptime_s * 1000));
  put("version", status.version);
  put("session", status.session ?? "not used");
  put("nonce", status.nonce);
  showCertificate(status.certificate_expires_ms, status.now_ms);
  document.title = `${status.state}, ${status.datacenter_id}/${worker}: ${status.address}`;
}

function showLayout(layout, nowMs) {
  const bits = [layout.time_bits, layout.datacenter_bits, layout.worker_bits, layout.sequence_bits];
  put("layout", `${layout.name}, ${bits.join("+")}`);
  put("layout-end", time(nowMs + layout.left_days * 86400000).slice(0, 10));
  put("limit", whole(layout.ids_per_ms * 1000));
  useLayout(layout);
}

// [level, words] of how long IDs can be issued if the reservation is not extended any more.
function judge({ left_ms, length_ms, extending_fails }) {
  if (extending_fails && left_ms < Math.min(CRITICAL_LEFT_MS, length_ms / 4))
    return ["bad", "extending fails, and it is all but over"];
  if (extending_fails) return ["warn", "extending fails"];
  return ["good", `of ${duration(length_ms)}`];
}

// The same where nothing is reserved.
function judgeNone(state) {
  if (state === "serving") return ["good", "idle: the next call reserves"]; // files
  if (state === "unavailable") return ["bad", "it has run out, and cannot be extended"];
  return ["warn", "nothing is reserved"];
}

function noteAhead(level, words) {
  put("reservation-note", level === "good" ? words : `${MARKS[level]} ${words}`);
  byId("reservation-note").className = level === "good" ? "note" : `note ${level}`;
}

function showReservation(reservation, state) {
  const { left_ms: left, length_ms: length } = reservation ?? { left_ms: 0, length_ms: 1 };
  const [level, words] = reservation ? judge(reservation) : judgeNone(state);
  const bar = byId("reservation-bar");
  put("reservation", duration(left));
  noteAhead(level, words);
  bar.className = `bar ${level}`;
  bar.setAttribute("aria-valuemax", String(length));
  bar.setAttribute("aria-valuenow", String(Math.min(left, length)));
  bar.setAttribute("aria-valuetext", `${duration(left)}, ${words}`);
  bar.firstElementChild.style.width = `${100 * Math.min(1, left / length)}%`;
}

// A relay has no reservation, so it shows its prefetch buffer.
function showRelay({ server, connected, prefetched_ids: prefetched }) {
  put("reservation-head", "Prefetched");
  put("reservation", plural(prefetched, "ID"));
  if (connected) noteAhead("good", `from ${server}`);
  else noteAhead("bad", "no server can be asked for more");
  byId("reservation-bar").hidden = true;
}

function showLatency(latency) {
  for (const name of ["p50", "p99", "p999"])
    put(name, orDash(latency?.[name], microseconds));
}

function showLoad(status) {
  const { audit } = status;
  put("connections", `${whole(status.connections)} of ${whole(status.max_connections)}`);
  put("waiting-calls", orDash(status.waiting_calls, whole));
  put("audit", !audit ? "no audit log" : plural(audit.queued_ids, "ID") +
    (audit.dropped_ids ? `, ▲ ${whole(audit.dropped_ids)} dropped` : ""));
  byId("audit").className = audit?.dropped_ids ? "warn" : "";
}

function showClock(clock) {
  put("registry-skew", orDash(clock?.registry_skew_ms, skew));
  put("peers-skew", orDash(clock?.peers_skew_ms, skew));
  put("ahead", orDash(clock?.ahead_ms, (ms) => `${ms.toFixed(1)} ms`));
}

function showCounters(counters) {
  const agents = Object.entries(counters).filter(([name, ids]) =>
    name.startsWith(AGENT_PREFIX) && ids > 0).sort(([, a], [, b]) => b - a);
  put("ids", whole(counters.ids_generated));
  put("calls", whole(counters.calls));
  put("exceptions", whole(counters.exceptions));
  byId("agents").replaceChildren(...agents.slice(0, AGENTS_SHOWN).map(([name, ids]) => {
    const item = make("li", "", `${name.slice(AGENT_PREFIX.length).replace("_", " ")} `);
    item.append(make("span", "number", short(ids)));
    return item;
  }));
  byId("no-agents").hidden = agents.length > 0;
}

function showStatus(status) {
  goneSince = null;
  byId("main").classList.remove("old");
  putOrHide("alarm", "");
  badge("link", "good", `live, ${clockTime(status.now_ms)} UTC`);
  say(`Server ${status.state}${status.ready ? "" : `, not ready: ${status.why_not_ready}`}`);

  showIdentity(status);
  showLayout(status.layout, status.now_ms);
  put("rate", orDash(status.rate.now, whole));
  showRate(status.rate);
  if (status.relay) showRelay(status.relay);
  else showReservation(status.reservation, status.state);
  showLatency(status.latency_us);
  showClock(status.clock);
  showLoad(status);
  showCounters(status.counters);
}

function showGone(why) {
  goneSince ??= Date.now();
  const since = `${clockTime(goneSince)} UTC`;
  byId("main").classList.add("old");
  badge("link", "bad", "no answer");
  putOrHide("alarm", `${MARKS.bad} No answer from this server since ${since}, for ` +
    `${duration(Date.now() - goneSince)} (${why}). What is below is how it was before; the page ` +
    "goes on asking.");
  say(`No answer from the server since ${since}`);
  document.title = `no answer: ${byId("address").textContent}`;
}

async function load(path) {
  const response = await fetch(path, { cache: "no-store",
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function reasonOf(error) {
  if (error instanceof TypeError) return "nothing listens there";
  return error.name === "TimeoutError" ? "too slow" : error.message;
}

// Whether there was an answer.
async function ask(path, show, fail) {
  let answer;
  try {
    answer = await load(path);
  } catch (error) {
    fail(reasonOf(error));
    return false;
  }
  show(answer);
  return true;
}

// Nobody is asked for a page that nobody sees.
async function poll(path, everyMs, show, fail) {
  let answered = false;
  try {
    answered = !document.hidden && await ask(path, show, fail);
  } finally {
    setTimeout(poll, answered ? everyMs : AGAIN_AFTER_MS, path, everyMs, show, fail);
  }
}

poll("status.json", STATUS_EVERY_MS, showStatus, showGone);
poll("workers.json", WORKERS_EVERY_MS, showFleet, showFleetFailure);
