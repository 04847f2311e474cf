// SPDX-License-Identifier: Apache-2.0
// One artifact: its description, and a preview that trusts nothing in it.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { del, isAbort, path, request } from '../../api';
import { useApi } from '../../hooks';
import { Bytes, Button, Card, ConfirmTyped, ErrorState, Facts, Id, Loading, Page, Result, Time, Untrusted } from '../../parts';
import { navigate } from '../../router';
import { may } from '../../session';
import { toBase64 } from '../../text';
import type { ArtifactRef } from '../../types';
import type { ScreenProps } from '../registry';
import { download } from './artifacts';

type Stored = ArtifactRef & { execution_id: string | null; created_at: string; expires_at: string | null };

export const MAX_PREVIEW = 2 * 1024 * 1024;
export const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

export default function ArtifactScreen({ params }: ScreenProps): JSX.Element {
  const id = params['id'] ?? '';
  const reading = useApi<Stored>(path`/v1/artifacts/${id}`);
  const [asking, setAsking] = useState(false);
  const artifact = reading.data;
  if (!artifact) return <Page title={id}>{reading.error ? <ErrorState error={reading.error} retry={reading.reload} /> : <Loading />}</Page>;
  return (
    <Page
      title={artifact.path} heading={<Untrusted value={artifact.path} mono />} {...(artifact.execution_id ? { up: { to: `executions/${artifact.execution_id}?tab=results`, label: 'Execution' } } : {})}
      actions={(
        <>
          <Button kind="primary" onClick={() => download(path`/v1/artifacts/${id}/content`, artifact.path)}>Save</Button>
          {may('artifact.delete') && <Button kind="danger" onClick={() => setAsking(true)}>Delete…</Button>}
        </>
      )}
    >
      <div class="stack">
        <Card>
          <Facts rows={[
            ['Id', <Id key="i" value={id} />], ['Type', <Untrusted key="t" value={artifact.content_type} />], ['Size', <Bytes key="s" count={artifact.size} />],
            ['SHA-256', <code key="h">{artifact.sha256}</code>],
            ['Execution', artifact.execution_id ? <Id key="e" value={artifact.execution_id} to={`executions/${artifact.execution_id}`} /> : 'none: it was uploaded'],
            ['Created', <Time key="c" at={artifact.created_at} />], ['Deleted after', artifact.expires_at ? <Time key="x" at={artifact.expires_at} /> : 'never by age'],
          ]} />
        </Card>
        <Card title="Preview"><Preview artifact={artifact} /></Card>
      </div>
      {asking && (
        <ConfirmTyped
          title="Delete this artifact?" action="Delete" typed={id.slice(-6)} onClose={() => setAsking(false)}
          onConfirm={async () => { await del(path`/v1/artifacts/${id}`); navigate(artifact.execution_id ? `executions/${artifact.execution_id}` : 'executions'); }}
        >
          <p>Nobody can take this back. The last six characters of its id are <code>{id.slice(-6)}</code>.</p>
        </ConfirmTyped>
      )}
    </Page>
  );
}

export function Preview({ artifact }: { artifact: ArtifactRef }): JSX.Element {
  const [result, setResult] = useState<Record<string, unknown> | null>(null);
  const [error, setError] = useState<unknown>(null);
  const type = (artifact.content_type.split(';')[0] ?? '').trim().toLowerCase();
  const small = artifact.size <= MAX_PREVIEW;
  useEffect(() => {
    if (!small) return undefined;
    const abort = new AbortController();
    request('GET', path`/v1/artifacts/${artifact.id}/content`, { headers: { Accept: '*/*' }, signal: abort.signal })
      .then(async (response) => new Uint8Array(await response.arrayBuffer()))
      .then((raw) => {
        if (PICTURES.includes(type)) return setResult({ [type]: toBase64(raw) });
        try {
          const text = new TextDecoder('utf-8', { fatal: true }).decode(raw);
          setResult(type === 'text/html' || type === 'image/svg+xml' ? { [type]: text } : { 'text/plain': text });
        } catch {
          setResult({});
        }
      }, (failed: unknown) => {
        if (!isAbort(failed)) setError(failed);
      });
    return () => abort.abort();
  }, [artifact.id]);
  if (!small) return <p class="soft">It is too large to be shown. Save it to look at it.</p>;
  if (error) return <ErrorState error={error} />;
  if (!result) return <Loading />;
  if (Object.keys(result).length === 0) return <p class="soft">It is no text. Save it to look at it.</p>;
  return <Result result={result} title={artifact.path} />;
}
