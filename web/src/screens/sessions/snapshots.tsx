// SPDX-License-Identifier: Apache-2.0
// Snapshots of a session and the sessions that began with them, as a tree.
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { del, path, post } from '../../api';
import { useDraft } from '../../drafts';
import { usePages } from '../../hooks';
import { attempt, Bytes, Button, Check, ConfirmTyped, Dialog, ErrorState, Form, Input, Loading, Status, Time, Untrusted } from '../../parts';
import { Link } from '../../router';
import { isOwn, may } from '../../session';
import type { Session, Snapshot } from '../../types';
import { NewSession } from './list';
import { linesOf, treeOf } from './tree';

export function SnapshotTree({ session }: { session: Session }): JSX.Element {
  const snapshots = usePages<Snapshot>('/v1/snapshots', 'snapshots', { limit: 500, every: 10 });
  const sessions = usePages<Session>('/v1/sessions', 'sessions', { limit: 500, every: 10 });
  const [taking, setTaking] = useState(false);
  const [fork, setFork] = useDraft<string | null>('fork', null);
  const [doomed, setDoomed] = useState<string | null>(null);
  const all = useMemo(() => (sessions.rows.some((one) => one.id === session.id) ? sessions.rows : [session, ...sessions.rows]), [sessions.rows, session]);
  const lines = useMemo(() => linesOf(treeOf(session.id, all, snapshots.rows)), [session.id, all, snapshots.rows]);
  if (snapshots.error) return <ErrorState error={snapshots.error} retry={snapshots.reload} />;
  if (snapshots.loading && snapshots.rows.length === 0) return <Loading what="snapshots" />;
  const live = session.status === 'running' || session.status === 'paused';
  const own = isOwn(session.principal);
  return (
    <div class="stack">
      <div class="row">
        {live && own && may('session.use') && <Button kind="primary" onClick={() => setTaking(true)}>Take a snapshot…</Button>}
        {(snapshots.more || sessions.more) && <Button onClick={() => { snapshots.loadMore(); sessions.loadMore(); }}>Look at older ones</Button>}
      </div>
      <ul class="tree" aria-label="Sessions and snapshots">
        {lines.map(({ node, depth }) => (
          <li key={node.id} aria-current={node.id === session.id ? 'true' : undefined} class={node.id === session.id ? 'here' : ''} style={{ paddingLeft: `${8 + Math.min(depth, 12) * 22}px` }}>
            {depth > 0 && <span class="branch" aria-hidden="true">└</span>}
            {depth > 0 && <span class="sr">Level {depth + 1}:</span>}
            {node.kind === 'session'
              ? (
                <>
                  <span class="faint">session</span>
                  <Link to={`sessions/${node.id}?tab=snapshots`} class="mono">{node.session?.name ?? node.id}</Link>
                  {node.session ? <Status value={node.session.status} /> : <span class="faint">not among the records at hand</span>}
                  {node.session && <span class="faint"><Time at={node.session.created_at} relative /></span>}
                </>
              )
              : (
                <>
                  <span class="faint">snapshot</span>
                  <Link to={`snapshots/${node.id}`} class="mono">{node.snapshot?.name ? <Untrusted value={node.snapshot.name} cut={60} /> : node.id}</Link>
                  {node.snapshot ? <span class="faint"><Bytes count={node.snapshot.size} />{node.snapshot.memory ? ', with memory' : ''}, <Time at={node.snapshot.created_at} relative /></span> : <span class="faint">deleted</span>}
                  <span class="grow" />
                  {node.snapshot && own && may('session.use') && <Button small onClick={() => setFork(node.id)}>Fork…</Button>}
                  {node.snapshot && may('artifact.delete') && <Button small kind="quiet" onClick={() => setDoomed(node.id)}>Delete…</Button>}
                </>
              )}
          </li>
        ))}
      </ul>
      {lines.length === 1 && <p class="soft">It has no snapshot yet. A snapshot keeps its files, and further sessions can begin with them.</p>}
      {taking && <Take session={session} onClose={() => setTaking(false)} done={snapshots.reload} />}
      {fork && <NewSession fromSnapshot={fork} onClose={() => setFork(null)} />}
      {doomed && (
        <ConfirmTyped title="Delete this snapshot?" action="Delete" typed={doomed.slice(-6)} onClose={() => setDoomed(null)} onConfirm={async () => { await del(path`/v1/snapshots/${doomed}`); snapshots.reload(); }}>
          <p>Sessions that began with it stay. The last six characters of <code>{doomed}</code> are <code>{doomed.slice(-6)}</code>.</p>
        </ConfirmTyped>
      )}
    </div>
  );
}

function Take({ session, onClose, done }: { session: Session; onClose(): void; done(): void }): JSX.Element {
  const [name, setName] = useDraft('snapshot name', '');
  const [memory, setMemory] = useState(false);
  const send = async (): Promise<void> => {
    const body = { ...(name ? { name } : {}), ...(memory ? { memory } : {}) };
    if (await attempt(() => post(path`/v1/sessions/${session.id}/snapshots`, body), 'The snapshot is taken.', { name: 'Name' })) {
      done();
      onClose();
    }
  };
  return (
    <Dialog title="Take a snapshot" onClose={onClose}>
      <Form onSubmit={send}>
        <Input label="Name" value={name} onInput={setName} maxLength={256} autoFocus hint="Optional." />
        {session.provenance.runtime === 'gvisor' && <Check label="Also keep its processes and their memory" checked={memory} onChange={setMemory} />}
        <p class="hint">Its programs stop while the files are read, and then go on.</p>
        <div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Take it</Button></div>
      </Form>
    </Dialog>
  );
}
