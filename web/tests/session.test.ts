// SPDX-License-Identifier: Apache-2.0
import { answers, asked, BASE, dispatch, hide, history, json, person, place, sent, type Sent } from './page';
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ApiError, apiUrl, filePath, follow, post, sayError, type ServerEvent } from '../src/api';
import { Shelf, waiting } from '../src/drafts';
import { currentRoute, guard, inside, mayLeave, navigate } from '../src/router';
import { onSignedOut, personalMap, resume, session, signOut, watchSession } from '../src/session';
import { connectSocket } from '../src/socket';
import { filePathOf } from '../src/screens/sessions/file_path';
import { loginUrl } from '../src/shell/sign_in';

const who = (user: string, csrf: string, credential = `key_${user}`) => ({
  principal: { tenant: 'acme', app: '', agent: '', user, roles: ['operator'], permissions: [], credential, expires_at: null }, csrf, expires_at: '2030-01-01T00:00:00Z',
});
const refused = () => json(403, { title: 'Forbidden', status: 403, error: { type: 'permission_denied', message: 'X-CSRF-Token: must be …', details: { field: 'header.X-CSRF-Token' } } });

async function enter(user: string, csrf: string, credential?: string): Promise<void> {
  answers(() => json(200, who(user, csrf, credential)));
  await resume();
}

const state = (): string => (session.value.state === 'in' ? `${session.value.principal.user} ${session.value.csrf}` : session.value.state);

beforeEach(() => session.set({ state: 'unknown' }));

test('signing out is told when the service did it, and only then', async () => {
  for (const failure of [() => json(503, { title: 'Unavailable', detail: 'the ledger is read-only' }), () => Promise.reject(new TypeError('fetch failed'))]) {
    await enter('ann', 'one');
    answers(failure);
    assert.match(await signOut() ?? '', /You are still signed in/);
    assert.equal(state(), 'ann one');
  }
  answers(({ method, headers }) => (method === 'GET' ? json(200, who('ann', 'two')) : headers['X-CSRF-Token'] === 'two' ? new Response(null, { status: 204 }) : refused()));
  assert.equal(await signOut(), null, 'with the token of another tab');
  assert.equal(state(), 'out');
});

test('a change goes on after the same person signed in in another tab', async () => {
  await enter('ann', 'one');
  answers(({ method, headers }) => (method === 'GET' ? json(200, who('ann', 'two', 'key_other')) : headers['X-CSRF-Token'] === 'two' ? json(200, { done: true }) : refused()));
  assert.deepEqual(await post('/v1/executions'), { done: true });
  assert.deepEqual(sent.map((each) => each.method), ['POST', 'GET', 'POST']);
  assert.equal(state(), 'ann two');
});

test('a change of one person is not made as another', async () => {
  await enter('ann', 'one');
  answers(({ method }) => (method === 'GET' ? json(200, who('eve', 'two')) : refused()));
  await assert.rejects(post('/v1/executions'), /Another person has signed in/);
  assert.deepEqual(sent.map((each) => each.method), ['POST', 'GET']);
  assert.equal(state(), 'eve two');
});

test('what one person typed is gone before the next one begins', async () => {
  const map = personalMap<string, string>();
  await enter('ann', 'one');
  map.set('cell', 'secret');
  onSignedOut('one');
  await enter('ann', 'two', 'key_second');
  assert.equal(map.get('cell'), 'secret');
  await signOut();
  await enter('bob', 'three');
  assert.equal(map.size, 0);
});

