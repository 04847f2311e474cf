// SPDX-License-Identifier: Apache-2.0
// Sessions: those that run, and those that have ended.
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { del, labelled, path, post } from '../../api';
import { useDraft } from '../../drafts';
import { useApi, usePages } from '../../hooks';
import { Bytes, Button, Confirm, Dialog, Empty, ErrorState, fieldError, Form, Input, Page, Select, Status, Table, Time, toast, Untrusted, type Column } from '../../parts';
import { Link, navigate, setQuery } from '../../router';
import { may } from '../../session';
import { ownerName, type Session } from '../../types';
import type { ScreenProps } from '../registry';

const STATUSES = ['running', 'paused', 'blocked', 'creating', 'ended'] as const;

export default function Sessions({ query }: ScreenProps): JSX.Element {
  const status = query.get('status') ?? '';
  const pages = usePages<Session>('/v1/sessions', 'sessions', { query: { status }, every: 4 });
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [asking, setAsking] = useState(false);
  const [making, setMaking] = useDraft('new session', false);
  const columns: Column<Session>[] = useMemo(() => [
    { key: 'status', title: 'Status', width: '92px', cell: (row) => <Status value={row.status} />, compare: (a, b) => a.status.localeCompare(b.status) },
    { key: 'id', title: 'Session', width: 'minmax(110px, 2fr)', cell: (row) => <Link to={`sessions/${row.id}`} class="mono" tabIndex={-1}>{row.name ?? row.id}</Link> },
    { key: 'language', title: 'Language', width: '84px', wide: true, cell: (row) => row.language ?? '–' },
    { key: 'who', title: 'Who', wide: true, cell: (row) => <Untrusted value={ownerName(row.principal)} cut={40} />, compare: (a, b) => ownerName(a.principal).localeCompare(ownerName(b.principal)) },
    { key: 'runs', title: 'Programs', width: '76px', align: 'end', wide: true, cell: (row) => row.executions_running },
    { key: 'memory', title: 'Memory', width: '84px', align: 'end', wide: true, cell: (row) => <Bytes count={row.status === 'ended' ? row.resource_usage.max_rss_bytes : row.resource_usage.memory_bytes} /> },
    { key: 'runtime', title: 'Runtime', width: '80px', wide: true, cell: (row) => row.provenance.runtime ?? '–' },
    { key: 'ends', title: 'Ends', width: '84px', align: 'end', wide: true, cell: (row) => (row.status === 'ended' ? '–' : <Time at={row.expires_at} relative />) },
    { key: 'at', title: 'Created', width: '84px', align: 'end', cell: (row) => <Time at={row.created_at} relative />, compare: (a, b) => a.created_at.localeCompare(b.created_at) },
  ], []);
  const open = pages.rows.filter((row) => selected.has(row.id) && row.status !== 'ended');
  const endAll = async (): Promise<void> => {
    let failed = 0;
    for (const row of open) await del(path`/v1/sessions/${row.id}`).catch(() => { failed += 1; });
    toast(failed ? `${open.length - failed} ended, ${failed} could not be.` : `${open.length} ended.`, failed ? 'bad' : 'good');
    setSelected(new Set());
    pages.reload();
  };
  return (
    <Page title="Sessions" full actions={may('session.use') && <Button kind="primary" onClick={() => setMaking(true)}>New session…</Button>}>
      <Table
        label="Sessions" rows={pages.rows} columns={columns} id={(row) => row.id} to={(row) => `sessions/${row.id}`}
        filterText={(row) => `${row.id} ${row.name ?? ''} ${row.language ?? ''} ${ownerName(row.principal)} ${row.principal.tenant} ${Object.entries(row.metadata).flat().join(' ')}`}
        {...(may('session.end') ? { selected, onSelect: setSelected } : {})}
        loading={pages.loading} error={pages.error} retry={pages.reload} more={pages.more} onEnd={pages.loadMore}
        tools={(
          <>
            <Select label="Status" value={status} options={[{ value: '', label: 'all' }, ...STATUSES.map((one) => ({ value: one as string, label: one as string }))]} onChange={(value) => setQuery({ status: value })} />
            {selected.size > 0 && (
              <div class="bulk">
                <span>{selected.size} selected</span>
                <Button small kind="danger" disabled={open.length === 0} onClick={() => setAsking(true)}>End {open.length}…</Button>
                <Button small kind="quiet" onClick={() => setSelected(new Set())}>Clear</Button>
              </div>
            )}
          </>
        )}
        empty={status ? <Empty title={`No session is ${status}.`}>Choose another status to see others.</Empty>
          : <Empty title="No session yet.">A session is a sandbox that stays between programs: make one here, or with <code>cloister session create</code>.</Empty>}
      />
      {asking && (
        <Confirm title={`End ${open.length} ${open.length === 1 ? 'session' : 'sessions'}?`} action="End them" onClose={() => setAsking(false)} onConfirm={endAll}>
          <p>Their programs end, and their files are deleted. Snapshots stay.</p>
        </Confirm>
      )}
      {making && <NewSession onClose={() => setMaking(false)} />}
    </Page>
  );
}

