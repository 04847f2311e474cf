// SPDX-License-Identifier: Apache-2.0
// One session: a terminal, its files, a notebook, its ports, snapshots and programs.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { del, follow, path, post } from '../../api';
import { useApi, usePages } from '../../hooks';
import { attempt, Bytes, Button, Card, Confirm, Dialog, Duration, Empty, ErrorState, Facts, Form, Id, Input, Loading, Notice, Page, Status, Table, TabPanel, Tabs, Time, Untrusted, useTab } from '../../parts';
import { approvalPath } from '../../places';
import { Link } from '../../router';
import { isAdmin, isOwn, may } from '../../session';
import { bytes, number } from '../../text';
import { type Execution, ownerName, type Session } from '../../types';
import { executionColumns, executionText } from '../executions/list';
import type { ScreenProps } from '../registry';
import { Files } from './files';
import { Notebook } from './notebook';
import { Ports } from './ports';
import { SnapshotTree } from './snapshots';
import { TerminalTab } from './terminal';

export default function SessionScreen({ params }: ScreenProps): JSX.Element {
  const id = params['id'] ?? '';
  const reading = useApi<Session>(path`/v1/sessions/${id}`, { every: 5 });
  const session = reading.data;
  useEffect(() => {
    if (!session || session.status === 'ended') return undefined;
    const abort = new AbortController();
    void follow(path`/v1/sessions/${session.id}/events`, {
      signal: abort.signal,
      // The stream begins with the last change of the status, whose times and use are of that moment.
      onEvent: ({ event }) => {
        if (event === 'status') reading.reload();
      },
    }).catch(() => undefined);
    return () => abort.abort();
  }, [session?.id, session?.status === 'ended']);
  if (!session) return <Page title={id} up={{ to: 'sessions', label: 'Sessions' }}>{reading.error ? <ErrorState error={reading.error} retry={reading.reload} /> : <Loading what={id} />}</Page>;
  return <Shown session={session} reload={reading.reload} />;
}

function Shown({ session, reload }: { session: Session; reload(): void }): JSX.Element {
  const live = session.status === 'running' || session.status === 'paused';
  const own = isOwn(session.principal);
  const use = live && own && may('session.use');
  const keys = [
    ...(use ? ['terminal'] : []), ...(live && own && may('file.read') ? ['files'] : []), ...(use ? ['notebook', 'ports'] : []),
    ...(may('artifact.read') ? ['snapshots'] : []), ...(may('execution.read') ? ['executions'] : []), 'details',
  ];
  const tab = useTab(keys);
  const [ending, setEnding] = useState(false);
  const [renewing, setRenewing] = useState(false);
  return (
    <Page
      title={session.name ?? session.id} full up={{ to: 'sessions', label: 'Sessions' }}
      heading={session.name ? <Untrusted value={session.name} /> : <Id value={session.id} />} status={<Status value={session.status} />}
      {...(own || !live ? {} : { lead: 'It is of another tenant: you see it, and can end it, but not work in it.' })}
      actions={(
        <>
          {live && session.expires_at && <span class="soft">ends <Time at={session.expires_at} relative /></span>}
          {live && may('session.use') && <Button onClick={() => setRenewing(true)}>Renew…</Button>}
          {session.status !== 'ended' && may('session.end') && <Button kind="danger" onClick={() => setEnding(true)}>End…</Button>}
        </>
      )}
    >
      <Why session={session} />
      <Tabs label="Parts of the session" current={tab} tabs={keys.map((key) => ({ key, label: `${key[0]?.toUpperCase() ?? ''}${key.slice(1)}` }))} />
      <TabPanel tab={tab}>
        {tab === 'terminal' && <TerminalTab session={session} />}
        {tab === 'files' && <Files session={session} />}
        {tab === 'notebook' && <Notebook session={session} />}
        {tab === 'ports' && <Ports session={session} />}
        {tab === 'snapshots' && <SnapshotTree session={session} />}
        {tab === 'executions' && <Programs session={session} />}
        {tab === 'details' && <Details session={session} />}
      </TabPanel>
      {ending && (
        <Confirm title="End this session?" action="End it" onClose={() => setEnding(false)} onConfirm={async () => { await del(path`/v1/sessions/${session.id}`); reload(); }}>
          <p>Its programs end, and its files are deleted. Take a snapshot first to keep the files.</p>
        </Confirm>
      )}
      {renewing && <Renew session={session} onClose={() => setRenewing(false)} done={reload} />}
    </Page>
  );
}

