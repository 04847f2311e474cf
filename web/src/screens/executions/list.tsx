// SPDX-License-Identifier: Apache-2.0
// Executions: a list that stays up to date, with filters, and actions on the selected rows.
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiError, del, path } from '../../api';
import { useDraft } from '../../drafts';
import { usePages } from '../../hooks';
import { Button, Confirm, Empty, Field, Page, Select, Status, Table, Time, toast, Untrusted, type Column } from '../../parts';
import { Link, setQuery } from '../../router';
import { may } from '../../session';
import { ENDED, type Execution, ownerName, RUN_STATUSES } from '../../types';
import type { ScreenProps } from '../registry';
import { NewRun } from './new_run';
import { RunTime } from './run_time';

export const executionColumns: Column<Execution>[] = [
  { key: 'status', title: 'Status', width: '104px', cell: (row) => <Status value={row.status} />, compare: (a, b) => a.status.localeCompare(b.status) },
  { key: 'id', title: 'Execution', width: 'minmax(100px, 2fr)', cell: (row) => <Link to={`executions/${row.id}`} class="mono split-id" tabIndex={-1}><span>{row.id.slice(0, -8)}</span><span>{row.id.slice(-8)}</span></Link> },
  { key: 'language', title: 'Language', width: '88px', wide: true, cell: (row) => row.language ?? 'command', compare: (a, b) => (a.language ?? '').localeCompare(b.language ?? '') },
  { key: 'who', title: 'Who', wide: true, cell: (row) => <Untrusted value={ownerName(row.principal)} cut={40} />, compare: (a, b) => ownerName(a.principal).localeCompare(ownerName(b.principal)) },
  { key: 'exit', title: 'Exit', width: '76px', wide: true, cell: (row) => row.signal ?? row.exit_code ?? (row.error?.type.toLowerCase().replace(/_/g, ' ') ?? '–') },
  { key: 'runtime', title: 'Runtime', width: '80px', wide: true, cell: (row) => row.provenance.runtime ?? '–' },
  { key: 'wall', title: 'Time', width: '76px', align: 'end', wide: true, cell: (row) => <RunTime execution={row} />, compare: (a, b) => a.resource_usage.wall_ms - b.resource_usage.wall_ms },
  { key: 'at', title: 'Created', width: '84px', align: 'end', cell: (row) => <Time at={row.created_at} relative />, compare: (a, b) => a.created_at.localeCompare(b.created_at) },
];

export const executionText = (row: Execution): string =>
  `${row.id} ${row.status} ${row.language ?? ''} ${ownerName(row.principal)} ${row.principal.tenant} ${row.session_id ?? ''} ${row.provenance.runtime ?? ''} ${row.error?.type ?? ''} ${Object.entries(row.metadata).flat().join(' ')}`;

export default function Executions({ query }: ScreenProps): JSX.Element {
  const status = query.get('status') ?? '';
  const agent = query.get('agent') ?? '';
  const session = query.get('session_id') ?? '';
  const pages = usePages<Execution>('/v1/executions', 'executions', { query: { status, agent, session_id: session }, every: 3 });
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [asking, setAsking] = useState(false);
  const [making, setMaking] = useDraft('new run', false);
  useEffect(() => setSelected(new Set()), [status, agent, session]);
  const open = useMemo(() => pages.rows.filter((row) => selected.has(row.id) && !ENDED.has(row.status)), [pages.rows, selected]);
  const filtered = status !== '' || agent !== '' || session !== '';
  return (
    <Page
      title="Executions" full
      actions={may('execution.run') && <Button kind="primary" onClick={() => setMaking(true)}>New run…</Button>}
    >
      <Table
        label="Executions" rows={pages.rows} columns={executionColumns} id={(row) => row.id} to={(row) => `executions/${row.id}`} filterText={executionText}
        {...(may('execution.stop') ? { selected, onSelect: setSelected } : {})}
        loading={pages.loading} error={pages.error} retry={pages.reload} more={pages.more} onEnd={pages.loadMore}
        tools={(
          <>
            <Select label="Status" value={status} options={[{ value: '', label: 'all' }, ...RUN_STATUSES.map((one) => ({ value: one, label: one.replace('_', ' ') }))]} onChange={(value) => setQuery({ status: value })} />
            <Typed label="Agent" value={agent} onChange={(value) => setQuery({ agent: value })} />
            <Typed label="Session" value={session} onChange={(value) => setQuery({ session_id: value })} />
            {selected.size > 0 && (
              <div class="bulk">
                <span>{selected.size} selected</span>
                <Button small kind="danger" disabled={open.length === 0} {...(open.length === 0 ? { title: 'All selected executions have ended.' } : {})} onClick={() => setAsking(true)}>Cancel {open.length}…</Button>
                <Button small kind="quiet" onClick={() => setSelected(new Set())}>Clear</Button>
              </div>
            )}
          </>
        )}
        empty={filtered
          ? <Empty title="No execution matches.">Change the filters, or <button type="button" class="button small" onClick={() => setQuery({ status: undefined, agent: undefined, session_id: undefined })}>show all</button></Empty>
          : <Empty title="Nothing has run yet.">Start a run here, or with <code>cloister run -c 'print(1)'</code>.</Empty>}
      />
      {asking && (
        <Confirm title={`Cancel ${open.length} ${open.length === 1 ? 'execution' : 'executions'}?`} action="Cancel them" onClose={() => setAsking(false)} onConfirm={() => cancelAll(open, () => { setSelected(new Set()); pages.reload(); })}>
          <p>Their programs and all child processes end at once. Output so far is kept.</p>
        </Confirm>
      )}
      {making && <NewRun onClose={() => setMaking(false)} />}
    </Page>
  );
}

/** A filter of the service, sent with Enter or when it is left. */
function Typed({ label, value, onChange }: { label: string; value: string; onChange(value: string): void }): JSX.Element {
  return (
    <Field label={label}>
      {(attributes) => (
        <input
          {...attributes} key={value} type="search" class="mono typed" defaultValue={value} placeholder="any" autocomplete="off" spellcheck={false}
          onKeyDown={(event) => { if (event.key === 'Enter') onChange(event.currentTarget.value.trim()); }}
          onBlur={(event) => { if (event.currentTarget.value.trim() !== value) onChange(event.currentTarget.value.trim()); }}
        />
      )}
    </Field>
  );
}

const AT_ONCE = 6;

/** Cancels a few at a time, and says how many could not be. */
async function cancelAll(rows: Execution[], done: () => void): Promise<void> {
  const left = [...rows];
  let failed = 0;
  const worker = async (): Promise<void> => {
    for (let row = left.pop(); row; row = left.pop()) {
      try {
        await del(path`/v1/executions/${row.id}`);
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 404)) failed += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  toast(failed === 0 ? `${rows.length} cancelled.` : `${rows.length - failed} cancelled, ${failed} could not be. Try those again.`, failed ? 'bad' : 'good');
  done();
}
