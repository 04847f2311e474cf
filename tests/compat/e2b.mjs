// SPDX-License-Identifier: Apache-2.0
// Runs a story with the unmodified clients of E2B, and prints each step as a line of JSON:
// {"step", "value"} or {"step", "error": {"name", "message", "status"}}.
//
//     node e2b.mjs '{"story": "lifecycle", "url": "http://…/e2b", "key": "…", "client": "e2b"}'

import {get} from 'node:http';

const options = JSON.parse(process.argv[2]);
process.env.E2B_API_URL = options.url;
process.env.E2B_SANDBOX_URL = options.sandboxUrl ?? options.url;
process.env.E2B_API_KEY = options.key;
const {Sandbox} = await import(options.client ?? 'e2b');
const made = [];  // sandboxes to end

async function step(name, action) {
  try {
    const value = await action();
    console.log(JSON.stringify({step: name, value: value ?? null}));
    return value;
  } catch (error) {
    const told = {name: error.constructor.name, message: String(error.message), status: error.statusCode ?? null};
    console.log(JSON.stringify({step: name, error: told}));
    return undefined;
  }
}

async function create(...args) {
  const sandbox = await Sandbox.create(...args);
  made.push(sandbox);
  return sandbox;
}

async function until(condition, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error('the condition did not come true');
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

// The pages of a paginator.
async function pages(paginator) {
  const all = [];
  while (paginator.hasNext) all.push((await paginator.nextItems()).map((each) => each.sandboxId ?? each.snapshotId));
  return all;
}

const shown = (entry) => ({name: entry.name, type: entry.type, path: entry.path});
const result = (done) => ({exitCode: done.exitCode, stdout: done.stdout, stderr: done.stderr});
const failed = (error) => result(error.result ?? error);

const stories = {
  async lifecycle() {
    const first = await create({metadata: {team: 'red', note: 'one & two'}, envs: {GREETING: 'hello'}, timeoutMs: 120_000});
    await step('id', () => first.sandboxId);
    await step('info', async () => {
      const info = await first.getInfo();
      return {...info, lasts: info.endAt - info.startedAt};
    });
    await step('running', () => first.isRunning());
    await step('environment', async () => (await first.commands.run('echo $GREETING')).stdout);
    const second = await create('base', {timeoutMs: 60_000, metadata: {team: 'blue'}});
    await step('second', () => second.sandboxId);
    await step('list', () => pages(Sandbox.list()));
    await step('list by metadata', () => pages(Sandbox.list({query: {metadata: {team: 'red', note: 'one & two'}}})));
    await step('list by state', () => pages(Sandbox.list({query: {state: ['paused']}})));
    await step('pages', () => pages(Sandbox.list({limit: 1})));
    await step('timeout', async () => {
      await first.setTimeout(600_000);
      const info = await first.getInfo();
      return info.endAt - Date.now();
    });
    await step('shorter', async () => {
      await first.setTimeout(30_000);
      return (await first.getInfo()).endAt - Date.now();
    });
    await step('too long', () => first.setTimeout(10 ** 12));
    await step('connect', async () => {
      const again = await Sandbox.connect(first.sandboxId);
      return (await again.commands.run('echo again')).stdout;
    });
    await step('metrics', () => first.getMetrics());
    await step('host', () => first.getHost(3000));
    await step('kill', () => first.kill());
    await step('kill again', () => first.kill());
    await step('running after', () => first.isRunning());
    await step('command after', () => first.commands.run('true'));
    await step('file after', () => first.files.read('x'));
    await step('info after', () => first.getInfo());
    await step('connect after', () => Sandbox.connect(first.sandboxId));
    await step('kill by id', () => Sandbox.kill(second.sandboxId));
    await step('list after', () => pages(Sandbox.list()));
    await step('unknown template', () => create('no-such-template'));
  },

  // `options.port`: where the service listens; the names of ports are not in DNS.
  async host() {
    const sandbox = await create();
    await sandbox.files.write('page.txt', 'from inside');
    await sandbox.commands.run('python3 -u -m http.server 8000', {background: true, envs: {PYTHONUNBUFFERED: '1'}});
    const ask = (headers) => new Promise((resolve, reject) => {
      const host = sandbox.getHost(8000);
      get({host: '127.0.0.1', port: options.port, path: '/page.txt', headers: {...headers, host}}, async (answer) => {
        let text = '';
        for await (const piece of answer) text += piece;
        resolve({status: answer.statusCode, text});
      }).on('error', reject);
    });
    const token = sandbox.trafficAccessToken;
    await step('host', () => sandbox.getHost(8000));
    await step('page', () => until(async () => {
      const answer = await ask({'e2b-traffic-access-token': token});
      return answer.status === 200 && answer.text;
    }));
    await step('without', async () => (await ask({})).status);
    await step('forged', async () => (await ask({'e2b-traffic-access-token': `${token.slice(0, -1)}${token.endsWith('0') ? 1 : 0}`})).status);
  },

  async commands() {
    const sandbox = await create();
    const {commands} = sandbox;
    await step('run', async () => result(await commands.run('echo out; echo err >&2')));
    await step('callbacks', async () => {
      const seen = {out: '', err: ''};
      await commands.run('echo out; echo err >&2', {
        onStdout: (text) => { seen.out += text; }, onStderr: (text) => { seen.err += text; }});
      return seen;
    });
    await step('exit code', () => commands.run('echo before; exit 3').catch(failed));
    await step('environment', async () => (await commands.run('echo $ONE-$TWO', {envs: {ONE: '1', TWO: 'b c'}})).stdout);
    await step('directory', async () => {
      await commands.run('mkdir -p deep/er');
      return (await commands.run('basename $PWD', {cwd: '/home/user/deep/er'})).stdout;
    });
    await step('large output', async () => (await commands.run('head -c 3000000 /dev/zero | tr "\\0" x')).stdout.length);
    await step('unicode', async () => (await commands.run("printf 'h\\303\\251llo \\360\\237\\230\\200'")).stdout);
    await step('background', async () => {
      const handle = await commands.run('for i in 1 2 3; do echo $i; done; sleep 600', {background: true});
      const listed = await commands.list();
      const known = listed.find((each) => each.pid === handle.pid);
      const killed = await handle.kill();
      const gone = await until(async () => !(await commands.list()).some((each) => each.pid === handle.pid));
      return {cmd: known?.cmd, args: known?.args, killed, gone, again: await commands.kill(handle.pid)};
    });
    await step('ended by a signal', async () => {
      const handle = await commands.run('sleep 600', {background: true});
      await handle.kill();
      return handle.wait().catch(failed);
    });
    await step('stdin', async () => {
      const handle = await commands.run('cat', {background: true, stdin: true});
      await commands.sendStdin(handle.pid, 'to the program\n');
      await until(() => handle.stdout.includes('program'));
      if (commands.closeStdin) await commands.closeStdin(handle.pid); else await handle.kill();
      return commands.closeStdin ? result(await handle.wait()) : {exitCode: 0, stdout: handle.stdout, stderr: ''};
    });
    await step('without stdin', async () => result(await commands.run('cat; echo end')));
    await step('timeout', () => commands.run('sleep 600', {timeoutMs: 1000}));
    await step('disconnect', async () => {
      const handle = await commands.run('echo begun; until [ -e go ]; do sleep 0.05; done; echo ended', {background: true});
      await until(() => handle.stdout.includes('begun'));
      await handle.disconnect();
      const back = await commands.connect(handle.pid);
      await sandbox.files.write('go', '');
      const done = await back.wait();
      return {same: back.pid === handle.pid, ...result(done)};
    });
    await step('connect to the ended', async () => {
      const handle = await commands.run('echo kept', {background: true});
      await handle.wait();
      return result(await (await commands.connect(handle.pid)).wait());
    });
    await step('connect to none', () => commands.connect(999_999));
    await step('kill none', () => commands.kill(999_999));
    await step('root', async () => (await commands.run('id -u', {user: 'root'})).stdout);
    await step('many', async () => {
      const all = await Promise.all([1, 2, 3, 4, 5].map((n) => commands.run(`echo ${n}`)));
      return all.map((each) => each.stdout.trim());
    });
  },

  async files() {
    const sandbox = await create();
    const {files} = sandbox;
    await step('write', async () => shown(await files.write('one.txt', 'first')));
    await step('read', () => files.read('one.txt'));
    await step('read absolute', () => files.read('/home/user/one.txt'));
    await step('seen inside', async () => (await sandbox.commands.run('cat one.txt', {cwd: '/home/user'})).stdout);
    await step('overwrite', async () => {
      await files.write('/home/user/one.txt', 'second');
      return files.read('one.txt');
    });
    await step('bytes', async () => {
      const bytes = new Uint8Array([0, 255, 13, 10, 45, 45, 7]);
      await files.write('deep/er/bytes.bin', bytes.buffer);
      return [...await files.read('deep/er/bytes.bin', {format: 'bytes'})];
    });
    await step('blob', async () => (await (await files.read('one.txt', {format: 'blob'})).text()));
    await step('stream', async () => {
      let text = '';
      for await (const chunk of await files.read('one.txt', {format: 'stream'})) text += new TextDecoder().decode(chunk);
      return text;
    });
    await step('empty', async () => {
      await files.write('empty', '');
      return {text: await files.read('empty'), bytes: (await files.read('empty', {format: 'bytes'})).length};
    });
    await step('several', async () => {
      const all = await files.write([{path: 'a/1', data: 'x'}, {path: 'a/2', data: 'y'.repeat(300_000)}]);
      return {all: all.map(shown), length: (await files.read('a/2')).length};
    });
    await step('octets', async () => {
      const written = await files.write('octets', 'as octets', {useOctetStream: true});
      return {...shown(written), text: await files.read('octets')};
    });
    await step('gzip', async () => {
      await files.write('packed', 'z'.repeat(200_000), {gzip: true});
      return (await files.read('packed', {gzip: true})).length;
    });
    await step('list', async () => (await files.list('a')).map(shown));
    await step('list deep', async () => (await files.list('/home/user/deep', {depth: 2})).map(shown));
    await step('exists', async () => [await files.exists('one.txt'), await files.exists('none')]);
    await step('info', async () => {
      const info = await files.getInfo('one.txt');
      return {...shown(info), size: info.size, mode: info.mode, permissions: info.permissions, owner: info.owner,
        recent: Math.abs(Date.now() - info.modifiedTime) < 600_000};
    });
    await step('make directory', async () => [await files.makeDir('made/in'), await files.makeDir('made/in')]);
    await step('rename', async () => {
      const moved = await files.rename('one.txt', 'made/in/moved.txt');
      return {...shown(moved), text: await files.read('made/in/moved.txt'), old: await files.exists('one.txt')};
    });
    await step('remove', async () => {
      await files.remove('made');
      return files.exists('made');
    });
    await step('dots', () => files.read('a/../a/./1'));
    await step('read none', () => files.read('none'));
    await step('list none', () => files.list('none'));
    await step('list a file', () => files.list('a/1'));
    await step('read a directory', () => files.read('a'));
    await step('outside', () => files.read('/proc/1/environ'));
    await step('metadata', () => files.write('m', 'x', {metadata: {author: 'me'}}));
  },

  async watch() {
    const sandbox = await create();
    const {files} = sandbox;
    await files.makeDir('w/below');
    const watched = async (name, opts, change) => step(name, async () => {
      const events = [];
      const handle = await files.watchDir('w', (event) => { events.push(event); }, opts);
      await change();
      await until(() => events.some((each) => each.name.endsWith('last')));
      await handle.stop();
      return events.map((each) => ({name: each.name, type: each.type, ...(each.entry ? {entry: shown(each.entry)} : {})}));
    });
    await watched('flat', {}, async () => {
      await files.write('w/a', '1');
      await files.write('w/below/unseen', '1');
      await files.rename('w/a', 'w/b');
      await files.remove('w/b');
      await files.write('w/last', '');
    });
    await watched('recursive', {recursive: true}, () => files.write('w/below/last', ''));
    await watched('entries', {includeEntry: true}, () => files.write('w/3last', 'abc'));
    await step('none', () => files.watchDir('none', () => {}));
  },

  async pty() {
    const sandbox = await create();
    let text = '';
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();
    const handle = await sandbox.pty.create({cols: 80, rows: 24, onData: (data) => { text += decoder.decode(data); }, timeoutMs: 0});
    const send = (line) => sandbox.pty.sendInput(handle.pid, encoder.encode(line));
    await step('size', async () => {
      await send('stty size\n');
      return until(() => /24 80/.test(text));
    });
    await step('resize', async () => {
      await sandbox.pty.resize(handle.pid, {cols: 100, rows: 30});
      await send('stty size; tty; echo term=$TERM\n');
      return until(() => /30 100/.test(text) && /term=xterm-256color/.test(text));
    });
    await step('kill', async () => [await sandbox.pty.kill(handle.pid), await until(async () => !await sandbox.pty.kill(handle.pid))]);
    const exits = await sandbox.pty.create({cols: 80, rows: 24, onData: () => {}, timeoutMs: 0});
    await step('exit', async () => {
      await sandbox.pty.sendInput(exits.pid, encoder.encode('exit 7\n'));
      return exits.wait().catch((error) => ({exitCode: error.exitCode}));
    });
  },

  async code() {
    const sandbox = await create();
    const told = (execution) => ({
      text: execution.text ?? null, stdout: execution.logs.stdout.join(''), stderr: execution.logs.stderr.join(''),
      error: execution.error ? {name: execution.error.name, value: execution.error.value} : null,
      results: execution.results.map((each) => ({main: each.isMainResult, formats: each.formats(), text: each.text ?? null})),
    });
    await step('value', async () => told(await sandbox.runCode('x = 6\nx * 7')));
    await step('state', async () => told(await sandbox.runCode('x + 1')));
    await step('string', async () => (await sandbox.runCode("'quoted'")).text);
    await step('output', async () => {
      const seen = {out: '', err: ''};
      const done = await sandbox.runCode('import sys\nprint("out")\nprint("err", file=sys.stderr)', {
        onStdout: (each) => { seen.out += each.line; }, onStderr: (each) => { seen.err += each.line; }});
      return {...told(done), seen};
    });
    await step('error', async () => {
      const done = await sandbox.runCode('print("before")\n1 / 0');
      return {...told(done), traceback: done.error.traceback};
    });
    await step('syntax error', async () => told(await sandbox.runCode('def')));
    await step('await', async () => (await sandbox.runCode('import asyncio\nawait asyncio.sleep(0)\n"done"')).text);
    await step('rich', async () => {
      const done = await sandbox.runCode(
        'class H:\n    def _repr_html_(self): return "<b>h</b>"\n    def __repr__(self): return "H"\nH()');
      return {html: done.results[0].html, text: done.results[0].text, main: done.results[0].isMainResult};
    });
    await step('count', async () => (await sandbox.runCode('1')).executionCount);
    await step('environment', async () => (await sandbox.runCode('import os\nos.environ["CELL"]', {envs: {CELL: "it's"}})).text);
    await step('javascript', async () => told(await sandbox.runCode('const y = 20; y + 2', {language: 'js'})));
    await step('bash', async () => told(await sandbox.runCode('echo from bash', {language: 'bash'})));
    await step('files', async () => {
      await sandbox.runCode('open("by_code.txt", "w").write("made")');
      return sandbox.files.read('by_code.txt');
    });
    const context = await step('context', () => sandbox.createCodeContext({cwd: '/home/user'}));
    await step('contexts are apart', async () => told(await sandbox.runCode('x', {context})).error);
    await step('context state', async () => {
      await sandbox.runCode('z = 5', {context});
      return (await sandbox.runCode('z', {context})).text;
    });
    await step('restart', async () => {
      await sandbox.restartCodeContext(context);
      return told(await sandbox.runCode('z', {context})).error;
    });
    await step('contexts', async () => (await sandbox.listCodeContexts()).map((each) => each.id).includes(context.id));
    await step('remove', async () => {
      await sandbox.removeCodeContext(context);
      return (await sandbox.listCodeContexts()).map((each) => each.id).includes(context.id);
    });
    await step('removed', () => sandbox.runCode('1', {context}));
    await step('many contexts', async () => {
      for (let i = 0; i < 6; i++) {
        const one = await sandbox.createCodeContext();
        if ((await sandbox.runCode(`${i}`, {context: one})).text !== `${i}`) throw new Error(`context ${i}`);
        await sandbox.removeCodeContext(one);
      }
      return true;
    });
    // The client leaves out what a refusal says, except to programs of this source.
    process.env.E2B_USER_AGENT_SOURCE = 'ci';
    const telling = await Sandbox.connect(sandbox.sandboxId);
    delete process.env.E2B_USER_AGENT_SOURCE;
    await step('missing directory', () => telling.createCodeContext({cwd: '/home/user/none'}));
    await step('unknown language', () => telling.runCode('1', {language: 'klingon'}));
    await step('timeout', () => sandbox.runCode('import time\nwhile True: time.sleep(0.01)', {timeoutMs: 1500}));
    await step('after the timeout', async () => (await until(async () => {
      const done = await sandbox.runCode('x').catch(() => null);
      return done?.text && done;
    })).text);
  },

  async pause() {
    const sandbox = await create({timeoutMs: 60_000});
    await sandbox.files.write('kept', 'by the pause');
    const ticks = await sandbox.commands.run('n=0; while :; do n=$((n+1)); echo $n > ticks; sleep 0.02; done', {background: true, timeoutMs: 0});
    await until(() => sandbox.files.exists('ticks'));
    await step('pause', () => sandbox.pause());
    await step('pause again', () => sandbox.pause());
    await step('running', () => sandbox.isRunning());
    await step('listed', () => pages(Sandbox.list({query: {state: ['paused']}})));
    await step('not running', () => pages(Sandbox.list({query: {state: ['running']}})));
    await step('state', async () => (await sandbox.getInfo()).state);
    await step('command', () => sandbox.commands.run('true'));
    await step('resume', async () => {
      const again = await Sandbox.connect(sandbox.sandboxId, {timeoutMs: 60_000});
      const before = Number(await again.files.read('ticks'));
      await until(async () => Number(await again.files.read('ticks')) > before);
      const listed = await again.commands.list();
      return {text: await again.files.read('kept'), goesOn: listed.some((each) => each.pid === ticks.pid),
        state: (await again.getInfo()).state};
    });
    await step('without memory', () => sandbox.pause({keepMemory: false}));
  },

  async autoPause() {
    const sandbox = await create({timeoutMs: 3000, lifecycle: {onTimeout: 'pause', autoResume: true}});
    await step('lifecycle', async () => (await sandbox.getInfo()).lifecycle);
    await step('paused', () => until(async () => (await sandbox.getInfo()).state === 'paused'));
    await step('wakes', async () => [(await sandbox.commands.run('echo awake')).stdout, (await sandbox.getInfo()).state]);
    const sleeps = await create({timeoutMs: 2000, lifecycle: {onTimeout: 'pause'}});
    await step('sleeps', async () => {
      await until(async () => (await sleeps.getInfo()).state === 'paused');
      return sleeps.isRunning();
    });
    await step('connects', async () => {
      const again = await Sandbox.connect(sleeps.sandboxId, {timeoutMs: 30_000});
      return [await again.isRunning(), (await again.getInfo()).endAt - Date.now()];
    });
  },

  async ends() {
    const sandbox = await create({timeoutMs: 2000});
    await step('ends', () => until(async () => !await sandbox.isRunning()));
    await step('gone', () => sandbox.kill());
  },

  async snapshots() {
    const sandbox = await create({metadata: {of: 'fork'}, envs: {KEPT: 'too'}});
    await sandbox.files.write('saved.txt', 'in the snapshot');
    const snapshot = await step('snapshot', () => sandbox.createSnapshot({name: 'first'}));
    await sandbox.files.write('saved.txt', 'later');
    await step('list', () => pages(Sandbox.listSnapshots()));
    await step('list of the sandbox', () => pages(sandbox.listSnapshots()));
    await step('restore', async () => (await create(snapshot.snapshotId)).files.read('saved.txt'));
    await step('fork', async () => {
      const forks = await sandbox.fork({count: 2, timeoutMs: 60_000});
      made.push(...forks.filter((each) => !(each instanceof Error)));
      return Promise.all(forks.map(async (each) => ({
        text: await each.files.read('saved.txt'), metadata: (await each.getInfo()).metadata,
        env: (await each.commands.run('echo $KEPT')).stdout.trim(), other: each.sandboxId !== sandbox.sandboxId})));
    });
    await step('delete', () => Sandbox.deleteSnapshot(snapshot.snapshotId));
    await step('delete again', () => Sandbox.deleteSnapshot(snapshot.snapshotId));
    await step('restore the deleted', () => create(snapshot.snapshotId));
  },

  async network() {
    const reach = (host) => `timeout 5 bash -c 'exec 3<>/dev/tcp/${host}/80' 2>/dev/null && echo yes || echo no`;
    const cut = await create({network: {allowOut: ['allowed.example', 'other.example'], denyOut: ['0.0.0.0/0']}});
    await step('cut', async () => (await cut.getInfo()).network);
    const none = await create({allowInternetAccess: false});
    await step('none', async () => {
      const info = await none.getInfo();
      return {network: info.network, allowed: info.allowInternetAccess, reach: (await none.commands.run(reach('allowed.example'))).stdout.trim()};
    });
    await step('update', () => cut.updateNetwork({allowOut: ['allowed.example'], denyOut: ['0.0.0.0/0']}));
    await step('rules', () => create({network: {rules: {'allowed.example': [{transform: {headers: {a: 'b'}}}]}}}));
  },

  async signed() {
    const sandbox = await create();
    await step('upload', async () => {
      const url = await sandbox.uploadUrl('up.txt');
      const form = new FormData();
      form.append('file', new Blob(['by a link']), 'up.txt');
      const answer = await fetch(url, {method: 'POST', body: form});
      return [answer.status, await sandbox.files.read('up.txt')];
    });
    await step('download', async () => {
      const answer = await fetch(await sandbox.downloadUrl('up.txt', {useSignatureExpiration: 60}));
      return [answer.status, await answer.text()];
    });
    await step('refusals', async () => {
      const url = new URL(await sandbox.downloadUrl('up.txt', {useSignatureExpiration: 60}));
      const changed = [];
      for (const change of [
        (to) => to.searchParams.set('path', 'other.txt'),
        (to) => to.searchParams.set('signature_expiration', '99999999999'),
        (to) => to.searchParams.set('signature', 'v1_' + 'A'.repeat(43)),
        (to) => to.searchParams.delete('signature'),
      ]) {
        const to = new URL(url);
        change(to);
        changed.push((await fetch(to)).status);
      }
      changed.push((await fetch(url, {method: 'POST', body: 'x', headers: {'Content-Type': 'application/octet-stream'}})).status);
      return changed;
    });
    await step('after the end', async () => {
      const url = await sandbox.downloadUrl('up.txt');
      await sandbox.kill();
      return (await fetch(url)).status;
    });
  },

  // Another tenant's sandbox: `options.other` is its id.
  async stranger() {
    await step('info', () => Sandbox.getInfo(options.other));
    await step('connect', () => Sandbox.connect(options.other));
    await step('kill', () => Sandbox.kill(options.other));
    await step('timeout', () => Sandbox.setTimeout(options.other, 1000));
    await step('pause', () => Sandbox.pause(options.other));
    await step('metrics', () => Sandbox.getMetrics(options.other));
    await step('snapshot', () => Sandbox.createSnapshot(options.other));
    await step('fork', () => Sandbox.fork(options.other));
    await step('delete snapshot', () => Sandbox.deleteSnapshot(options.otherSnapshot));
    await step('list', () => pages(Sandbox.list()));
    await step('snapshots', () => pages(Sandbox.listSnapshots()));
  },
};

try {
  await stories[options.story]();
} finally {
  if (!options.keep) for (const sandbox of made) await sandbox.kill().catch(() => {});
}
