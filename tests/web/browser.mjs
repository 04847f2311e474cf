// SPDX-License-Identifier: Apache-2.0
// Chromium for the stories of the web interface, with its own sandbox on. Everything a page does is recorded: violations of
// its Content-Security-Policy, errors of its scripts, requests to other origins, refusals, and each answer's text.
import { readFileSync } from 'node:fs';
import { request as send } from 'node:http';
import { chromium } from 'playwright-core';

export const config = JSON.parse(process.argv[2]);
const ORIGIN = config.url;
const MAX_ANSWERS = 4000;

export const record = { csp: [], errors: [], foreign: [], refused: [], answers: 0, planted: [] };

/** Tells the test a fact, as a line of JSON. */
export function tell(name, value = true) {
  process.stdout.write(`${JSON.stringify({ name, value })}\n`);
}

/** A request of the administrator, or with another key, outside of the browser. */
export function api(method, path, body, key = config.key, headers = {}) {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const url = new URL(path, ORIGIN);
    const asked = send(url, {
      method, headers: { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...(text === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
    }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => {
        const all = Buffer.concat(parts).toString();
        let json = null;
        try { json = JSON.parse(all); } catch { /* no JSON */ }
        resolve({ status: answer.statusCode, text: all, json });
      });
    });
    asked.on('error', reject);
    asked.end(text);
  });
}

export async function until(what, condition, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${seconds} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function start(args = []) {
  return chromium.launch({
    executablePath: config.chromium, chromiumSandbox: true,
    args: ['--disable-gpu', '--no-first-run', '--disable-background-networking', ...args],
  });
}

// Of a frame that a sandbox's page fills, requests go where that page wants: only frames of the interface are judged.
const ours = (frame) => { try { return frame && frame.parentFrame() === null; } catch { return false; } };

function watch(page, options) {
  page.on('console', (message) => {
    const text = message.text();
    if (/Content Security Policy|Content-Security-Policy/i.test(text)) record.csp.push(text.slice(0, 500));
    // The browser reports each answer of 400 and above; `refused` has those.
    else if (message.type() === 'error' && !text.startsWith('Failed to load resource')) record.errors.push(text.slice(0, 500));
  });
  page.on('pageerror', (error) => record.errors.push(`${error.message}\n${error.stack ?? ''}`.slice(0, 800)));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== ORIGIN && !['data:', 'blob:', 'about:'].includes(url.protocol) && ours(request.frame()) && !options.away) record.foreign.push(request.url());
  });
  page.on('response', async (response) => {
    if (!response.url().startsWith(ORIGIN)) return;
    record.answers += 1;
    if ([400, 403, 405, 422, 500].includes(response.status())) record.refused.push(`${response.status()} ${response.request().method()} ${response.url().slice(ORIGIN.length)}`);
    if (!config.marker || record.answers > MAX_ANSWERS || response.headers()['content-type']?.includes('event-stream')) return;
    const text = await response.text().catch(() => '');
    if (text.includes(config.marker)) record.planted.push(response.url().slice(ORIGIN.length));
  });
}

/** A browser profile of its own. `away`: its pages may leave the interface. */
export async function person(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true, ...options.context });
  context.setDefaultTimeout(options.timeout ?? 30_000);
  await context.exposeBinding('__violation', (_, text) => record.csp.push(text));
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => globalThis.__violation?.(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
  });
  context.on('page', (page) => watch(page, options));
  return context;
}

export const at = (path) => `${ORIGIN}/ui/${path}`;

/** Signs in on the page of sign-in, and waits for the screen. */
export async function signIn(page, key, path = '') {
  await page.goto(at(path));
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('main').getByRole('heading').first().waitFor();
}

/** Signs in without the page of sign-in; the page's own code does not run. */
export async function enter(context, key, path = '') {
  const made = await context.request.post(`${ORIGIN}/ui/session`, { data: { key }, headers: { Origin: ORIGIN } });
  if (made.status() !== 201) throw new Error(`sign-in: ${made.status()} ${await made.text()}`);
  const page = await context.newPage();
  await page.goto(at(path));
  return page;
}

/** Ends the sign-ins of a user, as an administrator does, and waits until the page says so. */
export async function endSignIns(page, user) {
  const { json } = await api('GET', '/v1/sign-ins');
  for (const each of json.sign_ins.filter((one) => one.user === user)) await api('DELETE', `/v1/sign-ins/${each.id}`);
  await page.getByText('Your session has ended.').waitFor();
}

/** Signs in on the page that asks for it. */
export async function signInHere(page, key) {
  await page.getByLabel('API key').fill(key);
  await page.keyboard.press('Enter');
  await page.getByLabel('API key').waitFor({ state: 'detached' });
}

export const axe = () => readFileSync(new URL('./node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Runs the story that the test named. A failure leaves a picture of each page. */
export async function run(stories) {
  const story = stories[config.story];
  if (!story) throw new Error(`no story ${config.story}`);
  const browser = await start(config.args);
  try {
    await story(browser);
  } catch (error) {
    for (const context of browser.contexts()) {
      for (const [index, page] of context.pages().entries()) {
        const text = await page.evaluate(() => document.body?.innerText ?? '').catch(() => '');
        process.stderr.write(`--- ${page.url()}\n${text.slice(0, 3000)}\n`);
        await page.screenshot({ path: `${config.pictures}/${config.story}-${index}.png` }).catch(() => undefined);
      }
    }
    process.stderr.write(`${error.stack}\n${JSON.stringify(record)}\n`);
    process.exitCode = 1;
  } finally {
    await new Promise((resolve) => setTimeout(resolve, 50));
    tell('record', record);
    await browser.close();
  }
}