test('what waits goes with a sign-out and with another person, and the page asks before it closes', async () => {
  const shelf = new Shelf<string>((text) => text.length);
  let prevented = 0;
  const closes = (): number => {
    prevented = 0;
    dispatch('beforeunload', { preventDefault: () => { prevented += 1; } });
    return prevented;
  };
  await enter('ann', 'one');
  assert.deepEqual([closes(), waiting()], [0, 'nothing']);
  shelf.put('saved', 'x', false);
  assert.deepEqual([closes(), waiting()], [0, 'nothing']);
  shelf.put('cell', 'typed');
  assert.deepEqual([closes(), waiting()], [1, 'text']);
  assert.equal(navigate('executions'), true, 'it stays with the page');
  person.leaves = false;
  assert.equal(mayLeave(), false, 'a sign-out asks');
  person.leaves = true;
  asked.length = 0;
  onSignedOut('one');
  assert.equal(session.value.state === 'out' && session.value.ended, true);
  await enter('ann', 'two');
  assert.equal(shelf.take('cell'), 'typed');
  assert.equal(closes(), 0);
  for (const ends of [signOut, () => enter('bob', 'three')]) {
    shelf.put('cell', 'typed');
    answers(() => new Response(null, { status: 204 }));
    await ends();
    assert.equal(shelf.get('cell'), undefined);
    await enter('ann', 'four');
  }
  assert.equal(closes(), 0);
});

test('what waits is bounded in number and bytes, and the oldest goes first', () => {
  const shelf = new Shelf<string>((text) => text.length, 10, 3);
  assert.deepEqual(['a', 'b', 'c'].map((key) => shelf.put(key, key)), [true, true, true]);
  assert.equal(shelf.put('d', 'd'), false);
  assert.deepEqual(['a', 'b', 'c', 'd'].map((key) => shelf.get(key)), [undefined, 'b', 'c', 'd']);
  assert.equal(shelf.put('b', 'again'), true, 'in place of the value before');
  assert.equal(shelf.put('e', 'four'), false);
  assert.deepEqual(['b', 'c', 'd', 'e'].map((key) => shelf.get(key)), ['again', undefined, 'd', 'four']);
  assert.equal(shelf.put('d', 'more than ten'), false);
  assert.deepEqual(['d', 'e'].map((key) => shelf.get(key)), [undefined, 'four']);
  for (const key of ['b', 'e']) shelf.take(key);
});

test('an error says the label of its field, and then the words of the service', () => {
  const error = new ApiError(422, 'limits.memory_mb: must be at least 1', 'INVALID_REQUEST', { field: 'limits.memory_mb' });
  const said = error.labelled({ limits: 'Limits', 'limits.memory_mb': 'Memory, MiB' });
  assert.equal(sayError(error.labelled({ memory_mb: 'Memory' })), 'limits.memory_mb: must be at least 1 Change limits.memory_mb.');
  assert.equal(sayError(said), 'Memory, MiB: limits.memory_mb: must be at least 1 Change \u201cMemory, MiB\u201d.');
  assert.deepEqual([said.field, said.status], ['limits.memory_mb', 422]);
});

test('a path of the service is what requests name, and people see its escapes', () => {
  assert.deepEqual(filePathOf({ path: 'as%0Ais' }), { path: 'as%0Ais', shown: 'as%0Ais' });
  assert.deepEqual(filePathOf({ path: 'my%20dir/a%0Ab%25', escaped: true }), { path: 'my dir/a\nb%', shown: 'my dir/a\u21b5b%' });
  assert.deepEqual(filePathOf({ path: 'gpj.%E2%80%AE%C3%BC', escaped: true }), { path: 'gpj.\u202e\u00fc', shown: 'gpj.\\u{202e}\u00fc' });
  assert.deepEqual(filePathOf({ path: '%C3%BC%FF', escaped: true }), { path: null, shown: '\u00fc\\xff' });
});

test('a late answer about an earlier session ends no later one', async () => {
  await enter('ann', 'two');
  onSignedOut('one');
  assert.equal(state(), 'ann two');
});

test('a page that waits at sign-in goes on with the session of another tab', async () => {
  session.set({ state: 'out', reason: null });
  answers(() => json(200, who('ann', 'one')));
  const stop = watchSession();
  for (let turn = 0; turn < 100 && session.value.state !== 'in'; turn += 1) await new Promise((resolve) => setTimeout(resolve, 20));
  stop();
  assert.equal(state(), 'ann one');
});

test('the provider leads back below any prefix, and a path that the service refuses is left out', () => {
  const next = (path: string): string | null => new URL(loginUrl(path)).searchParams.get('next');
  assert.ok(loginUrl('').startsWith(`${BASE}login`));
  assert.equal(next('executions?status=failed'), '/ui/executions?status=failed');
  assert.equal(next(''), null);
  for (const path of ['http://[', 'https://evil.test/', '//evil.test/x', 'javascript:alert(1)', '../../v1/keys', 'a//b', 'a/.b', `a?${'x'.repeat(1100)}`]) assert.equal(next(path), null, path);
});

