// SPDX-License-Identifier: Apache-2.0
// Pages that a sandbox serves, and names and output that it makes, against the person who looks at them.
import { api, config, enter, person, record, run, tell, until } from './browser.mjs';

// Runs in the hostile page. → what each attempt got; `got` means that it worked.
const attack = async ({ origin, execution, secret }) => {
  const results = {};
  const late = (promise) => Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve('nothing'), 2500))]);
  const attempt = async (name, act) => {
    try { results[name] = String(await late(act())); } catch (error) { results[name] = `refused: ${error.name}`; }
  };
  const read = async (path, options) => {
    const answer = await fetch(origin + path, { credentials: 'include', ...options });
    return answer.ok ? `got ${answer.status} ${(await answer.text()).slice(0, 80)}` : `refused: ${answer.status}`;
  };
  await attempt('whoami', () => read('/v1/whoami'));
  await attempt('session', () => read('/ui/session'));
  await attempt('executions', () => read('/v1/executions'));
  await attempt('make a key', () => read('/v1/keys', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"tenant":"acme","role":"admin","name":"stolen"}' }));
  await attempt('make a key as text', () => read('/v1/keys', { method: 'POST', mode: 'no-cors', headers: { 'Content-Type': 'text/plain' }, body: '{"tenant":"acme","role":"admin","name":"stolen"}' }));
  await attempt('run', () => read('/v1/executions', { method: 'POST', mode: 'no-cors', body: '{"language":"bash","code":"echo stolen"}' }));
  await attempt('sign in', () => read('/ui/session', { method: 'POST', mode: 'no-cors', headers: { 'Content-Type': 'text/plain' }, body: '{"key":"clo_x"}' }));
  await attempt('sign out', () => read('/ui/session', { method: 'DELETE' }));
  await attempt('form', () => new Promise((resolve) => {
    const frame = document.createElement('iframe');
    frame.name = 'sink';
    frame.onload = () => { try { resolve(frame.contentDocument?.body?.innerText ? `got ${frame.contentDocument.body.innerText.slice(0, 80)}` : 'nothing'); } catch (error) { resolve(`refused: ${error.name}`); } };
    document.body.append(frame);
    const form = document.createElement('form');
    Object.assign(form, { action: `${origin}/v1/keys`, method: 'POST', target: 'sink', enctype: 'text/plain' });
    form.innerHTML = '<input name=\'{"tenant":"acme","role":"admin","name":"stolen","x":"\' value=\'"}\'>';
    document.body.append(form);
    form.submit();
  }));
  await attempt('frame', () => new Promise((resolve) => {
    const frame = document.createElement('iframe');
    frame.onload = () => { try { resolve(frame.contentDocument?.querySelector('#app') ? 'got the interface' : 'nothing'); } catch (error) { resolve(`refused: ${error.name}`); } };
    frame.src = `${origin}/ui/`;
    document.body.append(frame);
  }));
  await attempt('window', async () => {
    const other = window.open(`${origin}/ui/`, '_blank');
    if (!other) return 'refused: popup';
    await new Promise((resolve) => setTimeout(resolve, 800));
    try { return other.document?.querySelector('#app') ? 'got the interface' : `nothing, closed ${other.closed}`; } finally { try { other.close(); } catch { /* gone */ } }
  });
  await attempt('socket', () => new Promise((resolve) => {
    const socket = new WebSocket(`${origin.replace('http', 'ws')}/v1/executions/${execution}/events`);
    socket.onopen = () => resolve('got a socket');
    socket.onerror = () => resolve('refused: socket');
  }));
  for (const cookie of ['cloister_ui=planted', 'cloister_ui=planted; path=/ui', '__Host-cloister=planted; secure', 'cloister-port=planted', 'cloister_ui=planted; domain=boxes.test']) {
    await attempt(`plant ${cookie}`, () => { document.cookie = `${cookie}; max-age=600${cookie.includes('path=') ? '' : '; path=/'}`; return 'tried'; });
  }
  await attempt('see cookies', () => {
    const others = document.cookie.split('; ').filter((each) => /cloister/i.test(each) && !each.endsWith('=planted'));
    return others.length > 0 || document.cookie.includes(secret) ? `got ${document.cookie}` : 'nothing';
  });
  await attempt('storage', () => (localStorage.getItem('cloister.theme') ? 'got the storage' : 'nothing'));
  await attempt('worker', async () => { await navigator.serviceWorker.register('sw.js', { scope: '/' }); return 'got a worker at /'; });
  await attempt('parent', () => (parent !== window && parent.document.body ? 'got the parent' : 'nothing'));
  await attempt('opener', () => (window.opener?.document ? 'got the opener' : 'nothing'));
  await attempt('top', () => { if (top === window) return 'nothing'; top.location = 'about:blank#stolen'; return 'tried'; });
  await attempt('script', () => new Promise((resolve) => {
    const script = document.createElement('script');
    script.src = `${origin}/v1/whoami`;
    script.onload = () => resolve('nothing');
    script.onerror = () => resolve('refused: script');
    document.body.append(script);
  }));
  return results;
};

