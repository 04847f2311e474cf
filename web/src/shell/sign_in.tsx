// SPDX-License-Identifier: Apache-2.0
// Sign-in by key or by the provider of OpenID Connect. The key is sent once, and kept nowhere in the page.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { waiting } from '../drafts';
import { Button, Notice } from '../parts/basics';
import { Form, Input } from '../parts/forms';
import { inside, useRoute } from '../router';
import { signIn, type UiConfig } from '../session';

// Why the provider signed nobody in, by the word that the service sends.
const FAILURES: Record<string, string> = {
  denied: 'The provider refused the sign-in. Ask its administrator for access to this service.',
  unavailable: 'The provider does not answer, or does not accept this service. Try again in a moment, or sign in by key.',
};
const FAILED = 'The sign-in through the provider failed. Try again. If it fails again, ask the administrator of this service for the cause in its log.';

// What /ui/login takes (src/api/ui/login.cc): a plain path from /ui/ on, whatever prefix the page is served under.
const PLAIN = /^(?![^?]*(?:\/\/|\/\.|%2e))[!$-;=?-[\]^-~]{0,1020}$/i;

/** The address of the provider's sign-in, which leads back to `next` where the service takes it. */
export function loginUrl(next: string): string {
  const url = new URL('login', document.baseURI);
  const path = inside(next);
  if (path && PLAIN.test(`/${path}`)) url.searchParams.set('next', `/ui/${path}`);
  return url.href;
}

/** What becomes of text that was typed before the sign-in ended. */
function Waiting({ text, oidc }: { text: ReturnType<typeof waiting>; oidc: boolean }): JSX.Element | null {
  if (text === 'nothing') return null;
  return (
    <>
      <p>The text that you typed waits in this page. It returns when you sign in as the same person, and is dropped when another person signs in or the page is closed.</p>
      {text === 'part' && <p>A part of it was too large to wait, and is gone.</p>}
      {oidc && <p>Single sign-on opens in a tab of its own. Come back to this tab afterwards.</p>}
    </>
  );
}

interface SignInProps {
  config: UiConfig | null;
  reason: string | null;
  /** Why the ways to sign in are not known. */
  unread: string | null;
  retry(): void;
}

export function SignIn({ config, reason, unread, retry }: SignInProps): JSX.Element {
  const route = useRoute();
  const [key, setKey] = useState('');
  const [error, setError] = useState<string | null>(null);
  const failed = route.query.get('failed');
  const [busy, setBusy] = useState(false);
  const [kept, setKept] = useState<ReturnType<typeof waiting>>('nothing');
  useEffect(() => setKept(waiting()), []);  // after the screen has gone, and left what it had
  useEffect(() => {
    document.title = 'Sign in · Cloister';
  }, []);
  const send = async (): Promise<void> => {
    if (key.trim() === '') return setError('Enter a key.');
    setBusy(true);
    setError(null);
    try {
      const refused = await signIn(key.trim());
      if (refused === null) setKey('');
      setError(refused);
    } catch {
      setError('The service does not answer. Try again in a moment.');
    }
    setBusy(false);
  };
  return (
    <main class="alone">
      <section class="sign-in card" aria-labelledby="sign-in-title">
        <h1 id="sign-in-title"><Mark /> Cloister</h1>
        {reason && <Notice><p>{reason}</p><Waiting text={kept} oidc={config?.oidc ?? false} /></Notice>}
        {failed && <Notice tone="bad"><p>{FAILURES[failed] ?? FAILED}</p></Notice>}
        {unread && <Notice tone="warn" title={unread}><p>Whether single sign-on is offered is not known.</p><Button small onClick={retry}>Try again</Button></Notice>}
        {config?.oidc && (
          <>
            <a class="button primary wide" href={loginUrl(route.query.get('next') ?? '')} {...(kept === 'nothing' ? {} : { target: '_blank', rel: 'noopener' })}>Sign in with single sign-on</a>
            <p class="or" aria-hidden="true"><span>or</span></p>
          </>
        )}
        <Form onSubmit={() => void send()}>
          <Input label="API key" type="password" value={key} onInput={setKey} mono autoFocus name="key" placeholder="clo_…" error={error} />
          <Button type="submit" {...(config?.oidc ? {} : { kind: 'primary' as const })} disabled={busy}>Sign in</Button>
        </Form>
        <p class="hint">The administrator’s key is in the file <code>admin.key</code> of the state directory. <code>cloister key create</code> makes further keys.</p>
        {config?.version && <p class="hint">Version {config.version}</p>}
      </section>
    </main>
  );
}

export const Mark = (): JSX.Element => (
  <svg class="mark" viewBox="0 0 16 16" width="20" height="20" aria-hidden="true"><path d="M2 15V7a6 6 0 0 1 12 0v8h-3V7a3 3 0 0 0-6 0v8z" /></svg>
);