test('a path from an address stays inside', () => {
  assert.equal(inside('policy?tab=tests'), 'policy?tab=tests');
  for (const path of ['http://[', '//evil.test', '..%2f..//x', 'a:b', '/evil']) {
    const found = inside(path);
    assert.ok(found === null || new URL(found, BASE).href.startsWith(BASE), path);
  }
  assert.equal(navigate('http://['), false);
});

test('no name leads to another route', () => {
  for (const name of ['../../B/files/x', '..', 'a/./b', 'a//b', '/a', '', 'a/']) assert.throws(() => filePath(name), ApiError, name);
  assert.equal(filePath('a b/\u00fc.txt'), 'a%20b/%C3%BC.txt');
  for (const path of ['/v1/sessions/../keys', '/v1/sessions/%2E%2e/keys', '/v1/sessions/', '/v1//keys']) assert.throws(() => apiUrl(path), ApiError, path);
  assert.equal(apiUrl('/v1/agents/a/sandbox?tenant=..'), 'https://host.test/team/cloister/v1/agents/a/sandbox?tenant=..');
});

test('a stream that says nothing is connected anew, from its last id', async () => {
  await enter('ann', 'one');
  const stop = new AbortController();
  const seen: string[] = [];
  answers((_, signal) => new Response(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('id: 7\ndata: x\n\n'));
      signal?.addEventListener('abort', () => controller.error(new Error('closed')));
    },
  })));
  const last = (request: Sent | undefined): string | undefined => request?.headers['Last-Event-ID'];
  await follow('/v1/executions/exec_1/events', {
    signal: stop.signal, silenceMs: 40,
    onEvent: ({ data }) => {
      seen.push(data);
      if (seen.length === 2) stop.abort();
    },
  });
  assert.deepEqual(seen, ['x', 'x']);
  assert.deepEqual(sent.map(last), [undefined, '7']);
});

/** An answer that stays open until it is closed, with an event. → how often it was closed. */
function openStreams(): { closed: number } {
  const seen = { closed: 0 };
  answers((_, signal) => new Response(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('id: 7\ndata: x\n\n'));
      signal?.addEventListener('abort', () => {
        seen.closed += 1;
        controller.error(new Error('closed'));
      });
    },
  })));
  return seen;
}

