// SPDX-License-Identifier: Apache-2.0

// Drives a headless Chromium for browser.py: a line of JSON in is {do, page, ...}, a line out
// {result} or {error}. Ends with its standard input.

import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

// In what a server says: every text but times, and the names of agents.
const AGENT = /^ids_generated_/;

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const pages = new Map();

function poison(value, html) {
  if (Array.isArray(value)) return value.map((each) => poison(each, html));
  if (typeof value === "string") return Number.isNaN(Date.parse(value)) ? value + html : value;
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) =>
    [AGENT.test(key) ? key + html : key, poison(each, html)]));
}

const commands = {
  async open({ page: name, url, width, height, scheme }) {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
    const own = new URL(url).origin;
    const entry = { page, problems: [], strangers: [] };
    page.setDefaultTimeout(30000);
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) entry.problems.push(message.text());
    });
    page.on("pageerror", (error) => entry.problems.push(error.stack));
    page.on("dialog", (dialog) => {
      entry.problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== own) entry.strangers.push(request.url());
    });
    pages.set(name, entry);
    await page.goto(url);
  },
  run: ({ page, script }) => pages.get(page).page.evaluate(script),
  press: ({ page, key }) => pages.get(page).page.keyboard.press(key),
  paste: ({ page, text }) => pages.get(page).page.keyboard.insertText(text),
  hover: ({ page, selector }) => pages.get(page).page.hover(selector),
  tap: ({ page, selector }) => pages.get(page).page.click(selector),
  resize: ({ page, width, height }) => pages.get(page).page.setViewportSize({ width, height }),
  scheme: ({ page, scheme }) => pages.get(page).page.emulateMedia({ colorScheme: scheme }),
  poison: ({ page, html }) => pages.get(page).page.route("**/*.json", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: poison(await response.json(), html) });
  }),
  screenshot: ({ page, path }) => pages.get(page).page.screenshot({ path, fullPage: true }),
  // what was wrong since it was asked last
  problems({ page }) {
    const { problems, strangers } = pages.get(page);
    return { problems: problems.splice(0), strangers: strangers.splice(0) };
  },
  async close({ page }) {
    const entry = pages.get(page);
    await entry.page.unrouteAll({ behavior: "wait" }); // or one under way ends the driver
    await entry.page.close();
    pages.delete(page);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...settings } = JSON.parse(line);
  const answer = await Promise.resolve().then(() => commands[name](settings))
    .then((result) => ({ result: result ?? null }), (error) => ({ error: error.stack }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
