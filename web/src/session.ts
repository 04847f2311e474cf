// SPDX-License-Identifier: Apache-2.0
// Who is signed in. The cookie is the browser's business; this page has the principal and the CSRF token.
import { attendance } from './attendance';
import { Store } from './store';

interface Answer {
  principal: Principal;
  csrf: string;
  expires_at: string;
}

export interface Principal {
  tenant: string;
  app: string;
  agent: string;
  user: string;
  roles: string[];
  permissions: string[];
  credential: string;
  expires_at: string | null;
}

export interface UiConfig {
  oidc: boolean;
  base_path: string;
  version: string;
}

export type SessionState =
  | { state: 'unknown' }
  /** `ended`: by itself, so that the person may want to go on. */
  | { state: 'out'; reason: string | null; ended?: boolean }
  | { state: 'in'; principal: Principal; csrf: string; expiresAt: string };

export const session = new Store<SessionState>({ state: 'unknown' });

const uiUrl = (name: string): string => new URL(name, document.baseURI).href;

export function currentCsrf(): string {
  return session.value.state === 'in' ? session.value.csrf : '';
}

/** Any 401 ends here: the page leads to sign-in and back. `csrf` is the token at the time of the request. */
export function onSignedOut(csrf: string): void {
  if (session.value.state === 'in' && session.value.csrf === csrf) {
    session.set({ state: 'out', reason: 'Your session has ended. Sign in again to return to this page.', ended: true });
  }
}

/** Who a person is, whatever key or session they came with. A key without a user and an agent is a person of its own. */
export function personOf(principal: Principal): string {
  const { tenant, app, agent, user, credential } = principal;
  return JSON.stringify([tenant, app, agent, user, user || agent ? '' : credential]);
}

const forgetting: (() => void)[] = [];
const leaving: (() => void)[] = [];
let latest: string | null = null;

/** Runs `forget` before another person's session begins in this page: what one person typed is not for the next. */
export function onAnotherPerson(forget: () => void): void {
  forgetting.push(forget);
}

/** Runs `forget` then, and when the person signs out. */
export function onLeaving(forget: () => void): void {
  onAnotherPerson(forget);
  leaving.push(forget);
}

/** A map that is emptied before another person's session begins. */
export function personalMap<K, V>(): Map<K, V> {
  const map = new Map<K, V>();
  onAnotherPerson(() => map.clear());
  return map;
}

function take(body: Answer): void {
  const principal = { ...body.principal, roles: body.principal.roles ?? [], permissions: body.principal.permissions ?? [] };
  const person = personOf(principal);
  if (latest !== null && latest !== person) for (const forget of forgetting) forget();
  latest = person;
  session.set({ state: 'in', csrf: body.csrf, expiresAt: body.expires_at, principal });
}

/** Takes what another tab changed: a new token, another person, or a session where there was none. */
function takeOver(body: Answer): void {
  if (currentCsrf() !== body.csrf) take(body);
}

async function problem(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { detail?: string; error?: { message?: string } };
    return body.error?.message ?? body.detail ?? `The service answered ${response.status}.`;
  } catch {
    return `The service answered ${response.status}.`;
  }
}

/** Asks the service who is signed in. Rejects, with the service's own words, if the service cannot say. */
export async function resume(): Promise<void> {
  const response = await fetch(uiUrl('session'), { credentials: 'same-origin', cache: 'no-store' });
  if (response.ok) return take((await response.json()) as Answer);
  if (response.status !== 401) throw new Error(await problem(response));
  session.set({ state: 'out', reason: null });
}

/** After a refused token: takes the present one. → whether the same person has another token now, or another person is signed in. */
export async function renewCsrf(): Promise<'same' | 'other' | 'none'> {
  const before = session.value;
  if (before.state !== 'in') return 'none';
  const response = await fetch(uiUrl('session'), { credentials: 'same-origin', cache: 'no-store' }).catch(() => null);
  const body = response?.ok ? ((await response.json().catch(() => null)) as Answer | null) : null;
  if (body && session.value === before) takeOver(body);
  const now = session.value;
  if (now.state !== 'in' || now.csrf === before.csrf) return 'none';
  return personOf(now.principal) === personOf(before.principal) ? 'same' : 'other';
}

export const ANOTHER_PERSON = 'Another person has signed in in this browser meanwhile. Nothing was changed.';

const WATCH_MS = 600;
const WAIT_MS = 3000;

/**
 * Asks again and again while the page is seen, so that a revoked key or a session that ended elsewhere leaves nothing
 * on the screen for longer than a second. A session that began in another tab is taken over. → how to stop.
 */
export function watchSession(): () => void {
  let stopped = false;
  let timer = 0;
  const ask = async (): Promise<void> => {
    const before = session.value;
    if (!document.hidden && before.state !== 'unknown') {
      const answer = await fetch(uiUrl('session'), {
        credentials: 'same-origin', cache: 'no-store', headers: attendance.headers(),
      }).catch(() => null);
      const body = answer?.ok ? ((await answer.json().catch(() => null)) as Answer | null) : null;
      if (!stopped && session.value === before) {  // or the answer is about an earlier session
        if (answer?.status === 401) onSignedOut(currentCsrf());
        if (body) takeOver(body);
      }
    }
    if (!stopped) timer = window.setTimeout(() => void ask(), session.value.state === 'out' ? WAIT_MS : WATCH_MS);
  };
  timer = window.setTimeout(() => void ask(), WATCH_MS);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

/** → null, or why the key was refused. */
export async function signIn(key: string): Promise<string | null> {
  const response = await fetch(uiUrl('session'), {
    method: 'POST', credentials: 'same-origin', cache: 'no-store',
    headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ key }),
  });
  if (!response.ok) return problem(response);
  take((await response.json()) as Answer);
  return null;
}

const STILL_IN = 'You are still signed in. Try again, or end the sign-in under Keys and people.';

/** → null, or why the session goes on. */
export async function signOut(): Promise<string | null> {
  const end = (): Promise<Response | null> => fetch(uiUrl('session'), {
    method: 'DELETE', credentials: 'same-origin', headers: { 'X-CSRF-Token': currentCsrf() },
  }).catch(() => null);
  let response = await end();
  const renewed = response?.status === 403 ? await renewCsrf() : 'none';
  if (renewed === 'other') return ANOTHER_PERSON;
  if (renewed === 'same') response = await end();
  if (!response) return `The service does not answer. ${STILL_IN}`;
  if (!response.ok && response.status !== 401) return `${await problem(response)} ${STILL_IN}`;
  for (const forget of leaving) forget();
  session.set({ state: 'out', reason: 'You have signed out.' });
  return null;
}

export async function readConfig(): Promise<UiConfig> {
  const response = await fetch(uiUrl('config'), { credentials: 'same-origin', cache: 'no-store' });
  if (!response.ok) throw new Error(await problem(response));
  return (await response.json()) as UiConfig;
}

/** Whether the service would allow it. A button that would be refused is not drawn. */
export function may(permission: string): boolean {
  return session.value.state === 'in' && session.value.principal.permissions.includes(permission);
}

/** Nobody works in another tenant: an administrator only looks there, and ends what runs. */
export function isOwn(owner: { tenant: string }): boolean {
  return session.value.state === 'in' && session.value.principal.tenant === owner.tenant;
}

/** An administrator sees every tenant. */
export function isAdmin(): boolean {
  return session.value.state === 'in' && session.value.principal.roles.includes('admin');
}
