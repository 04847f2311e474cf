// SPDX-License-Identifier: Apache-2.0
// One snapshot.
import type { JSX } from 'preact';
import { path } from '../../api';
import { useDraft } from '../../drafts';
import { useApi } from '../../hooks';
import { Bytes, Button, Card, ErrorState, Facts, Id, Loading, Page, Time, Untrusted } from '../../parts';
import { isAdmin, isOwn, may } from '../../session';
import { number } from '../../text';
import type { Session, Snapshot } from '../../types';
import type { ScreenProps } from '../registry';
import { NewSession } from './list';

export default function SnapshotScreen({ params }: ScreenProps): JSX.Element {
  const id = params['id'] ?? '';
  const reading = useApi<Snapshot>(path`/v1/snapshots/${id}`);
  const [fork, setFork] = useDraft('fork', false);
  const snapshot = reading.data;
  // Only an administrator sees snapshots of another tenant, and cannot begin with them.
  const origin = useApi<Session>(isAdmin() && snapshot ? path`/v1/sessions/${snapshot.session_id}` : null).data;
  const own = isAdmin() ? origin !== null && isOwn(origin.principal) : true;
  if (!snapshot) return <Page title={id} up={{ to: 'sessions', label: 'Sessions' }}>{reading.error ? <ErrorState error={reading.error} retry={reading.reload} /> : <Loading />}</Page>;
  return (
    <Page
      title={snapshot.name ?? id} heading={snapshot.name ? <Untrusted value={snapshot.name} /> : <Id value={id} />} up={{ to: `sessions/${snapshot.session_id}?tab=snapshots`, label: 'Session' }}
      actions={own && may('session.use') && <Button kind="primary" onClick={() => setFork(true)}>New session from it…</Button>}
    >
      <Card>
        <Facts rows={[
          ['Id', <Id key="i" value={id} />], ['Session', <Id key="s" value={snapshot.session_id} to={`sessions/${snapshot.session_id}`} />],
          ['Entries', number(snapshot.entries)], ['Size', <Bytes key="z" count={snapshot.size} />], ['Stored anew', <Bytes key="a" count={snapshot.added_bytes} />],
          ['Memory', snapshot.memory ? `kept, for the runtime ${snapshot.memory.runtime}` : 'not kept'], ['SHA-256', <code key="h">{snapshot.sha256}</code>],
          ['Taken', <Time key="c" at={snapshot.created_at} />], ['Deleted after', snapshot.expires_at ? <Time key="x" at={snapshot.expires_at} /> : 'never by age'],
          ...Object.entries(snapshot.metadata).slice(0, 32).map(([name, value]): [string, JSX.Element] => [name.slice(0, 60), <Untrusted key={name} value={value} cut={300} />]),
        ]} />
      </Card>
      {fork && <NewSession fromSnapshot={id} onClose={() => setFork(false)} />}
    </Page>
  );
}
