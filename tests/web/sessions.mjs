// SPDX-License-Identifier: Apache-2.0
// A session's terminal, notebook and files.
import { readFileSync } from 'node:fs';
import { api, config, enter, person, run, tell, until } from './browser.mjs';

const terminal = async (page) => page.evaluate(() => document.querySelector('.xterm-rows')?.innerText ?? '');
const seen = (page, text) => until(`${text} in the terminal`, async () => (await terminal(page)).replaceAll('\u00a0', ' ').includes(text), 30);

await run({
  async terminal(browser) {
    const page = await enter(await person(browser), config.person, `sessions/${config.session}`);
    await page.getByRole('button', { name: 'Open a terminal' }).click();
    await page.getByText('connected').waitFor();
    await page.keyboard.type('echo hello-$((40+2))\n');
    await seen(page, 'hello-42');
    await page.keyboard.type('vi -u NONE notes.txt\n');
    await seen(page, '~');  // a change of the window's size may have taken the first message away
    await page.keyboard.type('iwritten in vim');
    await seen(page, 'written in vim');
    await page.keyboard.press('Escape');
    await page.keyboard.type(':wq\n');
    // What is typed before the editor has given the terminal back is the editor's, and lost with it.
    await until('the prompt', async () => /\$\s*$/.test(await terminal(page)), 30);
    await page.keyboard.type('echo left-$((1+1))\n');
    await seen(page, 'left-2');
    tell('file', (await api('GET', `/v1/sessions/${config.session}/files/notes.txt`)).text);
    // Another size of the window reaches the program.
    await page.setViewportSize({ width: 700, height: 700 });
    await until('the new size', async () => {
      await page.keyboard.type('echo cols-$(tput cols 2>/dev/null || stty size | cut -d" " -f2)\n');
      await page.waitForTimeout(500);
      const found = /cols-([0-9]+)/.exec((await terminal(page)).split('\n').reverse().find((line) => /^cols-[0-9]/.test(line)) ?? '');
      return found && Number(found[1]) < 95;
    });
    // What is printed is text: no title, no markup.
    const title = await page.title();
    await page.keyboard.type(String.raw`printf '\033]0;stolen title\007<img src=x onerror=alert(1)>\033]8;;javascript:alert(1)\033\\link\033]8;;\033\\ %s\n' $((6*7))` + '\n');
    await seen(page, 'link 42');
    tell('title', (await page.title()) === title);
    tell('markup', await page.locator('.xterm img, .xterm a[href^="javascript:"]').count());
    // A paste cannot end its bracket, and runs nothing.
    await page.locator('.xterm-helper-textarea').evaluate((area) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', 'echo pasted\u001b[201~; touch broke-out\n');
      area.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    });
    await seen(page, 'echo pasted\u241b[201~; touch broke-out');
    tell('broke out', (await api('GET', `/v1/sessions/${config.session}/files/broke-out`)).status);
    await page.keyboard.press('Control+c');
    // The page comes back: old output, in which the editor asked what the terminal is, is answered to nobody.
    await page.keyboard.type('clear; printf "\\033[6n\\033[c"; read -s -d c x; echo as""ked; read -s -n 1 key; echo "key<${key@Q}>"\n');
    await seen(page, 'asked');
    await page.getByRole('tab', { name: 'Files' }).click();
    await page.getByRole('grid', { name: 'Files' }).waitFor();
    await page.getByRole('tab', { name: 'Terminal' }).click();
    await page.getByText('connected').waitFor();
    await seen(page, 'asked');
    await page.keyboard.type('k');
    await seen(page, "key<'k'>");
  },

  async notebook(browser) {
    const page = await enter(await person(browser), config.person, `sessions/${config.session}?tab=notebook`);
    let sockets = 0;
    const streams = [];
    page.on('websocket', (socket) => { sockets += /\/v1\/executions\/[^/]*\/events/.test(socket.url()) ? 1 : 0; });
    page.on('request', (request) => { if (/\/v1\/executions\/[^/]*\/events/.test(request.url())) streams.push(request.url()); });
    const cell = page.getByLabel('Code of cell 1');
    await cell.fill('import matplotlib.pyplot as plt\nprint("drawing")\nplt.figure(figsize=(4, 2), dpi=100)\nplt.plot([1, 4, 9, 16])\nplt.show()');
    await cell.press('Shift+Enter');
    const picture = page.locator('.rich img').first();
    await picture.waitFor({ timeout: 90_000 });
    await page.getByText('drawing').first().waitFor();
    tell('figure', await picture.evaluate(async (image) => {
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      let blue = 0;  // the line's first colour
      for (let at = 0; at < data.length; at += 4) blue += data[at] < 80 && data[at + 1] > 90 && data[at + 1] < 150 && data[at + 2] > 150 ? 1 : 0;
      return { width: canvas.width, height: canvas.height, blue };
    }));
    const second = page.getByLabel('Code of cell 2');
    await second.fill('import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["<script>top.hit=1</script>", "x"]})');
    await second.press('Shift+Enter');
    const frame = page.locator('.rich iframe').first();
    await frame.waitFor();
    tell('sandbox', await frame.getAttribute('sandbox'));
    await page.frameLocator('.rich iframe').getByText('x', { exact: true }).waitFor();
    const third = page.getByLabel('Code of cell 3');
    await third.fill('len(plt.get_fignums()) + 1/0');
    await third.press('Shift+Enter');
    await page.getByText('ZeroDivisionError').first().waitFor();
    tell('hit', await page.evaluate(() => globalThis.hit ?? null));
    tell('sockets', [sockets, streams]);  // cells leave the browser's six connections to others
    // A run outside of a session: the picture that it left, its program, and a new run that begins with it.
    const code = `import base64; open('dot.png', 'wb').write(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))`;
    const left = (await api('POST', '/v1/executions?wait=60', { language: 'python', code, timeout_seconds: 7, args: ['kept'] }, config.person)).json;
    await page.goto(`${config.url}/ui/executions/${left.id}?tab=results`);
    await page.locator('.rich img').waitFor();
    await page.getByRole('tab', { name: 'Program' }).click();
    await page.locator('pre.code', { hasText: 'dot.png' }).waitFor();
    await page.getByRole('button', { name: 'Change and run…' }).click();
    tell('again', [await page.getByLabel('Code').inputValue() === code, await page.getByLabel('Timeout, in seconds').inputValue(), await page.getByText('The rest of the request stays').innerText()]);
  },

  async files(browser) {
    const page = await enter(await person(browser), config.person, `sessions/${config.session}?tab=files`);
    const grid = page.getByRole('grid', { name: 'Files' });
    await page.locator('input[type=file]').setInputFiles([{ name: 'up <b>.txt', mimeType: 'text/plain', buffer: Buffer.from('up') }]);
    await grid.getByText('up <b>.txt').waitFor();
    tell('uploaded', (await api('GET', `/v1/sessions/${config.session}/files/${encodeURIComponent('up <b>.txt')}`)).text);
    // A drag: the browser's own events, with a file.
    const data = await page.evaluateHandle(() => {
      const made = new DataTransfer();
      made.items.add(new File(['dragged'], 'dragged.txt', { type: 'text/plain' }));
      return made;
    });
    const place = grid;
    for (const type of ['dragenter', 'dragover', 'drop']) await place.dispatchEvent(type, { dataTransfer: data });
    await grid.getByText('dragged.txt').waitFor();
    tell('dragged', (await api('GET', `/v1/sessions/${config.session}/files/dragged.txt`)).text);
    await grid.getByText('dragged.txt').click();
    const text = page.getByLabel('Content of dragged.txt');
    await text.fill('edited in the page\n');
    await text.press('Control+s');
    await page.getByText('dragged.txt is saved.').waitFor();
    tell('edited', (await api('GET', `/v1/sessions/${config.session}/files/dragged.txt`)).text);
    // A program changes it meanwhile: the page does not write over it.
    await text.fill('mine\n');
    await api('PUT', `/v1/sessions/${config.session}/files/dragged.txt`, 'theirs\n', config.key, { 'Content-Type': 'application/octet-stream' });
    await text.press('Control+s');
    await page.getByText('A program has changed the file meanwhile.').waitFor();
    tell('kept', (await api('GET', `/v1/sessions/${config.session}/files/dragged.txt`)).text);
    // What is typed while the page saves stays, and line ends are the file's.
    const raw = { 'Content-Type': 'application/octet-stream' };
    const file = `/v1/sessions/${config.session}/files/lines.txt`;
    await api('PUT', file, 'one\r\ntwo\r\n', config.key, raw);
    await page.goto(`${config.url}/ui/sessions/${config.session}?tab=files&file=lines.txt`);
    const lines = page.getByLabel('Content of lines.txt');
    await lines.fill('one\ntwo\nX');
    await page.route('**/files/lines.txt*', async (route) => { await new Promise((resolve) => setTimeout(resolve, 200)); await route.continue(); });
    await lines.press('Control+s');
    await lines.pressSequentially(' more');
    await page.getByText('lines.txt is saved.').waitFor();
    await page.getByText('not saved').waitFor();
    tell('typed', await lines.inputValue());
    tell('line ends', (await api('GET', file)).text);
    await page.unroute('**/files/lines.txt*');
    // A file that was empty is not written over either, and an upload asks.
    await api('PUT', `/v1/sessions/${config.session}/files/empty.txt`, '', config.key, raw);
    await lines.press('Control+s');
    await page.getByText('not saved').waitFor({ state: 'hidden' });
    await grid.getByText('empty.txt').click();
    await page.getByLabel('Content of empty.txt').fill('mine');
    await api('PUT', `/v1/sessions/${config.session}/files/empty.txt`, 'theirs', config.key, raw);
    await page.getByLabel('Content of empty.txt').press('Control+s');
    await page.getByText('A program has changed the file meanwhile.').waitFor();
    await page.getByRole('button', { name: 'Read it again, and lose my changes' }).click();
    await page.getByText('not saved').waitFor({ state: 'hidden' });
    await page.locator('input[type=file]').setInputFiles([{ name: 'dragged.txt', mimeType: 'text/plain', buffer: Buffer.from('new') }]);
    await page.getByRole('heading', { name: 'Replace dragged.txt?' }).waitFor();
    tell('asked', (await api('GET', `/v1/sessions/${config.session}/files/dragged.txt`)).text);
    await page.getByRole('button', { name: 'Replace', exact: true }).click();
    await page.getByText('1 file uploaded.').waitFor();
    tell('replaced', (await api('GET', `/v1/sessions/${config.session}/files/dragged.txt`)).text);
    // Names with characters that mislead are named by their escapes, and a name outside UTF-8 by nobody.
    const odd = (name) => `/v1/sessions/${config.session}/files/${encodeURIComponent(name)}`;
    await api('PUT', odd('line\nbreak.txt'), 'first\n', config.key, raw);
    await api('PUT', odd('gpj.\u202etxt'), 'bidi', config.key, raw);
    await api('PUT', `${odd('in\u2066')}/one.txt`, 'inside', config.key, raw);
    await api('PUT', odd('as%0Ais.txt'), 'as it is', config.key, raw);
    await api('POST', `/v1/sessions/${config.session}/exec?wait=30`, { command: String.raw`touch "$(printf '\377.bin')"` }, config.person);
    await grid.getByText('line\u21b5break.txt').click();
    const broken = page.getByLabel('Content of line\u21b5break.txt');
    await broken.fill('second\n');
    await broken.press('Control+s');
    await page.getByText('line\u21b5break.txt is saved.').waitFor();
    tell('odd', (await api('GET', odd('line\nbreak.txt'))).text);
    await page.getByRole('button', { name: 'Close the file' }).click();
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save gpj.\\u{202e}txt', exact: true }).click();
    tell('downloaded', [(await saved).suggestedFilename(), readFileSync(await (await saved).path(), 'utf8')]);
    await page.getByRole('button', { name: 'Delete gpj.\\u{202e}txt' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await grid.getByText('gpj.').waitFor({ state: 'detached' });
    tell('removed', (await api('GET', odd('gpj.\u202etxt'))).status);
    await grid.getByText('as%0Ais.txt').click();
    tell('as it is', await page.getByLabel('Content of as%0Ais.txt').inputValue());
    tell('not text', await grid.getByRole('row').filter({ hasText: '\\xff.bin' }).innerText());
    await grid.getByText('in\\u{2066}').click();
    await grid.getByText('one.txt').waitFor();
    await page.getByRole('button', { name: 'Rename one.txt' }).click();
    await page.getByLabel('Path').fill('two.txt');
    await page.getByRole('button', { name: 'Rename', exact: true }).click();
    await grid.getByText('two.txt').waitFor();
    tell('renamed', (await api('GET', `${odd('in\u2066')}/two.txt`)).text);
    // A name cannot lead out of the session, and Back leads to the file before.
    await page.getByRole('button', { name: 'New file…' }).click();
    await page.getByLabel('Path').fill('../../x');
    await page.getByText('Paths stay below /workspace').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    tell('back', await page.evaluate(() => new Promise((resolve) => { addEventListener('popstate', () => resolve(location.search)); history.back(); })));
  },
});
