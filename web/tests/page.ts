// SPDX-License-Identifier: Apache-2.0
// What the page's code needs of a browser, for units that run in Node. Import it first.

export interface Sent {
  method: string;
  path: string;
  headers: Record<string, string>;
}

type Answer = Response | Promise<Response>;

export const BASE = 'https://host.test/team/cloister/ui/';
export const sent: Sent[] = [];
let answer: (request: Sent, signal: AbortSignal | undefined) => Answer = () => new Response('', { status: 500 });

/** How the service answers from now on. */
export function answers(next: typeof answer): void {
  answer = next;
  sent.length = 0;
}

export const json = (status: number, body: unknown): Response => new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });

/** The person's answers to questions about unsaved work, and the questions. */
export const asked: string[] = [];
export const person = { leaves: true };

const listeners = new Map<string, ((event: unknown) => void)[]>();
export const dispatch = (name: string, event: unknown): void => listeners.get(name)?.forEach((each) => each(event));

export const place = new URL(BASE);
export const history: { state: unknown; moves: number[] } = { state: null, moves: [] };

const set = (state: unknown, _: string, url: URL): void => {
  history.state = state;
  place.href = url.href;
};

const listening = {
  addEventListener: (name: string, listener: (event: unknown) => void): void => void listeners.set(name, [...(listeners.get(name) ?? []), listener]),
  removeEventListener: (name: string, listener: unknown): void => void listeners.set(name, (listeners.get(name) ?? []).filter((each) => each !== listener)),
};
const seen = { baseURI: BASE, hidden: false, querySelector: () => null, ...listening };

/** The person looks at another tab, or at this one again. */
export function hide(hidden: boolean): void {
  seen.hidden = hidden;
  dispatch('visibilitychange', {});
}

Object.assign(globalThis, {
  document: seen,
  window: globalThis,
  location: place,
  history: Object.assign(history, { pushState: set, replaceState: set, go: (by: number) => history.moves.push(by) }),
  ...listening,
  confirm: (text: string) => {
    asked.push(text);
    return person.leaves;
  },
  fetch: async (url: string, init: { method?: string; headers?: Record<string, string>; signal?: AbortSignal } = {}) => {
    const request = { method: init.method ?? 'GET', path: url.slice('https://host.test/team/cloister'.length), headers: init.headers ?? {} };
    sent.push(request);
    return answer(request, init.signal);
  },
});
