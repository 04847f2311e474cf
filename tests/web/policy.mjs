// SPDX-License-Identifier: Apache-2.0
// A change of the policy: tried on recorded requests, applied, and refused when another person was faster.
import { api, config, enter, person, run, tell, until } from './browser.mjs';

const RULE = `rules:
  - name: no-shell
    why: shells are for people
    match: {tenants: [acme], languages: [bash]}
    effect: deny
`;
const shell = async () => (await api('POST', '/v1/executions?wait=30', { language: 'bash', code: 'echo ran' }, config.requester)).json;

async function change(page, text) {
  const editor = page.getByRole('textbox', { name: 'Policy document, YAML' });
  await editor.waitFor();
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}

await run({
  async apply(browser) {
    tell('before', (await shell()).status);
    const before = (await api('GET', '/v1/policies/current')).json;
    const page = await enter(await person(browser), config.key, 'policy');
    await change(page, before.document.replace(/^rules:\n/m, RULE));
    await page.getByText('changed', { exact: true }).waitFor();
    await page.getByText('valid', { exact: true }).waitFor();
    const act = page.getByRole('button', { name: 'Try and apply…' });
    await until('a valid document', () => act.isEnabled());
    await act.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByTestId('replay-summary').waitFor();
    tell('replay', await dialog.getByTestId('replay-summary').innerText());
    tell('groups', await dialog.getByRole('region', { name: 'Replay of recorded requests' }).innerText());
    tell('rules', await dialog.innerText());
    tell('not yet', (await api('GET', '/v1/policies/current')).json.version === before.version);
    await dialog.getByLabel('Note').fill('tried in the browser');
    await dialog.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByText(`Version ${before.version + 1} is in force.`).waitFor();
    tell('after', (await shell()).status);
    await page.getByRole('tab', { name: 'Versions' }).click();
    await page.getByRole('list', { name: 'Versions' }).getByText('tried in the browser').waitFor();
    // Back to the version before.
    await page.getByRole('list', { name: 'Versions' }).getByRole('button').nth(1).click();
    await page.getByRole('button', { name: 'Roll back to this version…' }).click();
    await dialog.getByRole('button', { name: 'Try it on recorded requests' }).click();
    await dialog.getByRole('button', { name: 'Roll back', exact: true }).click();
    await page.getByText('is in force again').waitFor();
    tell('rolled back', (await shell()).status);
  },

  async stale(browser) {
    const before = (await api('GET', '/v1/policies/current')).json;
    const page = await enter(await person(browser), config.key, 'policy');
    await change(page, before.document.replace(/^rules:\n/m, RULE));
    const act = page.getByRole('button', { name: 'Try and apply…' });
    await until('a valid document', () => act.isEnabled());
    await act.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByTestId('replay-summary').waitFor();
    const other = await api('POST', '/v1/policies', { document: `${before.document}\n# another person's\n`, name: before.name, note: 'faster' });
    tell('other', other.status);
    await dialog.getByRole('button', { name: 'Apply', exact: true }).click();
    await dialog.getByText('Another person applied a version').waitFor();
    tell('kept', (await api('GET', '/v1/policies/current')).json.version === other.json.version);
    await dialog.getByRole('button', { name: 'Load the version in force' }).click();
    await page.getByText("# another person's").waitFor();
  },

  async invalid(browser) {
    const page = await enter(await person(browser), config.key, 'policy');
    await change(page, 'version: 2\nrules:\n  - {name: x, why: y, effect: perhaps}\n');
    await page.getByText('not valid', { exact: true }).waitFor();
    tell('problems', await page.getByRole('complementary', { name: 'Check of the document' }).innerText());
    tell('closed', await page.getByRole('button', { name: 'Try and apply…' }).isDisabled());
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.getByText('valid', { exact: true }).waitFor();
    const editor = page.getByRole('textbox', { name: 'Policy document, YAML' });
    await editor.click();
    await page.keyboard.insertText(`# ${'x'.repeat(70_000)}`);
    await page.getByText('longer than 64 KiB').waitFor();
    // Keys of the page (g e, /, ?) are letters here; and a link asks before the text is lost.
    await editor.click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('\n# languages a/b ?');
    await page.getByText('changed', { exact: true }).waitFor();
    tell('typed', await editor.innerText());
    const asked = [];
    page.on('dialog', (dialog) => { asked.push(dialog.message()); void (asked.length === 1 ? dialog.dismiss() : dialog.accept()); });
    await page.getByRole('link', { name: 'Audit' }).click();
    tell('stayed', page.url());
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    tell('asked', asked);
  },

  // Of a role that does not read the policy: its decisions are those of the policy in force.
  async asked(browser) {
    const page = await enter(await person(browser), config.approver, 'policy?tab=explain');
    const ask = async (language) => {
      await page.getByLabel('Language').selectOption(language);
      await page.getByRole('button', { name: 'Explain', exact: true }).click();
      await page.getByTestId('explain-decision').waitFor();
      return page.getByRole('article').innerText();
    };
    await page.getByLabel('Code').fill('echo kept-question');
    tell('in force', await ask('bash'));
    await page.getByRole('tab', { name: 'Document' }).click();
    await change(page, 'version: 2\nrules:\n  - {name: nothing, why: closed, effect: deny}\n');
    await page.getByText('changed', { exact: true }).waitFor();
    await page.getByRole('tab', { name: 'Explain' }).click();
    tell('kept', await page.getByLabel('Code').inputValue());
    tell('of the editor', await ask('python'));
    await page.getByLabel('Roles').fill('nonsense');
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByRole('alert').waitFor();
    tell('old answers', await page.getByRole('article').count());
  },

  // Rules and quotas of agents and tenants, as a person changes them.
  async agents(browser) {
    const page = await enter(await person(browser), config.key, 'agents');
    await page.getByRole('button', { name: 'New sandbox…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Agent').fill('builder');
    await dialog.getByLabel('Tenant').fill('acme');
    await dialog.getByRole('button', { name: 'Try it' }).click();
    await dialog.getByTestId('dry-run').waitFor();
    tell('made before', (await api('GET', '/v1/agents/builder/sandbox?tenant=acme')).status);
    await dialog.getByRole('button', { name: 'Make it' }).click();
    await page.getByRole('heading', { name: 'Agent builder' }).waitFor();
    const act = page.getByRole('button', { name: 'Try and apply…' });
    await page.getByLabel('Memory, MiB').fill('-3');
    await page.getByText('Type a whole number from 1').waitFor();
    tell('wrong', [await act.isDisabled(), await page.getByLabel('Memory, MiB').inputValue()]);
    await page.getByLabel('Memory, MiB').fill('512');
    tell('at once', await act.isEnabled());
    await page.goto(`${config.url}/ui/admin/quotas`);
    await page.getByRole('button', { name: 'Quota of another tenant or agent…' }).click();
    await dialog.getByLabel('Tenant').fill('quotaco');
    await dialog.getByRole('button', { name: 'Show its quota' }).click();
    await dialog.getByLabel('Runs at once').fill('3');
    await dialog.getByRole('button', { name: 'Set the quota' }).click();
    await page.getByText('The quota applies from the next request.').waitFor();
    tell('quota', (await api('GET', '/v1/quotas?tenant=quotaco')).json.quotas[0].own);
  },
});
