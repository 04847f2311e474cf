// SPDX-License-Identifier: Apache-2.0
// Signing in and out, by key and through the provider.
import { api, at, config, person, run, signIn, tell } from './browser.mjs';

const out = (page) => page.getByLabel('API key').waitFor();

await run({
  async sandbox(browser) {
    const page = await browser.newPage();
    await page.goto('chrome://sandbox');
    tell('sandbox', await page.evaluate(() => document.body.innerText));
  },

  async key(browser) {
    const context = await person(browser);
    const page = await context.newPage();
    await page.goto(at('audit?action=key.created'));
    await out(page);
    tell('no key in the address', !page.url().includes('clo_'));
    await page.getByLabel('API key').fill('clo_wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').first().waitFor();
    tell('wrong', await page.getByRole('alert').first().innerText());
    await page.getByLabel('API key').fill(config.key);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    tell('deep', page.url());
    tell('filter', await page.getByLabel('Action').inputValue());
    await page.locator('.sentence').first().waitFor();
    tell('filtered', await page.locator('.sentence').allInnerTexts());
    const cookies = await context.cookies();
    tell('cookies', cookies.map(({ name, httpOnly, sameSite, path }) => ({ name, httpOnly, sameSite, path })));
    tell('script sees', await page.evaluate(() => document.cookie));
    tell('stored', await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage })));
    await page.reload();
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    await page.keyboard.press('?');
    const title = page.getByRole('dialog').getByRole('heading');
    await title.hover();
    await page.mouse.down();
    await page.mouse.move(5, 5);
    await page.mouse.up();
    tell('open after a drag', await title.isVisible());
    await page.mouse.click(5, 5);
    await title.waitFor({ state: 'hidden' });
    await page.route('**/ui/session', (route) => (route.request().method() === 'DELETE' ? route.abort() : route.continue()));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are still signed in.').waitFor();
    await page.unroute('**/ui/session');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await out(page);
    await page.goto(at('sign-in?next=http://['));
    await out(page);
    await page.goto(at('executions'));
    await out(page);
    tell('after', await context.request.get(`${config.url}/v1/whoami`).then((answer) => answer.status()));
  },

  async revoked(browser) {
    const context = await person(browser);
    const page = await context.newPage();
    await signIn(page, config.person, config.screen);
    await page.getByRole('heading', { name: config.title, exact: true }).waitFor();
    await page.waitForTimeout(300);
    const answer = await api('DELETE', `/v1/keys/${config.person_id}`);
    let asked = 0;
    page.on('request', (request) => { asked += request.url().endsWith('/ui/session') ? 1 : 0; });
    await page.getByText('Your session has ended').waitFor();
    tell('asked', asked);
    tell('status', answer.status);
    tell('place', page.url());
  },

  async oidc(browser) {
    const context = await person(browser, { away: true });
    const page = await context.newPage();
    await page.goto(at('executions'));
    const link = page.getByRole('link', { name: 'Sign in with single sign-on' });
    await link.waitFor();
    await link.click();
    await page.getByRole('heading', { name: 'Executions' }).waitFor();
    tell('place', page.url());
    tell('principal', await page.locator('.who').innerText());
    // A second sign-in in the same browser. The first session's cookie does not come with the provider's redirect.
    const cookie = async () => (await context.cookies(config.url)).find(({ name }) => name === 'cloister_ui').value;
    const status = async (value) => (await api('GET', '/ui/session', undefined, null, { Cookie: `cloister_ui=${value}` })).status;
    const first = await cookie();
    tell('before', await status(first));
    await page.evaluate(() => location.assign('login?next=/ui/audit'));
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    const second = await cookie();
    tell('after', [first === second, await status(first), await status(second)]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await out(page);
  },

  async denied(browser) {
    const context = await person(browser, { away: true });
    const page = await context.newPage();
    await page.goto(at(''));
    await page.getByRole('link', { name: 'Sign in with single sign-on' }).click();
    await page.getByText("provider", { exact: false }).first().waitFor();
    tell('text', await page.locator('main').innerText());
  },
});
