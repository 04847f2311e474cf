// SPDX-License-Identifier: Apache-2.0
// Every screen: as each role, in each appearance, and with many rows.
import { api, axe, config, enter, person, record, run, tell, until } from './browser.mjs';

const settled = async (page) => {
  await page.getByRole('main').waitFor();
  await until('the screen', async () => (await page.locator('main .loading, main [aria-busy=true]').count()) === 0, 15).catch(() => undefined);
  await page.waitForTimeout(config.pause ?? 150);
};

// Presses each button of the screen, and each button of a dialog that opens. A button that asks for confirmation first is
// pressed to its end, as nothing may be refused.
async function press(page, path) {
  const buttons = page.locator('main button:visible:enabled');
  const count = Math.min(await buttons.count(), 25);
  for (let index = 0; index < count; index += 1) {
    const button = page.locator('main button:visible:enabled').nth(index);
    if ((await button.count()) === 0) break;
    await button.click({ timeout: 1500 }).catch(() => undefined);
    const dialog = page.locator('dialog[open]');
    if (await dialog.count()) {
      for (const each of await dialog.locator('button:visible:enabled').all()) await each.click({ timeout: 800 }).catch(() => undefined);
      await page.keyboard.press('Escape');
    }
    if (!page.url().includes(`/ui/${path.split('?')[0]}`)) {
      await page.goto(`${config.url}/ui/${path}`);
      await settled(page);
    }
  }
}

