// SPDX-License-Identifier: Apache-2.0
// The audit log: sentences, and the chain verified in the browser.
import { config, enter, person, run, tell, until } from './browser.mjs';

async function result(page, id, button) {
  await page.getByRole('tab', { name: 'Verify' }).click();
  await page.getByRole('button', { name: button }).click();
  const place = page.getByTestId(id);
  await until('a verdict', async () => /^(verified|broken|not verified)/.test((await place.innerText()).trim()), 60);
  return (await place.innerText()).trim();
}

await run({
  async verify(browser) {
    const page = await enter(await person(browser), config.key, 'audit');
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    await page.getByRole('main').getByText('created key_').first().waitFor();
    tell('timeline', await page.getByRole('main').innerText());
    tell('chain', await result(page, 'chain-result', 'Verify the chain'));
    if (config.roots) tell('roots', await result(page, 'roots-result', 'Verify roots and entries'));
  },

  // Not an administrator: no chain, but proofs of one's own entries.
  async prove(browser) {
    const page = await enter(await person(browser), config.person, 'audit');
    tell('roots', await result(page, 'roots-result', 'Verify roots and entries'));
    tell('no chain', (await page.getByRole('button', { name: 'Verify the chain' }).count()) === 0);
    tell('text', await page.getByRole('main').innerText());
  },
});
