// SPDX-License-Identifier: Apache-2.0

// IDs a second over the last minutes, as an SVG of as many units as it has pixels.

import { byId, duration, put, short, whole } from "./text.js";

const LEFT = 44, RIGHT = 8, TOP = 10, BOTTOM = 22;
const LEAST_SAMPLES = 150;

let shown = { history: [], interval_s: 2 };

function svg(name, attributes, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

// A step of 1, 2 or 5 times a power of ten, so that two to five of them are the highest value.
function stepOf(highest) {
  const power = 10 ** Math.floor(Math.log10(highest / 2));
  return power * [5, 2, 1].find((factor) => factor * power <= highest / 2);
}

function axes(box, top, step, spanMs) {
  const nodes = [];
  for (let value = 0; value <= top; value += step) {
    const y = box.y(value);
    nodes.push(svg("line", { class: "grid", x1: LEFT, x2: box.right, y1: y, y2: y }),
      svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, short(value)));
  }
  for (const part of [0, 0.5, 1]) {
    const x = LEFT + part * (box.right - LEFT);
    const text = part === 1 ? "now" : `−${duration(spanMs * (1 - part))}`;
    nodes.push(svg("line", { class: "tick", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 4 }),
      svg("text", { x, y: box.bottom + 17, "text-anchor": ["start", "middle", "end"][part * 2] },
        text));
  }
  return nodes;
}

function draw() {
  const plot = byId("plot");
  const { width, height } = plot.getBoundingClientRect();
  const samples = shown.history;
  if (width <= LEFT + RIGHT) return;
  const highest = Math.max(10, ...samples);
  const step = stepOf(highest);
  const top = Math.ceil(highest / step) * step;
  const slots = samples.length > LEAST_SAMPLES ? 2 * LEAST_SAMPLES : LEAST_SAMPLES;
  const box = { right: width - RIGHT, bottom: height - BOTTOM };
  box.y = (value) => box.bottom - (value / top) * (box.bottom - TOP);
  const x = (i) => box.right - ((samples.length - 1 - i) / (slots - 1)) * (box.right - LEFT);
  const points = samples.map((value, i) => `${x(i).toFixed(1)},${box.y(value).toFixed(1)}`);
  const line = `M${points.join("L")}`;

  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  plot.replaceChildren(...axes(box, top, step, slots * shown.interval_s * 1000));
  if (points.length > 1) {
    plot.append(
      svg("path", { class: "area", d: `${line}L${box.right},${box.bottom}L${x(0)},${box.bottom}Z` }),
      svg("path", { class: "line", d: line }));
  }
  if (points.length > 0) {
    const last = samples.length - 1;
    plot.append(svg("circle", { class: "dot", cx: x(last), cy: box.y(samples[last]), r: 3 }));
  }
}

function caption() {
  const samples = shown.history;
  if (samples.length === 0) return "Nothing measured yet";
  const mean = samples.reduce((sum, value) => sum + value, 0) / samples.length;
  return `Mean ${whole(mean)}, highest ${whole(Math.max(...samples))}, in the last ` +
    `${duration(samples.length * shown.interval_s * 1000)}`;
}

export function showRate(rate) {
  shown = rate;
  put("plot-caption", caption());
  draw();
}

new ResizeObserver(draw).observe(byId("plot"));
