// SPDX-License-Identifier: Apache-2.0
// Paths below <base href>. A path is written without a leading slash, as in `executions/exec_…?tab=output`.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { Store, useStore } from './store';

export interface Route {
  /** Decoded by nobody: segments are still as in the URL. */
  path: string;
  query: URLSearchParams;
}

const base = new URL(document.baseURI).pathname;

function parsed(url: URL | Location): Route {
  const path = url.pathname.startsWith(base) ? url.pathname.slice(base.length) : '';
  return { path: path.replace(/\/+$/, ''), query: new URLSearchParams(url.search) };
}

const read = (): Route => parsed(location);

const route = new Store<Route>(read());

// Unsaved work: each guard says whether the work would be lost on the way to a route.
const guards = new Set<(next: Route) => boolean>();
const QUESTION = 'Leave without saving? Your changes on this page will be lost.';

/** Out of the interface, as by a sign-out. */
const AWAY: Route = { path: '/', query: new URLSearchParams() };

/** Whether the person may be led to `next`: asks if unsaved work would be lost. */
export function mayLeave(next: Route = AWAY): boolean {
  return ![...guards].some((loses) => loses(next)) || confirm(QUESTION);
}

/** Guards work until the answer is called, against the routes on which it is lost and against the end of the page. */
function guardAgainst(loses: (next: Route) => boolean): () => void {
  const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
  addEventListener('beforeunload', ask);
  guards.add(loses);
  return () => {
    removeEventListener('beforeunload', ask);
    guards.delete(loses);
  };
}

/** Guards the work at the present route: against a path or a member of the query that changes. */
export function guard(members: readonly string[]): () => void {
  const { path, query } = route.value;
  return guardAgainst((next) => next.path !== path || members.some((name) => next.query.get(name) !== query.get(name)));
}

/** Guards work that stays as long as the page does, whatever the page shows. */
export const guardPage = (): (() => void) => guardAgainst((next) => next === AWAY);

/** Asks before unsaved work is lost: when the window closes, the path changes, or one of these members of the query. */
export function useGuard(dirty: boolean, members: readonly string[] = []): void {
  useEffect(() => (dirty ? guard(members) : undefined), [dirty, members.join(' ')]);
}

// Places in the history are numbered, so that a Back that is refused can be undone.
const placeOf = (state: unknown): number => Number((state as { place?: unknown } | null)?.place) || 0;
let place = placeOf(history.state);
let undoing = false;
addEventListener('popstate', (event) => {
  const to = placeOf(event.state);
  const next = read();
  if (undoing) {
    undoing = false;
    return;
  }
  if (to !== place && !mayLeave(next)) {
    undoing = true;
    history.go(place - to);
    return;
  }
  place = to;
  route.set(next);
});

export const useRoute = (): Route => useStore(route);
export const currentRoute = (): Route => route.value;

/** A path of this page with its query, as it leads on from the base; null if `to` leads elsewhere. */
export function inside(to: string): string | null {
  let url: URL;
  try {
    url = new URL(to, document.baseURI);
  } catch {
    return null;
  }
  if (url.origin !== location.origin || !url.pathname.startsWith(base)) return null;
  return url.pathname.slice(base.length) + url.search;
}

/** `force`: without a question about unsaved work. → whether the page went there. */
export function navigate(to: string, options: { replace?: boolean; force?: boolean } = {}): boolean {
  const path = inside(to);
  if (path === null) return false;
  const url = new URL(base + path, document.baseURI);
  if (!options.force && !mayLeave(parsed(url))) return false;
  if (!options.replace) place += 1;
  if (options.replace) history.replaceState({ place }, '', url);
  else history.pushState({ place }, '', url);
  route.set(read());
  if (!options.replace) document.querySelector('.content')?.scrollTo(0, 0);
  return true;
}

/** Changes members of the query, in place or, with `step`, so that Back leads here; undefined and '' remove a member. */
export function setQuery(values: Record<string, string | undefined>, step = false): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  navigate(route.value.path + (text ? `?${text}` : ''), { replace: !step });
}

/** The members that a pattern such as `sessions/:id` names, or null. `*` at the end takes the rest. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  const members: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    if (part === '*') {
      members['rest'] = given.slice(index).join('/');
      return members;
    }
    const value = given[index];
    if (value === undefined) return null;
    if (part.startsWith(':')) {
      if (value === '') return null;
      try {
        members[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (part !== value) {
      return null;
    }
  }
  return given.length === wanted.length ? members : null;
}

export interface LinkProps {
  to: string;
  class?: string;
  title?: string;
  tabIndex?: number;
  'aria-current'?: 'page' | undefined;
  'aria-label'?: string;
  children?: ComponentChildren;
}

export function Link({ to, children, ...rest }: LinkProps): JSX.Element {
  const follow = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={new URL(to, document.baseURI).href} onClick={follow} {...rest}>{children}</a>;
}