function Why({ session }: { session: Session }): JSX.Element | null {
  const escalation = session.error?.details['escalation_id'];
  if (session.status === 'blocked') {
    return (
      <Notice tone="warn" title="It waits for a person.">
        <p><Untrusted value={session.error?.message ?? ''} /></p>
        {typeof escalation === 'string' && <p><Link to={approvalPath(escalation, isAdmin() ? session.principal.tenant : null)}>Look at {escalation}</Link></p>}
      </Notice>
    );
  }
  const end = session.end_reason ?? session.error;
  return session.status === 'ended' && end ? <Notice tone="warn" title="Why it ended"><p><Untrusted value={end.message} /></p></Notice> : null;
}

function Renew({ session, onClose, done }: { session: Session; onClose(): void; done(): void }): JSX.Element {
  const [hours, setHours] = useState(String(session.ttl_seconds / 3600));
  const send = async (): Promise<void> => {
    if (await attempt(() => post(path`/v1/sessions/${session.id}/renew`, { ttl_seconds: Number(hours) * 3600 }), 'The session lives on.', { ttl_seconds: 'Hours from now' })) {
      done();
      onClose();
    }
  };
  return (
    <Dialog title="Renew the session" onClose={onClose}>
      <Form onSubmit={send}>
        <Input label="Hours from now" type="number" min={0} step="any" value={hours} onInput={setHours} autoFocus />
        <div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Renew</Button></div>
      </Form>
    </Dialog>
  );
}

function Programs({ session }: { session: Session }): JSX.Element {
  const pages = usePages<Execution>('/v1/executions', 'executions', { query: { session_id: session.id }, every: 3 });
  return (
    <Table
      label="Executions" rows={pages.rows} columns={executionColumns} id={(row) => row.id} to={(row) => `executions/${row.id}`} filterText={executionText}
      loading={pages.loading} error={pages.error} retry={pages.reload} more={pages.more} onEnd={pages.loadMore}
      empty={<Empty title="Nothing has run in it.">Use the terminal or the notebook, or <code>cloister exec {session.name ?? session.id}</code>.</Empty>}
    />
  );
}

function Details({ session }: { session: Session }): JSX.Element {
  const { limits, resource_usage: usage, provenance } = session;
  return (
    <div class="stack">
      {provenance.weakened.length > 0 && <Notice tone="warn" title="The isolation is weaker than it can be."><ul class="plain-list">{provenance.weakened.map((one) => <li key={one}>{one}</li>)}</ul></Notice>}
      <div class="columns">
        <Card title="About it">
          <Facts rows={[
            ['Id', <Id key="i" value={session.id} />], ['Who', <Untrusted key="w" value={`${ownerName(session.principal)}, ${session.principal.tenant}`} />],
            ['Language', session.language ?? '–'], ['Directory', <Untrusted key="d" value={session.cwd} mono />], ['Network', session.network_policy.tier ?? 'none'],
            ['Packages', session.deps?.join(', ') ?? '–'], ['From snapshot', session.from_snapshot ? <Link key="s" class="mono" to={`snapshots/${session.from_snapshot}`}>{session.from_snapshot}</Link> : '–'],
            ['Created', <Time key="c" at={session.created_at} />], ['Last used', <Time key="l" at={session.last_used_at} />],
            ['Ends', <Time key="e" at={session.expires_at} />], ['Idle end', `after ${session.idle_ttl_seconds} s`], ['Ended', <Time key="x" at={session.ended_at} />],
          ]} />
        </Card>
        <Card title="Use and limits">
          <Facts rows={[
            ['Memory', <span key="m"><Bytes count={usage.memory_bytes} />, peak <Bytes count={usage.max_rss_bytes} />, of {limits.memory_mb} MiB</span>],
            ['Processor time', <Duration key="p" ms={usage.cpu_ms} />], ['Processors', `${limits.cpu_millis / 1000}`], ['Processes', `${usage.processes ?? 'not counted'} of ${limits.pids}`],
            ['Disk', usage.disk_limit_bytes === null ? `${limits.disk_mb} MiB` : bytes(usage.disk_limit_bytes)], ['Read, written', `${bytes(usage.io_read_bytes)}, ${bytes(usage.io_write_bytes)}`],
            ['Open files', number(limits.open_files)], ['Program timeout', `${limits.timeout_seconds} s`],
          ]} />
        </Card>
        <Card title="Where and by which rules">
          <Facts rows={[
            ['Runtime', provenance.runtime ?? '–'], ['Node', provenance.node ?? '–'], ['Image', provenance.image ?? '–'],
            ['Image digest', provenance.image_digest ? <code key="d">{provenance.image_digest}</code> : '–'],
            ['Policy', provenance.policy_id ? <code key="p">{provenance.policy_id}</code> : '–'], ['Permit', provenance.permit_id ? <code key="q">{provenance.permit_id}</code> : '–'],
          ]} />
        </Card>
      </div>
    </div>
  );
}
