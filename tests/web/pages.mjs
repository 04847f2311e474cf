// SPDX-License-Identifier: Apache-2.0
// What a page keeps for its person, and what hidden pages leave to others.
import { api, config, endSignIns, enter, person, run, signInHere, tell, until } from './browser.mjs';

await run({
  // Text that was typed waits for its person while the sign-in has ended, and cells ask before the page closes.
  async drafts(browser) {
    const page = await enter(await person(browser), config.person, `sessions/${config.session}?tab=notebook`);
    const cell = page.getByLabel('Code of cell 1');
    await cell.click();
    await page.keyboard.type('x = 41 + 1');
    const asked = page.waitForEvent('dialog');
    await page.evaluate(() => setTimeout(() => location.reload()));
    const question = await asked;
    await question.dismiss();
    tell('asked', question.type());
    await endSignIns(page, config.user);
    await page.getByText('The text that you typed waits in this page.').waitFor();
    await signInHere(page, config.person);
    tell('cell', await cell.inputValue());
    await cell.press('Shift+Enter');
    await page.getByLabel('Code of cell 2').waitFor();
    await api('PUT', `/v1/sessions/${config.session}/files/kept.txt`, 'before\n', config.person, { 'Content-Type': 'application/octet-stream' });
    await page.getByRole('tab', { name: 'Files' }).click();
    await page.getByRole('grid', { name: 'Files' }).getByText('kept.txt').click();
    const text = page.getByLabel('Content of kept.txt');
    await text.fill('typed\n');
    await api('PUT', `/v1/sessions/${config.session}/files/kept.txt`, 'theirs\n', config.person, { 'Content-Type': 'application/octet-stream' });
    await endSignIns(page, config.user);
    await signInHere(page, config.person);
    await page.getByText('not saved').waitFor();
    tell('file', await text.inputValue());
    await text.press('Control+s');
    await page.getByText('A program has changed the file meanwhile.').waitFor();
    await page.getByRole('button', { name: 'Write mine over it' }).click();
    await page.getByText('kept.txt is saved.').waitFor();
    // An error names the field by its label.
    await page.getByRole('link', { name: 'Executions', exact: true }).click();
    await page.getByRole('button', { name: 'New run…' }).click();
    await page.getByLabel('Code', { exact: true }).fill('print("kept")');
    await page.getByLabel('Memory, in MiB').fill('1');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    tell('error', await page.locator('.field-error').innerText());
    await endSignIns(page, config.user);
    await signInHere(page, config.person);
    tell('form', [await page.getByLabel('Code', { exact: true }).inputValue(), await page.getByLabel('Memory, in MiB').inputValue()]);
    // Another person gets none of it.
    await endSignIns(page, config.user);
    await signInHere(page, config.other);
    await page.getByRole('link', { name: 'Executions', exact: true }).click();
    await page.getByRole('button', { name: 'New run…' }).click();
    tell('of another', await page.getByLabel('Code', { exact: true }).inputValue());
    await page.getByLabel('Code', { exact: true }).fill('x'.repeat(4_300_000));
    await endSignIns(page, config.otherUser);
    await page.getByText('A part of it was too large to wait, and is gone.').waitFor();
  },

  // Seven tabs follow a run, with six connections of the browser: hidden tabs leave theirs to the others.
  async tabs(browser) {
    const context = await person(browser);
    const code = 'import time\nfor n in range(10_000):\n    print(f"<{n}>", flush=True)\n    time.sleep(0.05)';
    const limits = { timeout_seconds: 400, memory_mb: 96, pids: 17, cpu_millis: 700, disk_mb: 33, max_output_bytes: 1 << 20 };
    const made = (await api('POST', '/v1/executions', { language: 'python', code, ...limits }, config.person)).json;
    await context.addInitScript(() => {
      let hidden = false;
      Object.defineProperty(document, 'hidden', { get: () => hidden });
      globalThis.hide = (now) => { hidden = now; document.dispatchEvent(new Event('visibilitychange')); };
    });
    const open = new Set();
    context.on('request', (request) => { if (request.url().endsWith(`${made.id}/events`)) open.add(request); });
    for (const end of ['requestfinished', 'requestfailed']) context.on(end, (request) => open.delete(request));
    const first = await enter(context, config.person, `executions/${made.id}?tab=usage`);
    await first.locator('.meters').getByText('of 6 min 40 s').waitFor();
    tell('limits', await first.locator('.meters').innerText());
    const pages = [first];
    while (pages.length < 6) pages.push(await context.newPage());
    for (const page of pages) {
      await page.clock.install();
      await page.goto(`${config.url}/ui/executions/${made.id}`);
      await page.getByText('live', { exact: true }).waitFor();
    }
    tell('open', open.size);
    for (const page of pages) {
      await page.evaluate(() => hide(true));
      await page.clock.fastForward(15_000);
    }
    await until('the hidden pages to close their streams', () => open.size === 0);
    const seventh = await context.newPage();
    await seventh.goto(`${config.url}/ui/executions/${made.id}`);
    await seventh.getByText('live', { exact: true }).waitFor();
    // A tab that is opened in the background reads what it shows, and does not wait for a look.
    const background = await context.newPage();
    await background.addInitScript(() => hide(true));
    await background.goto(`${config.url}/ui/sessions/ses_${'0'.repeat(26)}`);
    await background.getByRole('alert').waitFor();
    await first.evaluate(() => hide(false));
    await until('the streams of both pages in sight', () => open.size === 2);
    // A computer that changed its network cannot know which connections are lost.
    const again = first.waitForRequest((request) => request.url().endsWith(`${made.id}/events`));
    await first.evaluate(() => dispatchEvent(new Event('online')));
    tell('from', (await again).headers()['last-event-id']);
    await api('DELETE', `/v1/executions/${made.id}`);
    await first.getByText('live', { exact: true }).waitFor({ state: 'detached' });
    tell('output', (await first.locator('.output').innerText()).match(/<[0-9]+>/g));
  },
});
