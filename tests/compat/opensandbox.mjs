// SPDX-License-Identifier: Apache-2.0
// Runs a story with the unmodified client of OpenSandbox, and prints each step as a line of JSON:
// {"step", "value"} or {"step", "error": {"name", "status", "code", "message"}}.
//
//     node opensandbox.mjs '{"story": "lifecycle", "domain": "http://…/opensandbox", "key": "…"}'

import {Sandbox, SandboxManager} from '@alibaba-group/opensandbox';

const options = JSON.parse(process.argv[2]);
const connectionConfig = {domain: options.domain, apiKey: options.key};
const image = 'python:3.11';
const encoder = new TextEncoder();

function told(error) {
  return {
    name: error.constructor.name,
    status: error.statusCode ?? null,
    code: error.error?.code ?? null,
    message: String(error.message),
    raw: typeof error.rawBody === 'string' ? error.rawBody : JSON.stringify(error.rawBody ?? null),
  };
}

// Steps go on after an error: the suite looks at each.
async function step(name, action) {
  try {
    const value = await action();
    console.log(JSON.stringify({step: name, value: value ?? null}));
    return value;
  } catch (error) {
    console.log(JSON.stringify({step: name, error: told(error)}));
    return undefined;
  }
}

const text = (execution) => ({
  stdout: execution.logs.stdout.map((each) => each.text),
  stderr: execution.logs.stderr.map((each) => each.text),
  exitCode: execution.exitCode ?? null,
  complete: Boolean(execution.complete),
  error: execution.error ?? null,
  id: execution.id ?? null,
  results: execution.result.map((each) => each.text),
});

async function create(more = {}) {
  return await Sandbox.create({
    connectionConfig, image, timeoutSeconds: 600, resource: {cpu: '500m', memory: '256Mi'}, ...more,
  });
}