const state = async () => ({
  keys: (await api('GET', '/v1/keys?limit=200')).text.includes('stolen'),
  runs: (await api('GET', '/v1/executions?limit=200')).json.executions.length,
});
// The value of the person's cookie, of which no page may see anything.
const secretOf = async (context) => (await context.cookies(config.url)).find(({ name }) => /^(__Host-cloister|cloister_ui)/.test(name)).value;
const cookiesOf = async (context) => (await context.cookies()).filter(({ name, domain }) => !domain.includes('boxes.test') && /cloister/i.test(name)).map(({ name, value }) => `${name}=${value}`).sort();

await run({
  // `address` is a link to the port, below the service's own address or on a host of its own.
  async page(browser) {
    const context = await person(browser, { away: true });
    const screen = await enter(context, config.person, 'executions');
    await screen.getByRole('heading', { name: 'Executions' }).waitFor();
    const before = { cookies: await cookiesOf(context), state: await state() };
    await screen.evaluate(() => localStorage.setItem('cloister.theme', 'dark'));
    const hostile = await context.newPage();
    await hostile.goto(config.address);
    await hostile.getByText('a hostile page').waitFor();
    tell('results', await hostile.evaluate(attack, { origin: config.url, execution: config.execution, secret: await secretOf(context) }));
    await hostile.goto(`${config.address}${config.address.includes('?') ? '&' : '?'}again=1`).catch(() => undefined);
    const after = await cookiesOf(context);
    tell('planted', after.filter((cookie) => !before.cookies.includes(cookie) && !cookie.startsWith('cloister-port=')));
    tell('lost', before.cookies.filter((cookie) => !after.includes(cookie)));
    tell('state', [before.state, await state()]);
    await screen.reload();
    await screen.getByRole('heading', { name: 'Executions' }).waitFor();
    tell('still in', await screen.locator('.who').innerText());
    tell('interface in frames', (await Promise.all(context.pages().flatMap((page) => page.frames()).filter((frame) => frame.parentFrame())
      .map((frame) => frame.evaluate(() => document.querySelector('#app') !== null).catch(() => false)))).filter(Boolean).length);
  },

  // The same page, as the interface previews it.
  async preview(browser) {
    const context = await person(browser, { away: true });
    const page = await enter(context, config.person, `sessions/${config.session}?tab=ports`);
    const before = { cookies: await cookiesOf(context), state: await state() };
    await page.getByLabel('Port of the server').fill('8001');
    await page.getByRole('button', { name: 'Preview' }).first().click();
    await page.getByText('No server listens on port 8001.').waitFor();
    await page.evaluate(() => localStorage.setItem('cloister.theme', 'dark'));
    await page.getByLabel('Port of the server').fill('8000');
    await page.getByRole('button', { name: 'Preview' }).first().click();
    const place = page.locator('iframe.port-frame');
    await place.waitFor();
    tell('sandbox', await place.getAttribute('sandbox'));
    const frame = await (await place.elementHandle()).contentFrame();
    await frame.getByText('a hostile page').waitFor();
    tell('results', await frame.evaluate(attack, { origin: config.url, execution: config.execution, secret: await secretOf(context) }));
    tell('place', page.url());
    const after = await cookiesOf(context);
    tell('planted', after.filter((cookie) => !before.cookies.includes(cookie) && !cookie.startsWith('cloister-port=')));
    tell('lost', before.cookies.filter((cookie) => !after.includes(cookie)));
    tell('state', [before.state, await state()]);
    await page.getByRole('heading', { name: 'Links made here' }).waitFor();
  },

  // Names and output in many forms, on every screen that shows them.
  async text(browser) {
    const context = await person(browser);
    let dialogs = 0;
    context.on('page', (page) => page.on('dialog', (dialog) => { dialogs += 1; void dialog.dismiss(); }));
    const page = await enter(context, config.person, 'executions');
    const shown = {};
    for (const [name, path] of Object.entries(config.screens)) {
      await page.goto(`${config.url}/ui/${path}`);
      await page.getByRole('main').waitFor();
      await page.waitForTimeout(300);
      const wanted = config.expected[name] ?? [];
      await until(`${name} to show its text`, async () => {
        const text = await page.evaluate(() => document.body.innerText);
        return wanted.every((each) => text.includes(each));
      }, 15).catch(async (error) => {
        const text = await page.evaluate(() => document.body.innerText);
        throw new Error(`${error.message}: not shown are ${JSON.stringify(wanted.filter((each) => !text.includes(each)))} in\n${text.slice(0, 2500)}`);
      });
      shown[name] = await page.evaluate(() => ({
        hit: globalThis.hit ?? null,
        title: document.title,
        elements: [...document.querySelectorAll('script:not([src]), [onerror], [onload], [onclick], [onmouseover], [onfocus], [ontoggle], [style*="evil"], base:nth-of-type(2), object, embed, form[action], meta[http-equiv=refresh], a[href^="javascript:"], a[href*="evil.test"], img[src*="evil.test"], link[href*="evil.test"]')].map((each) => each.outerHTML.slice(0, 200)),
        frames: [...document.querySelectorAll('iframe')].map((each) => [each.getAttribute('sandbox'), (each.getAttribute('srcdoc') ?? '').includes("default-src 'none'")]),
      }));
    }
    tell('shown', shown);
    tell('dialogs', dialogs);
  },

  // What a cell draws as HTML and SVG.
  async drawn(browser) {
    const context = await person(browser);
    let dialogs = 0;
    context.on('page', (page) => page.on('dialog', (dialog) => { dialogs += 1; void dialog.dismiss(); }));
    const page = await enter(context, config.person, `sessions/${config.session}?tab=notebook`);
    const cell = page.getByLabel('Code of cell 1');
    await cell.fill(config.code);
    await cell.press('Shift+Enter');
    await until('the frames', async () => (await page.locator('.rich iframe').count()) >= config.frames, 90);
    await page.waitForTimeout(1500);
    tell('sandbox', await page.locator('.rich iframe').evaluateAll((all) => all.map((each) => each.getAttribute('sandbox'))));
    const drawn = await page.locator('.rich iframe').evaluateAll((all) => all.map((each) => (each.getAttribute('srcdoc') ?? '').split('<body>')[1] ?? ''));
    tell('away', drawn.flatMap((each) => each.match(/<(?:link|base|meta|script|template|iframe|set)[^>]*>|<[^>]* (?:xlink:)?href=(?:"(?!#)|[^"#])[^>]*>|\baction=/gi) ?? []).filter((each) => !each.startsWith('<image')));
    tell('kept', drawn.flatMap((each) => each.match(/<a href="#b">|<style>@import/g) ?? []).length);
    tell('hits', await Promise.all(page.frames().map((frame) => frame.evaluate(() => globalThis.hit ?? null).catch(() => 'no script'))));
    tell('place', page.url());
    tell('dialogs', dialogs);
    record.csp.length = 0;  // of the frames: that is their purpose
    record.errors.length = 0;
  },
});