await run({
  // Nothing that a person is offered is refused, and nothing of another tenant arrives.
  async offered(browser) {
    const context = await person(browser);
    const page = await enter(context, config.person, '');
    await settled(page);
    const links = await page.locator('.sidebar nav a').evaluateAll((all) => all.map((each) => new URL(each.href).pathname.replace(/^\/ui\//, '')));
    const opened = [];
    for (const path of [...links, ...config.screens]) {
      await page.goto(`${config.url}/ui/${path}`);
      await settled(page);
      opened.push([path, await page.locator('h1').first().innerText().catch(() => '')]);
      if (config.press) await press(page, path);
    }
    tell('opened', opened);
    tell('forbidden', record.refused.filter((each) => each.startsWith('403')));
    tell('other', record.refused.filter((each) => !each.startsWith('403')));
  },

  // No serious fault of accessibility, as each role.
  async accessible(browser) {
    const found = [];
    const failed = [];
    for (const scheme of ['light', 'dark']) {
      const context = await person(browser, { context: { colorScheme: scheme, bypassCSP: true } });
      const page = await enter(context, config.person, '');
      for (const path of config.screens) {
        await page.goto(`${config.url}/ui/${path}`);
        await settled(page);
        // A screen that shows an error is no screen that was looked at.
        const heading = await page.getByRole('main').getByRole('heading').first().innerText().catch(() => '');
        const alerts = await page.getByRole('main').getByRole('alert').allInnerTexts();
        if (heading === '' || alerts.length > 0) failed.push(`${scheme} ${path}: ${heading}: ${alerts.join(' | ').slice(0, 300)}`);
        await page.evaluate(axe());
        const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'], iframes: false }));
        for (const each of violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')) {
          found.push(`${scheme} ${path}: ${each.id}: ${each.nodes.slice(0, 3).map(({ target, any }) => `${target.join(' ')} ${any[0]?.message ?? ''}`).join(' | ').slice(0, 500)}`);
        }
      }
      await context.close();
    }
    tell('found', found);
    tell('failed', failed);
  },

  async pictures(browser) {
    for (const scheme of ['light', 'dark']) {
      for (const width of [1280, 390]) {
        const context = await person(browser, { context: { colorScheme: scheme, viewport: { width, height: width > 700 ? 800 : 844 }, timezoneId: 'UTC' } });
        const page = await enter(context, config.key, '');
        for (const [name, path] of Object.entries(config.screens)) {
          await page.goto(`${config.url}/ui/${path}`);
          await settled(page);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1);
          if (wide) tell('wider than the window', `${name} ${width}`);
          await page.screenshot({ path: `${config.pictures}/${name}-${scheme}-${width}.png` });
        }
        await page.getByRole('button', { name: 'Sign out' }).click({ timeout: 1000 }).catch(() => undefined);
        await context.clearCookies();
        await page.goto(`${config.url}/ui/`);
        await page.getByLabel('API key').waitFor();
        await page.screenshot({ path: `${config.pictures}/sign-in-${scheme}-${width}.png` });
        await context.close();
      }
    }
  },

  async rows(browser) {
    const page = await enter(await person(browser), config.key, 'executions');
    const grid = page.getByRole('grid', { name: 'Executions' });
    await grid.getByRole('row').nth(1).waitFor();
    await grid.focus();
    const count = () => page.locator('.table-count').innerText().then((text) => Number.parseInt(text.replace(/\D/g, ''), 10));
    await until('all rows', async () => {
      await page.keyboard.press('End');
      await page.waitForTimeout(20);
      return (await count()) >= config.rows;
    }, 60);
    tell('rows', await count());
    const most = async () => page.locator('[role=row]').count();
    let nodes = await most();
    const active = () => grid.evaluate((element) => document.getElementById(element.getAttribute('aria-activedescendant') ?? '')?.getAttribute('aria-rowindex') ?? null);
    await page.keyboard.press('Home');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    tell('active', await active());
    await page.keyboard.press('End');
    await until('the last row', async () => Number(await active()) >= config.rows);
    tell('last', Number(await active()));
    // Frames while the table scrolls through many rows.
    const frames = await page.evaluate(async () => {
      const element = document.querySelector('[role=grid]');
      const times = [];
      let nodes = 0;
      element.scrollTop = 0;
      let last = performance.now();
      for (let step = 0; step < 120; step += 1) {
        element.scrollTop = step * 1700;
        await new Promise((resolve) => requestAnimationFrame(resolve));
        const now = performance.now();
        times.push(now - last);
        last = now;
        nodes = Math.max(nodes, document.querySelectorAll('[role=row]').length);
      }
      return { times, nodes };
    });
    nodes = Math.max(nodes, frames.nodes);
    tell('nodes', nodes);
    tell('frames', frames.times);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/ui\/executions\/exec_/);
  },

  // A run that nobody started from this page.
  async again(browser) {
    const page = await enter(await person(browser), config.key, `executions/${config.execution}`);
    await page.getByRole('button', { name: 'Run again' }).click();
    await page.waitForURL((url) => /\/ui\/executions\/exec_/.test(url.pathname) && !url.pathname.endsWith(config.execution));
    await page.getByText(config.said).first().waitFor();
    tell('again', new URL(page.url()).pathname.split('/').at(-1));
    const asked = page.waitForResponse((answer) => answer.url().includes(`${config.other}/request`));
    await page.goto(`${config.url}/ui/executions/${config.other}`);
    await page.getByText(config.secret).first().waitFor();
    await asked;
    await page.waitForTimeout(100);  // for the page to draw what it was answered
    tell('offered', await page.getByRole('button', { name: 'Run again' }).count());
    await until('the end of the longer run', async () => (await api('GET', `/v1/executions/${config.longer}`)).json.status === 'completed', 20);
    await page.goto(`${config.url}/ui/executions/${config.longer}?tab=usage`);
    tell('graphs', await page.getByRole('img', { name: /^(Processors|Memory).*\. Now/ }).first().waitFor().then(() => page.locator('figure.graph').count()));
  },

  // The times from the request to the first paint and to the first row, in a browser that has the files.
  async paint(browser) {
    const times = [];
    const rows = [];
    const context = await person(browser);
    await context.addInitScript(() => {
      const watch = new MutationObserver(() => {
        if (!document.querySelector('[role=row].data')) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => { globalThis.firstRow = performance.now(); }));
      });
      watch.observe(document, { childList: true, subtree: true });
    });
    const page = await enter(context, config.key, 'executions');
    for (let round = 0; round < (config.rounds ?? 30); round += 1) {
      await page.goto('about:blank');
      await page.goto(`${config.url}/ui/executions`);
      await page.locator('[role=row].data').first().waitFor();
      times.push(await page.evaluate(() => {
        const paint = performance.getEntriesByName('first-contentful-paint')[0];
        return paint ? paint.startTime : null;
      }));
      await page.waitForFunction(() => globalThis.firstRow !== undefined);
      rows.push(await page.evaluate(() => globalThis.firstRow));
    }
    tell('first paint', times);
    tell('first row', rows);
  },
});