const LANGUAGES = ['python', 'bash', 'node'];
const LABELS = {
  name: 'Name', language: 'Language', network_policy: 'Network', ttl_seconds: 'Lives, in hours', idle_ttl_seconds: 'Idle end, in minutes', memory_mb: 'Memory, in MiB',
} as const;
const NETWORKS = ['none', 'restricted', 'internal', 'api', 'full'] as const;

export function NewSession({ onClose, fromSnapshot }: { onClose(): void; fromSnapshot?: string }): JSX.Element {
  const languages = useApi<{ languages: { name: string }[] }>('/v1/languages');
  const [name, setName] = useDraft('session name', '');
  const [language, setLanguage] = useDraft('session language', 'python');
  const [hours, setHours] = useDraft('session hours', '1');
  const [idle, setIdle] = useDraft('session idle', '10');
  const [memory, setMemory] = useDraft('session memory', '512');
  const [network, setNetwork] = useDraft<(typeof NETWORKS)[number]>('session network', 'none');
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const send = async (): Promise<void> => {
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const made = await post<Session>('/v1/sessions', {
        language, ttl_seconds: Number(hours) * 3600, idle_ttl_seconds: Number(idle) * 60, ...(name ? { name } : {}),
        ...(fromSnapshot ? { from_snapshot: fromSnapshot } : { memory_mb: Number(memory) }), ...(network === 'none' ? {} : { network_policy: { tier: network } }),
      });
      onClose();
      navigate(`sessions/${made.id}`);
    } catch (failed) {
      setError(labelled(failed, LABELS));
      setBusy(false);
    }
  };
  const names = languages.data?.languages.map((one) => one.name) ?? LANGUAGES;
  const elsewhere = error && !Object.keys(LABELS).some((one) => fieldError(error, one));
  return (
    <Dialog title={fromSnapshot ? 'New session from a snapshot' : 'New session'} onClose={onClose}>
      <Form onSubmit={() => void send()}>
        {fromSnapshot && <p class="soft">It begins with the files of <code>{fromSnapshot}</code>.</p>}
        <Input label={LABELS.name} value={name} onInput={setName} mono autoFocus maxLength={63} hint="Optional; stands for the id." error={fieldError(error, 'name')} />
        <div class="columns">
          <Select label={LABELS.language} value={language} options={names} onChange={(value) => setLanguage(value)} error={fieldError(error, 'language')} />
          <Select label={LABELS.network_policy} value={network} options={NETWORKS} onChange={(value) => setNetwork(value)} error={fieldError(error, 'network_policy')} />
          <Input label={LABELS.ttl_seconds} type="number" min={0} step="any" value={hours} onInput={setHours} error={fieldError(error, 'ttl_seconds')} />
          <Input label={LABELS.idle_ttl_seconds} type="number" min={0} step="any" value={idle} onInput={setIdle} error={fieldError(error, 'idle_ttl_seconds')} />
          {!fromSnapshot && <Input label={LABELS.memory_mb} type="number" min={4} value={memory} onInput={setMemory} error={fieldError(error, 'memory_mb')} />}
        </div>
        {elsewhere ? <ErrorState error={error} /> : null}
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={busy}>Make it</Button>
        </div>
      </Form>
    </Dialog>
  );
}