test('a hidden page closes its streams after a while, and goes on from the last id when it is shown', async () => {
  await enter('ann', 'one');
  const streams = openStreams();
  const stop = new AbortController();
  let events = 0;
  const states: string[] = [];
  const done = follow('/v1/executions/exec_1/events', {
    signal: stop.signal, restMs: 10,
    onEvent: () => {
      events += 1;
      if (events === 1) hide(true);
      else stop.abort();
    },
    onState: (state) => states.push(state),
  });
  while (streams.closed === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  dispatch('online', {});
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(sent.length, 1, 'nothing is asked while nobody looks');
  hide(false);
  await done;
  assert.deepEqual(sent.map((each) => each.headers['Last-Event-ID']), [undefined, '7']);
  assert.deepEqual(states, ['connecting', 'open', 'connecting', 'open'], 'a rest is no loss');
});

test('a page that is hidden for a moment keeps its streams', async () => {
  await enter('ann', 'one');
  const streams = openStreams();
  const stop = new AbortController();
  await follow('/v1/executions/exec_1/events', {
    signal: stop.signal, restMs: 30,
    onEvent: () => {
      hide(true);
      hide(false);
      setTimeout(() => stop.abort(), 60);
    },
  });
  assert.deepEqual([sent.length, streams.closed], [1, 1], 'closed by the end alone');
});

test('streams connect again at once when the network is back', async () => {
  await enter('ann', 'one');
  openStreams();
  const stop = new AbortController();
  let events = 0;
  await follow('/v1/executions/exec_1/events', {
    signal: stop.signal,
    onEvent: () => {
      events += 1;
      if (events === 1) setTimeout(() => dispatch('online', {}));
      else stop.abort();
    },
  });
  assert.equal(sent.length, 2, 'a connection of before is not trusted');
  let failures = 0;
  answers(() => {
    failures += 1;
    if (failures === 6) return new Response(null, { status: 204 });
    setTimeout(() => dispatch('online', {}), 5);
    return Promise.reject(new TypeError('fetch failed'));
  });
  await follow('/v1/executions/exec_1/events', { signal: AbortSignal.timeout(5000), onEvent: () => undefined });
  assert.equal(failures, 6, 'and nobody waits for the end of a pause');
});

test('cells follow over sockets, from the last id, and by requests where no socket opens', async () => {
  await enter('ann', 'one');
  const urls: string[] = [];
  const scripts: (((socket: FakeSocket) => void) | undefined)[] = [];
  class FakeSocket {
    onopen?: () => void;
    onclose?: () => void;
    onmessage?: ((event: { data: string }) => void) | null;
    constructor(url: string) {
      urls.push(url);
      const script = scripts.shift();
      setTimeout(() => (script ? script(this) : this.onclose?.()));
    }
    say(message: object): void {
      this.onmessage?.({ data: JSON.stringify(message) });
    }
    close(): void {}
  }
  Object.assign(globalThis, { WebSocket: FakeSocket });
  scripts.push((socket) => {
    socket.onopen?.();
    socket.say({ type: 'stdout', id: '2.3.0', offset: 0, data: 'aGk=' });
    setTimeout(() => dispatch('online', {}));  // another network: the socket is not trusted
    hide(true);  // a cell goes on
  }, (socket) => {
    socket.onopen?.();
    socket.say({ type: 'usage', id: '2.3.0', usage: { wall_ms: 5 } });
    socket.say({ type: 'status', id: '4.3.0', status: 'completed', execution: { status: 'completed' } });
    socket.onclose?.();
  });
  const seen: string[] = [];
  const states: string[] = [];
  const options = { connect: connectSocket, restMs: Infinity, signal: new AbortController().signal, onEvent: ({ event, data }: ServerEvent) => seen.push(`${event} ${data}`), onState: (state: string) => states.push(state) };
  await follow('/v1/executions/exec_1/events', options);
  assert.deepEqual(seen, ['stdout {"offset":0,"data":"aGk="}', 'usage {"wall_ms":5}', 'status {"status":"completed"}']);
  assert.deepEqual(urls.map((url) => new URL(url).searchParams.get('last_event_id')), [null, '2.3.0']);
  assert.deepEqual(states, ['connecting', 'open', 'connecting', 'open', 'ended']);
  hide(false);
  answers(() => new Response(null, { status: 204 }));
  await follow('/v1/executions/exec_1/events', { ...options, lastEventId: '2.9.0' });
  assert.deepEqual(sent.map(({ path, headers }) => [path, headers['Last-Event-ID']]), [['/v1/executions/exec_1/events', '2.9.0']]);
});

test('Back past unsaved work is undone', () => {
  navigate('');
  navigate('policy?tab=edit');
  const before = history.state;
  assert.deepEqual(asked, [], 'nothing is guarded');
  const release = guard(['version']);
  person.leaves = false;
  assert.equal(navigate('policy?tab=tests', { replace: true }), true, 'a member that loses nothing');
  assert.deepEqual([navigate('executions'), navigate('policy?version=2'), mayLeave()], [false, false, false]);
  assert.equal(place.href, `${BASE}policy?tab=tests`);
  const back = (): void => {
    place.href = BASE;
    dispatch('popstate', { state: { place: (before as { place: number }).place - 1 } });
  };
  back();
  assert.deepEqual(history.moves, [1]);
  assert.equal(currentRoute().path, 'policy');
  place.href = `${BASE}policy?tab=tests`;
  dispatch('popstate', { state: before });  // of the undoing
  person.leaves = true;
  back();
  assert.equal(currentRoute().path, '');
  assert.equal(asked.length, 5);
  release();
  assert.equal(navigate('executions'), true);
  assert.equal(asked.length, 5);
});
