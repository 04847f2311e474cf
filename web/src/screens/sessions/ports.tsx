// SPDX-License-Identifier: Apache-2.0
// A server in the session, seen through a link that expires, in a frame without the page's origin.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { labelled, path, post } from '../../api';
import { Button, Card, CopyButton, ErrorState, fieldError, Form, Input, Notice, Select, Time } from '../../parts';
import type { Session } from '../../types';

interface PortLink {
  token: string;
  url: string;
  path: string;
  port: number;
  expires_at: string;
}

const LABELS = { 'url.port': 'Port of the server', expires_seconds: 'The link lasts' } as const;
const LENGTHS = [{ value: '600', label: '10 minutes' }, { value: '3600', label: '1 hour' }, { value: '28800', label: '8 hours' }];

/** The address of a link: the service gives a path of its own, or an address on a host of the port's. */
function addressOf(link: PortLink): string {
  return new URL(link.url.startsWith('/') ? `..${link.url}` : link.url, document.baseURI).href;
}

/** A frame does not keep the cookie of a host of its own, so it shows the path, which carries the token. */
const framedOf = (link: PortLink): string => new URL(`..${link.path}`, document.baseURI).href;

const PROBE_MS = 3000;

/** Whether the service, and no server of the session, says that nobody listens on the port. */
async function nobodyListens(link: PortLink): Promise<boolean> {
  try {
    const answer = await fetch(framedOf(link), { credentials: 'omit', cache: 'no-store', redirect: 'manual', referrerPolicy: 'no-referrer', signal: AbortSignal.timeout(PROBE_MS) });
    const problem = answer.status === 404 && (answer.headers.get('Content-Type') ?? '').startsWith('application/problem+json');
    if (!problem) {
      void answer.body?.cancel();
      return false;
    }
    const body = (await answer.json()) as { error?: { details?: { field?: unknown } } };
    return body.error?.details?.field === 'url.port';
  } catch {
    return false;
  }
}

export function Ports({ session }: { session: Session }): JSX.Element {
  const [port, setPort] = useState('8000');
  const [length, setLength] = useState('3600');
  const [links, setLinks] = useState<PortLink[]>([]);
  const [shown, setShown] = useState<{ link: PortLink; round: number; silent: boolean } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const show = async (link: PortLink, round = 0): Promise<void> => {
    const silent = await nobodyListens(link);
    setShown({ link, round, silent });
  };
  const make = async (): Promise<void> => {
    setError(null);
    try {
      const link = await post<PortLink>(path`/v1/sessions/${session.id}/ports/${port}/tokens`, { expires_seconds: Number(length) });
      setLinks((old) => [link, ...old].slice(0, 20));
      await show(link);
    } catch (failed) {
      setError(labelled(failed, LABELS));
    }
  };
  return (
    <div class="stack">
      <Form label="Link to a port" onSubmit={() => void make()}>
        <div class="inline-fields">
          <Input label={LABELS['url.port']} type="number" min={1} max={65535} value={port} onInput={setPort} error={fieldError(error, 'url.port')} />
          <Select label={LABELS.expires_seconds} value={length} options={LENGTHS} onChange={(value) => setLength(value)} />
          <Button type="submit" kind="primary">Preview</Button>
        </div>
      </Form>
      {error && !fieldError(error, 'url.port') ? <ErrorState error={error} /> : null}
      {links.length === 0 && !error && <Notice title="Nothing is previewed."><p>Start a server in the terminal, such as <code>python3 -m http.server 8000</code>, and preview its port.</p></Notice>}
      {shown && (
        <Card
          class="flush" title={`Port ${shown.link.port}`}
          actions={(
            <>
              <Button small onClick={() => show(shown.link, shown.round + 1)}>Load again</Button>
              <CopyButton value={addressOf(shown.link)} what="the link">Copy the link</CopyButton>
              <a class="button small" href={addressOf(shown.link)} target="_blank" rel="noopener noreferrer">Open in a tab</a>
              <Button small kind="quiet" onClick={() => setShown(null)}>Close</Button>
            </>
          )}
        >
          {shown.silent
            ? <p class="soft note">No server listens on port {shown.link.port}. Start one in the terminal, then load again.</p>
            : <iframe key={`${shown.link.token}${shown.round}`} class="port-frame" title={`Server on port ${shown.link.port}`} src={framedOf(shown.link)} sandbox="allow-scripts allow-forms" referrerpolicy="no-referrer" allow="" />}
        </Card>
      )}
      {links.length > 0 && (
        <Card title="Links made here">
          <ul class="lines">
            {links.map((link) => (
              <li key={link.token} class="link-line">
                <span>Port {link.port}, until <Time at={link.expires_at} /></span>
                <span class="row"><Button small onClick={() => show(link)}>Preview</Button><CopyButton value={addressOf(link)} what="the link">Copy</CopyButton></span>
              </li>
            ))}
          </ul>
          <p class="hint">Whoever has a link reaches the port until it expires. A link ends with the session, and with the key that made it.</p>
        </Card>
      )}
    </div>
  );
}