async function until(condition, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error('the condition did not come true');
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

async function execdOf(sandbox) {
  const endpoint = await sandbox.getEndpoint(44772);
  return {url: `http://${endpoint.endpoint}`, headers: endpoint.headers ?? {}};
}

// Events of execd: JSON, each with an empty line.
async function events(url, body, headers) {
  const answer = await fetch(url, {
    method: 'POST', headers: {'content-type': 'application/json', ...headers}, body: JSON.stringify(body),
  });
  const said = await answer.text();
  if (!answer.ok) throw Object.assign(new Error(said), {statusCode: answer.status});
  return said.split('\n\n').filter(Boolean).map((each) => JSON.parse(each));
}

const stories = {
  async lifecycle() {
    const sandbox = await step('create', () => create({
      metadata: {team: 'red', name: 'one & two'}, env: {GREETING: 'hello'},
    }));
    if (!sandbox) return;
    const manager = SandboxManager.create({connectionConfig});
    await step('id', () => sandbox.id);
    await step('info', () => sandbox.getInfo());
    await step('healthy', () => sandbox.isHealthy());
    await step('metrics', () => until(async () => {
      const now = await sandbox.getMetrics();
      return now.memoryUsedMiB > 0 ? now : null;
    }));
    await step('env', async () => text(await sandbox.commands.run('echo $GREETING')));
    const second = await step('second', async () => (await create({metadata: {team: 'blue'}})).id);
    await step('list', () => manager.listSandboxInfos({}));
    await step('list by metadata', () => manager.listSandboxInfos({metadata: {name: 'one & two'}}));
    await step('list by state', () => manager.listSandboxInfos({states: ['Paused']}));
    await step('page', () => manager.listSandboxInfos({page: 2, pageSize: 1}));
    await step('beyond', () => manager.listSandboxInfos({page: 9, pageSize: 1}));
    await step('patch', () => sandbox.patchMetadata({team: 'green', name: null, more: 'yes'}));
    await step('patch reserved', () => sandbox.patchMetadata({'opensandbox.io/image': 'x'}));
    await step('renew', () => sandbox.renew(1200));
    await step('renew by manager', () => manager.renewSandbox(sandbox.id, 900));
    await step('renew to the past', () => sandbox.renew(-5));
    await step('get', () => manager.getSandboxInfo(sandbox.id));
    const again = await step('connect', async () => {
      const other = await Sandbox.connect({connectionConfig, sandboxId: sandbox.id});
      return {id: other.id, out: text(await other.commands.run('echo again')).stdout};
    });
    await step('kill by manager', () => manager.killSandbox(second));
    await step('kill', () => sandbox.kill());
    await step('kill again', () => sandbox.kill());
    await step('info of the killed', () => sandbox.getInfo());
    await step('command of the killed', () => sandbox.commands.run('true'));
    await step('list after', () => manager.listSandboxInfos({}));
    return again;
  },

  async refusals() {
    for (const [name, more] of Object.entries(options.refused)) {
      await step(name, async () => {
        const sandbox = await create(more);
        await sandbox.kill();
        return sandbox.id;
      });
    }
  },

  async commands() {
    const sandbox = await step('create', () => create());
    if (!sandbox) return;
    const run = (command, more, handlers) => sandbox.commands.run(command, more, handlers);
    await step('echo', async () => text(await run('echo one; echo two >&2; printf three')));
    await step('exit', async () => text(await run('exit 3')));
    await step('signal', async () => text(await run('kill -9 $$')));
    await step('cwd', async () => text(await run('pwd', {workingDirectory: '/tmp'})));
    await step('envs', async () => text(await run('echo "$A $B"', {envs: {A: 'x y', B: '1'}})));
    await step('timeout', async () => text(await run('sleep 30', {timeoutSeconds: 0.5})));
    await step('uid', async () => text(await run('id -u', {uid: 0})));
    await step('status events', async () => {
      const seen = [];
      await run('id -u', {uid: 0}, {onEvent: (event) => seen.push(event)});
      return seen.filter((event) => event.type === 'status').map((event) => event.text);
    });
    await step('stream', async () => {
      const seen = [];
      for await (const event of sandbox.commands.runStream('echo a; echo b')) seen.push(event.type);
      return seen;
    });
    await step('long line', async () => text(await run('head -c 200000 /dev/zero | tr "\\0" x')).stdout
      .map((line) => line.length));
    await step('not UTF-8', async () => text(await run("printf 'a\\377b\\n'")).stdout);
    const background = await step('background', async () => text(
      await run('echo begin; sleep 0.5; echo err >&2; echo end; exit 4', {background: true})));
    await step('status at once', () => sandbox.commands.getCommandStatus(background.id));
    await step('status at the end', () => until(async () => {
      const now = await sandbox.commands.getCommandStatus(background.id);
      return now.running ? null : now;
    }));
    await step('logs', () => sandbox.commands.getBackgroundCommandLogs(background.id));
    await step('logs from 1', () => sandbox.commands.getBackgroundCommandLogs(background.id, 1));
    await step('logs from 3', () => sandbox.commands.getBackgroundCommandLogs(background.id, 3));
    await step('interrupt', async () => {
      const {id} = await run('sleep 100', {background: true});
      await sandbox.commands.interrupt(id);
      return await until(async () => {
        const now = await sandbox.commands.getCommandStatus(id);
        return now.running ? null : now;
      });
    });
    await step('interrupt a foreground one', async () => {
      let interrupted;
      const done = await run('echo up; sleep 100', {}, {
        onStdout: () => {interrupted = true;},
        onInit: async (init) => {
          void until(() => interrupted).then(() => sandbox.commands.interrupt(init.id));
        },
      });
      return text(done);
    });
    await step('unknown status', () => sandbox.commands.getCommandStatus('exec_00000000000000000000000000'));
    await step('no command', async () => {
      const {url, headers} = await execdOf(sandbox);
      return await events(`${url}/command`, {command: ''}, headers);
    });
    await step('outlives the client', async () => {
      const {url, headers} = await execdOf(sandbox);
      const leave = new AbortController();
      const answer = await fetch(`${url}/command`, {
        method: 'POST', headers: {'content-type': 'application/json', ...headers}, signal: leave.signal,
        body: JSON.stringify({command: 'sleep 0.3; echo lived > /workspace/lived', background: true}),
      });
      await answer.body.getReader().read();
      leave.abort();
      return await until(async () => {
        const seen = text(await run('cat /workspace/lived 2>/dev/null || true')).stdout;
        return seen.length > 0 ? seen : null;
      });
    });
    const shell = await step('shell', () => sandbox.commands.createSession({workingDirectory: '/tmp'}));
    await step('shell 1', async () => text(await sandbox.commands.runInSession(shell, 'pwd; X=5; cd /workspace')));
    await step('shell 2', async () => text(await sandbox.commands.runInSession(shell, 'echo $X; pwd')));
    await step('shell exit', async () => text(await sandbox.commands.runInSession(shell, '(exit 7)')));
    await step('shell cwd', async () => text(
      await sandbox.commands.runInSession(shell, 'pwd', {workingDirectory: '/tmp'})));
    await step('shell timeout', async () => text(
      await sandbox.commands.runInSession(shell, 'sleep 30', {timeoutSeconds: 0.5})));
    await step('delete shell', () => sandbox.commands.deleteSession(shell));
    await step('deleted shell', () => sandbox.commands.runInSession(shell, 'pwd'));
    await step('many shells', async () => {
      for (let i = 0; i < 8; ++i) {
        const id = await sandbox.commands.createSession();
        const said = text(await sandbox.commands.runInSession(id, `echo ${i}`)).stdout;
        if (said[0] !== String(i)) return said;
        await sandbox.commands.deleteSession(id);
      }
      return 'all';
    });
    await sandbox.kill();
  },

  async code() {
    const sandbox = await step('create', () => create());
    if (!sandbox) return;
    const {url, headers} = await execdOf(sandbox);
    const call = async (method, path, body) => {
      const answer = await fetch(url + path, {
        method, headers: {'content-type': 'application/json', ...headers},
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const said = await answer.text();
      return {status: answer.status, body: said === '' ? null : JSON.parse(said)};
    };
    const run = (code, context) => events(`${url}/code`, {code, context}, headers);
    const context = await step('context', async () => (await call('POST', '/code/context', {language: 'python'})).body);
    await step('cell 1', () => run('x = 20\nprint("out")\nx + 1', context));
    await step('cell 2', () => run('x + 22', context));
    await step('error', () => run('undefined_name', context));
    await step('default', () => run('y = 1\ny', {language: 'python'}));
    await step('javascript', () => run('const a = 40; a + 2', {language: 'javascript'}));
    await step('bash', () => run('echo hi', {language: 'bash'}));
    await step('contexts', () => call('GET', '/code/contexts?language=python'));
    await step('get', () => call('GET', `/code/contexts/${context.id}`));
    await step('in a directory', async () => {
      const made = (await call('POST', '/code/context', {language: 'python', cwd: '/tmp'})).body;
      return await run('import os; os.getcwd()', made);
    });
    await step('interrupt', async () => {
      const cell = run('import time\ntime.sleep(100)', context);
      await new Promise((resume) => setTimeout(resume, 300));
      await call('DELETE', `/code?id=${context.id}`);
      const ended = (await cell).at(-1);
      return {ended, after: (await run('x', context)).filter((event) => event.type === 'result')};
    });
    await step('delete', () => call('DELETE', `/code/contexts/${context.id}`));
    await step('deleted', () => call('GET', `/code/contexts/${context.id}`));
    await step('delete all', () => call('DELETE', '/code/contexts?language=python'));
    await step('none left', () => call('GET', '/code/contexts?language=python'));
    await step('unknown language', () => call('POST', '/code/context', {language: 'cobol'}));
    await step('many contexts', async () => {
      for (let i = 0; i < 6; ++i) {
        const made = (await call('POST', '/code/context', {language: 'bash'})).body;
        await run('true', made);
        await call('DELETE', `/code/contexts/${made.id}`);
      }
      return 'all';
    });
    await sandbox.kill();
  },

  async files() {
    const sandbox = await step('create', () => create());
    if (!sandbox) return;
    const files = sandbox.files;
    const home = options.folder;
    await step('write', () => files.writeFiles([
      {path: `${home}/a.txt`, data: 'line 1\nline 2\nline 3\nline 4\n', mode: 640},
      {path: `${home}/deep/er/b.bin`, data: new Uint8Array([0, 255, 10, 13, 45, 45])},
      {path: `${home}/empty`, data: ''},
    ]));
    await step('write a stream', () => files.writeFiles([{
      path: `${home}/streamed`, data: (async function* pieces() {
        for (let i = 0; i < 300; ++i) yield encoder.encode(`${i}\r\n--`.padEnd(1000, '.'));
      }()),
    }]));
    await step('read', () => files.readFile(`${home}/a.txt`));
    await step('read bytes', async () => [...await files.readBytes(`${home}/deep/er/b.bin`)]);
    await step('read empty', () => files.readFile(`${home}/empty`));
    await step('read range', () => files.readFile(`${home}/a.txt`, {range: 'bytes=5-9'}));
    await step('read lines', () => files.readFile(`${home}/a.txt`, {offset: 2, limit: 2}));
    await step('read a stream', async () => {
      let size = 0;
      for await (const piece of files.readBytesStream(`${home}/streamed`)) size += piece.length;
      return size;
    });
    await step('read missing', () => files.readFile(`${home}/missing`));
    await step('read outside', () => files.readFile('/etc/shadow'));
    await step('read through a link', async () => {
      await sandbox.commands.run(`ln -s /etc/passwd ${home}/link`);
      return await files.readFile(`${home}/link`);
    });
    await step('info', () => files.getFileInfo([`${home}/a.txt`, `${home}/deep`]));
    await step('info missing', () => files.getFileInfo([`${home}/missing`]));
    await step('permissions', async () => {
      await files.setPermissions([{path: `${home}/a.txt`, mode: 755}]);
      return (await files.getFileInfo([`${home}/a.txt`]))[`${home}/a.txt`].mode;
    });
    await step('permissions of another', () => files.setPermissions([
      {path: `${home}/a.txt`, mode: 755, owner: 'root'}]));
    await step('replace', async () => {
      await files.replaceContents([{path: `${home}/a.txt`, oldContent: 'line', newContent: 'row'}]);
      return await files.readFile(`${home}/a.txt`);
    });
    await step('replace detailed', () => files.replaceContentsDetailed([
      {path: `${home}/a.txt`, oldContent: 'row', newContent: 'line'},
      {path: `${home}/empty`, oldContent: 'row', newContent: 'line'}]));
    await step('mode after', async () =>
      (await files.getFileInfo([`${home}/a.txt`]))[`${home}/a.txt`].mode);
    await step('search', async () =>
      (await files.search({path: home, pattern: '*.bin'})).map((each) => each.path));
    await step('search all', async () =>
      (await files.search({path: home, pattern: '**'})).map((each) => each.path));
    await step('make directories', async () => {
      await files.createDirectories([{path: `${home}/d1`}, {path: `${home}/d2/d3`, mode: 700}]);
      return await files.getFileInfo([`${home}/d1`, `${home}/d2/d3`]);
    });
    await step('list', async () => (await files.listDirectory({path: home}))
      .map((each) => [each.path, each.type, each.size]));
    await step('list deep', async () =>
      (await files.listDirectory({path: home, depth: 3})).map((each) => each.path));
    await step('move', async () => {
      await files.moveFiles([{src: `${home}/a.txt`, dest: `${home}/d1/c.txt`}]);
      return await files.readFile(`${home}/d1/c.txt`);
    });
    await step('delete directory as a file', () => files.deleteFiles([`${home}/d1`]));
    await step('delete', async () => {
      await files.deleteFiles([`${home}/empty`, `${home}/d1/c.txt`]);
      return (await files.search({path: home, pattern: 'empty'})).length;
    });
    await step('delete directories', async () => {
      await files.deleteDirectories([`${home}/d1`, `${home}/d2`]);
      return (await files.listDirectory({path: home})).map((each) => each.path);
    });
    await sandbox.kill();
  },

  async egress() {
    const sandbox = await step('create', () => create({
      networkPolicy: {defaultAction: 'deny', egress: [
        {action: 'allow', target: 'granted.example.com'}, {action: 'allow', target: 'other.example.org'}]},
    }));
    if (!sandbox) return;
    await step('info', () => sandbox.getInfo());
    const raw = async () => {
      const endpoint = await sandbox.getEndpoint(18080);
      return await (await fetch(`http://${endpoint.endpoint}/policy`, {headers: endpoint.headers})).json();
    };
    await step('policy', () => sandbox.getEgressPolicy());
    await step('raw', raw);
    await step('patch', () => sandbox.patchEgressRules([
      {action: 'allow', target: 'third.example.com'}, {action: 'deny', target: 'granted.example.com'},
      {action: 'allow', target: 'granted.example.com'}]));
    await step('patched', () => sandbox.getEgressPolicy());
    await step('delete', () => sandbox.deleteEgressRules(['granted.example.com', 'unknown.example.net']));
    await step('deleted', () => sandbox.getEgressPolicy());
    await step('bad', () => sandbox.patchEgressRules([{action: 'allow', target: 'http://x/'}]));
    await step('vault', () => sandbox.credentialVault.get());
    const open = await step('allow all', async () => (await create()).id);
    await step('of allow all', async () => {
      const other = await Sandbox.connect({connectionConfig, sandboxId: open});
      return await other.getEgressPolicy();
    });
    const none = await step('none', async () => {
      const other = await create({networkPolicy: {defaultAction: 'deny', egress: []}});
      await other.patchEgressRules([{action: 'allow', target: 'granted.example.com'}]);
      const endpoint = await other.getEndpoint(18080);
      return await (await fetch(`http://${endpoint.endpoint}/policy`, {headers: endpoint.headers})).json();
    });
    return none;
  },

  async snapshots() {
    const sandbox = await step('create', () => create());
    if (!sandbox) return;
    const manager = SandboxManager.create({connectionConfig});
    await sandbox.files.writeFiles([{path: '/workspace/kept.txt', data: 'kept'}]);
    const snapshot = await step('snapshot', () => manager.createSnapshot(sandbox.id, {name: 'first'}));
    await step('get', () => manager.getSnapshot(snapshot.id));
    await step('list', () => manager.listSnapshots({sandboxId: sandbox.id}));
    await step('list others', () => manager.listSnapshots({sandboxId: 'ses_other'}));
    await step('restore', async () => {
      const {image: _, ...rest} = {snapshotId: snapshot.id};
      const other = await Sandbox.create({connectionConfig, timeoutSeconds: 600,
        resource: {cpu: '500m', memory: '256Mi'}, ...rest});
      const kept = await other.files.readFile('/workspace/kept.txt');
      const info = await other.getInfo();
      await other.kill();
      return {kept, snapshotId: info.snapshotId ?? null};
    });
    await step('delete', () => manager.deleteSnapshot(snapshot.id));
    await step('deleted', () => manager.getSnapshot(snapshot.id));
    await step('ticks', async () => {
      const {id} = await sandbox.commands.run(
        'i=0; while :; do i=$((i+1)); echo $i > /workspace/ticks; sleep 0.05; done', {background: true});
      await until(async () => text(await sandbox.commands.run('cat /workspace/ticks || true')).stdout.length > 0);
      return id;
    });
    await step('pause', () => sandbox.pause());
    await step('paused', async () => (await sandbox.getInfo()).status.state);
    await step('list paused', () => manager.listSandboxInfos({states: ['Paused']}));
    await step('command while paused', () => sandbox.commands.run('true'));
    await step('pause again', () => sandbox.pause());
    await step('resume', async () => {
      const again = await sandbox.resume();
      const before = Number(text(await again.commands.run('cat /workspace/ticks')).stdout[0]);
      const after = await until(async () => {
        const now = Number(text(await again.commands.run('cat /workspace/ticks')).stdout[0]);
        return now > before ? now : null;
      });
      return {before, after, state: (await again.getInfo()).status.state};
    });
    await step('resume again', () => manager.resumeSandbox(sandbox.id));
    await step('end while paused', async () => {
      await sandbox.pause();
      await sandbox.kill();
      return 'ended';
    });
  },

  async ports() {
    const sandbox = await step('create', () => create({entrypoint: ['python3', '-m', 'http.server', '8123']}));
    if (!sandbox) return;
    await step('info', () => sandbox.getInfo());
    const endpoint = await step('endpoint', () => sandbox.getEndpoint(8123));
    const get = async (url, headers = {}) => {
      const answer = await fetch(url, {headers, redirect: 'manual'});
      return {status: answer.status, body: await answer.text(), type: answer.headers.get('content-type')};
    };
    const key = {'OPEN-SANDBOX-API-KEY': options.key};
    await sandbox.files.writeFiles([{path: '/workspace/page.txt', data: 'a page'}]);
    await step('page', () => until(async () => {
      const page = await get(`http://${endpoint.endpoint}/page.txt`, key);
      return page.status === 200 ? page : null;
    }));
    await step('without a key', () => get(`http://${endpoint.endpoint}/page.txt`));
    await step('with a wrong key', () => get(`http://${endpoint.endpoint}/page.txt`,
      {'OPEN-SANDBOX-API-KEY': 'clo_wrong'}));
    await step('signed', async () => {
      const signed = await sandbox.getSignedEndpoint(8123, Math.floor(Date.now() / 1000) + 60);
      return await get(`http://${signed.endpoint}/page.txt`);
    });
    await sandbox.files.writeFiles([{path: '/workspace/echo.py', data: `
import http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({k.lower(): v for k, v in self.headers.items()}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", 8124), Echo).serve_forever()
`}]);
    await sandbox.commands.run('python3 /workspace/echo.py', {background: true});
    await step('headers inside', async () => {
      const echo = await sandbox.getEndpoint(8124);
      return await until(async () => {
        const said = await get(`http://${echo.endpoint}/`, {...key, Authorization: 'Bearer inside',
          Cookie: 'a=b', 'X-EXECD-ACCESS-TOKEN': 'x', 'X-Own': 'kept'});
        return said.status === 200 ? JSON.parse(said.body) : null;
      });
    });
    const execd = await execdOf(sandbox);
    await step('token alone', () => get(`${execd.url}/ping`, execd.headers));
    await step('no token', () => get(`${execd.url}/ping`));
    await step('forged token', () => get(`${execd.url}/ping`, {'X-EXECD-ACCESS-TOKEN': '1-key_x-00'}));
    await step('token at another port', async () => get(
      execd.url.replace('/44772', '/18080') + '/policy',
      {'OPENSANDBOX-EGRESS-AUTH': execd.headers['X-EXECD-ACCESS-TOKEN']}));
    await step('unknown path of execd', () => get(`${execd.url}/nonsense`, execd.headers));
    await step('after the end', async () => {
      await sandbox.kill();
      return await get(`${execd.url}/ping`, execd.headers);
    });
  },

  async isolated() {
    const sandbox = await step('create', () => create({env: {SEEN: '1', HIDDEN: '2'}}));
    if (!sandbox) return;
    await step('capabilities', () => sandbox.isolation.capabilities());
    await sandbox.commands.run('echo mine > /tmp/mine; mkdir -p /workspace/w; sleep 60', {background: true});
    await until(async () => text(await sandbox.commands.run('ls /tmp/mine || true')).stdout.length > 0);
    const session = await step('session', async () => {
      const made = await sandbox.isolation.create({workspace: {path: '/workspace/w', mode: 'rw'},
        env_passthrough: {mode: 'allow', keys: ['SEEN']}, idle_timeout_seconds: 600});
      return {id: made.sessionId, info: made.info};
    });
    const attached = await sandbox.isolation.attach(session.id);
    await step('run', async () => text(await attached.run(
      'pwd; echo "[$SEEN][$HIDDEN][$OWN]"; ls /tmp; ps -e 2>/dev/null | grep -c sleep; echo data > out.txt; exit 5',
      {envs: {OWN: '3'}})));
    await step('timeout', async () => text(await attached.run('sleep 30', {timeout_seconds: 1})));
    await step('files', async () => {
      await attached.files.writeFiles([{path: '/workspace/w/in.txt', data: 'in'}]);
      return [await attached.files.readFile('/workspace/w/out.txt'),
        text(await attached.run('cat in.txt')).stdout[0]];
    });
    await step('get', () => attached.get());
    await step('list', () => sandbox.isolation.list());
    await step('overlay', () => sandbox.isolation.create({workspace: {path: '/workspace', mode: 'overlay'}}));
    await step('outside', () => sandbox.isolation.create({workspace: {path: '/etc', mode: 'rw'}}));
    await step('network', () => sandbox.isolation.create({workspace: {path: '/workspace'}, share_net: true}));
    await step('once', async () => text(await sandbox.isolation.runOnce('echo once', '/workspace')).stdout);
    await step('delete', () => attached.delete());
    await step('deleted', () => attached.get());
    await step('files of the deleted', () => attached.files.readFile('/workspace/w/out.txt'));
    await sandbox.kill();
  },

  // Everything about another tenant's sandbox, which looks like an unknown one.
  async stranger() {
    const manager = SandboxManager.create({connectionConfig});
    const base = options.domain;
    const headers = {'OPEN-SANDBOX-API-KEY': options.key, 'content-type': 'application/json'};
    for (const id of [options.sandbox, options.unknown]) {
      const of = id === options.sandbox ? 'other' : 'unknown';
      for (const [method, path, body] of options.requests) {
        await step(`${of} ${method} ${path}`, async () => {
          const answer = await fetch(`${base}/v1/sandboxes/${id}${path}`, {
            method, headers, body: body === null ? undefined : JSON.stringify(body), redirect: 'manual',
          });
          return {status: answer.status, body: (await answer.text()).replaceAll(id, 'ID')};
        });
      }
    }
    await step('list', () => manager.listSandboxInfos({}));
    await step('connect', () => Sandbox.connect({connectionConfig, sandboxId: options.sandbox,
      readyTimeoutSeconds: 1}));
  },
};

await stories[options.story]();
process.exit(0);
