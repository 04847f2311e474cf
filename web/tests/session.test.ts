// SPDX-License-Identifier: Apache-2.0
import { answers, asked, BASE, dispatch, history, json, person, place, sent, type Sent } from './page';
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ApiError, apiUrl, filePath, follow, post } from '../src/api';
import { currentRoute, guard, inside, mayLeave, navigate } from '../src/router';
import { onSignedOut, personalMap, resume, session, signOut, watchSession } from '../src/session';
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
