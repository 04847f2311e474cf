// SPDX-License-Identifier: Apache-2.0
// Which page is shown: sign-in, a screen, or why neither.
import type { ComponentType, JSX } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import { Button, Empty, ErrorState, Loading, Notice } from '../parts/basics';
import { Page } from '../parts/page';
import { Toasts, toast } from '../parts/toast';
import { Link, currentRoute, inside, match, navigate, useRoute } from '../router';
import { screens, type Screen, type ScreenProps } from '../screens/registry';
import { may, personOf, readConfig, resume, session, watchSession, type UiConfig } from '../session';
import { useStore } from '../store';
import { visible } from '../text';
import { Frame } from './frame';
import { SignIn } from './sign_in';

export function App(): JSX.Element {
  const state = useStore(session);
  const route = useRoute();
  const [config, setConfig] = useState<UiConfig | null>(null);
  const [unread, setUnread] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const last = useRef<{ person: string; left: boolean } | null>(null);
  const start = (): void => {
    setError(null);
    setUnread(null);
    readConfig().then(setConfig, (failed: unknown) => setUnread(reasonOf(failed)));
    resume().catch(setError);
  };
  useEffect(start, []);
  useEffect(watchSession, []);
  useEffect(() => {
    const { path, query } = currentRoute();
    if (state.state === 'out' && last.current) last.current.left = true;
    const person = state.state === 'in' ? personOf(state.principal) : null;
    const before = last.current;
    const another = before !== null && person !== null && before.person !== person;
    if (person !== null) last.current = { person, left: false };
    if (state.state === 'in' && another && !before.left) {
      const { user, agent, credential } = state.principal;
      toast(`Another tab of this browser signed in as ${user || agent || credential}: this page goes on as that person.`, 'warn');
    }
    if (state.state === 'out' && path !== 'sign-in') {
      const failed = query.get('sign_in');  // from the service, when the provider signed nobody in
      query.delete('sign_in');
      const text = query.toString();
      const next = path + (text ? `?${text}` : '');
      const to = new URLSearchParams({ ...(next ? { next } : {}), ...(failed ? { failed } : {}) }).toString();
      navigate(to ? `sign-in?${to}` : 'sign-in', { replace: true, force: true });
    }
    // Not to the page that another person left, and never out of the interface.
    if (state.state === 'in' && path === 'sign-in') navigate((another ? null : inside(query.get('next') ?? '')) ?? '', { replace: true, force: true });
  }, [state, route]);
  if (error) {
    return (
      <main class="alone">
        <Notice tone="bad" title={reasonOf(error)}><p>Check that the service runs and that this computer reaches it.</p><Button onClick={start}>Try again</Button></Notice>
      </main>
    );
  }
  if (state.state === 'unknown') return <main class="alone"><Loading /></main>;
  if (state.state === 'out') return <><SignIn config={config} reason={state.reason} unread={unread} retry={start} /><Toasts /></>;
  const { principal } = state;
  return <><Frame key={personOf(principal) + principal.permissions.join(' ')} config={config}><Shown /></Frame><Toasts /></>;
}

/** The service's own words, or that there was no answer: `fetch` rejects with a TypeError. */
const reasonOf = (error: unknown): string => (error instanceof Error && !(error instanceof TypeError) ? visible(error.message) : 'The service does not answer.');

function find(path: string): { screen: Screen; params: Record<string, string> } | null {
  for (const screen of screens) {
    const params = match(screen.path, path);
    if (params) return { screen, params };
  }
  return null;
}

export const allowed = (screen: Screen): boolean => !screen.permissions || screen.permissions.some(may);

function Shown(): JSX.Element {
  const route = useRoute();
  const found = find(route.path);
  if (!found) {
    return <Page title="Not found"><Empty title="No page has this address.">Search by id with Ctrl K, or go to <Link to="">Home</Link>.</Empty></Page>;
  }
  if (!allowed(found.screen)) {
    return (
      <Page title={found.screen.title}>
        <Empty title="Your roles do not open this page.">It needs {found.screen.permissions?.join(' or ')}. Ask an administrator, or go to <Link to="">Home</Link>.</Empty>
      </Page>
    );
  }
  return <Loaded key={found.screen.path + JSON.stringify(found.params)} screen={found.screen} params={found.params} query={route.query} />;
}

function Loaded({ screen, params, query }: { screen: Screen } & ScreenProps): JSX.Element {
  const [component, setComponent] = useState<{ it: ComponentType<ScreenProps> } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [broken, mend] = useErrorBoundary((failure) => console.error(failure));
  useEffect(() => {
    let gone = false;
    screen.load().then((loaded) => {
      if (!gone) setComponent({ it: loaded.default });
    }, setError);
    return () => {
      gone = true;
    };
  }, [screen]);
  if (error) {
    return (
      <Page title={screen.title}>
        <Notice tone="bad" title="This page could not be loaded."><p>The service may have been updated. Load the page again.</p><Button onClick={() => location.reload()}>Load again</Button></Notice>
      </Page>
    );
  }
  if (broken) return <Page title={screen.title}><ErrorState error={broken} retry={mend} /></Page>;
  if (!component) return <Loading />;
  const Component = component.it;
  return <Component params={params} query={query} />;
}
