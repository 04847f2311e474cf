// SPDX-License-Identifier: Apache-2.0
// The stored versions of the policy: read one, compare it with the one in force, go back to it.
import { useState } from 'preact/hooks';
import { api, Badge, Dialog, ErrorBox, Field, Loading, TextDiff, Time, toast, Untrusted, useAction, useLoad } from '../kit';
import { Replay, RuleChanges } from './decision';
import { visibleLines } from '../../text';
import type { PolicyDiff, PolicyDocument, PolicyVersion } from './types';

export function Versions({ current, asked, onChanged }: { current: PolicyDocument; asked: number | null; onChanged(): void }) {
  const [cursor, setCursor] = useState<string | null>(null);
  const list = useLoad<{ policies: PolicyVersion[]; next_cursor: string | null }>(
    `/v1/policies?limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`, [current.version]);
  const [chosen, setChosen] = useState<number | null>(asked);
  if (list.error) return <ErrorBox error={list.error} onRetry={list.reload} />;
  if (!list.data) return <Loading what="the versions" />;
  return (
    <div class="halves">
      <div>
        <ul class="rows" aria-label="Versions">
          {list.data.policies.map((each) => (
            <li key={each.version}>
              <button class={chosen === each.version ? 'row-button selected' : 'row-button'} aria-pressed={chosen === each.version} onClick={() => setChosen(each.version)}>
                <span><strong><Untrusted value={each.name} />, version {each.version}</strong> {each.in_force && <Badge tone="ok">in force</Badge>}</span>
                <span class="muted"><Time at={each.applied_at} /> by <Untrusted value={each.applied_by.user || each.applied_by.agent || each.applied_by.app || each.applied_by.key} /></span>
                {each.note && <Untrusted value={each.note} />}
                {each.restores !== null && <span class="muted">restores version {each.restores}</span>}
              </button>
            </li>
          ))}
        </ul>
        {list.data.next_cursor && <button class="button" onClick={() => setCursor(list.data?.next_cursor ?? null)}>Older versions</button>}
        {cursor && <button class="button" onClick={() => setCursor(null)}>Newest versions</button>}
      </div>
      <div>{chosen === null ? <p class="muted">Choose a version to read it and to compare it with the one in force.</p> : <OneVersion key={chosen} version={chosen} current={current} onChanged={onChanged} />}</div>
    </div>
  );
}

function OneVersion({ version, current, onChanged }: { version: number; current: PolicyDocument; onChanged(): void }) {
  const loaded = useLoad<PolicyDocument>(`/v1/policies/${version}`, [version]);
  const [asks, setAsks] = useState(false);
  if (loaded.error) return <ErrorBox error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.data) return <Loading what={`version ${version}`} />;
  const same = loaded.data.sha256 === current.sha256;
  return (
    <div class="stack">
      <div class="row">
        <strong>Version {version}</strong>
        {same ? <span class="muted">This document is in force.</span> : <button class="button danger" onClick={() => setAsks(true)}>Roll back to this version…</button>}
      </div>
      {!same && <TextDiff label="Changed lines" before={current.document} after={loaded.data.document} />}
      <details open={same}><summary>The whole document</summary><pre class="document" tabIndex={0}>{visibleLines(loaded.data.document)}</pre></details>
      {asks && <Rollback version={version} current={current} onClose={() => setAsks(false)} onChanged={onChanged} />}
    </div>
  );
}

function Rollback({ version, current, onClose, onChanged }: { version: number; current: PolicyDocument; onClose(): void; onChanged(): void }) {
  const [note, setNote] = useState('');
  const [diff, setDiff] = useState<PolicyDiff | null>(null);
  const acting = useAction();
  const tryIt = (): void => void acting.run(async () => setDiff(await api.post<PolicyDiff>('/v1/policies:diff', { version, against: current.version, recent: 200 })));
  const apply = (): void => void acting.run(async () => {
    await api.post('/v1/policies:rollback', { version, note }, { headers: { 'If-Match': `"${current.version}"` } });
    toast(`Version ${version} is in force again, as a new version.`);
    onClose();
    onChanged();
  });
  return (
    <Dialog wide title={`Roll back to version ${version}`} onClose={onClose}
      actions={<>
        <button class="button" onClick={onClose}>Cancel</button>
        {diff ? <button class="button danger" disabled={acting.busy} onClick={apply}>Roll back</button> : <button class="button primary" disabled={acting.busy} onClick={tryIt}>Try it on recorded requests</button>}
      </>}>
      <div class="stack">
        <p>The document of version {version} becomes the next version. The trial comes first.</p>
        <Field label="Note" hint="The reason, for the audit log."><input value={note} maxLength={1000} onInput={(event) => setNote(event.currentTarget.value)} /></Field>
        {diff && <RuleChanges diff={diff} />}
        {diff && <Replay diff={diff} />}
        {acting.error ? <ErrorBox error={acting.error} labels={{ note: 'Note' }} /> : null}
      </div>
    </Dialog>
  );
}
