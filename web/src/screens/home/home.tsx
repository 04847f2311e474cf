// SPDX-License-Identifier: Apache-2.0
// Home: whether the service works, what it does now, and what needs a person.
import type { ComponentChildren, JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { ApiError } from '../../api';
import { useApi } from '../../hooks';
import { Card, Duration, Empty, ErrorState, Loading, Notice, Page, Status, Table, Time, Untrusted, type Column } from '../../parts';
import { approvalPath } from '../../places';
import { Link } from '../../router';
import { isAdmin, may } from '../../session';
import { bytes, duration } from '../../text';
import { type Escalation, type Execution, type Finding, ownerName } from '../../types';
import { latencies } from './latency';

interface Doctor {
  connected: boolean;
  usable: boolean;
  complete: boolean;
  counts: Record<'ok' | 'reduced' | 'missing', number>;
  service_version: string;
  only_command: string[];
  node?: string;
  runtimes?: string[];
  findings?: Finding[];
  max_sandboxes?: number;
  memory_bytes?: number;
  cpus?: number;
}

const EVERY = 5;
const LIMIT = 500;

export default function Home(): JSX.Element {
  const doctor = useApi<Doctor>(may('service.read') ? '/v1/doctor' : null, { every: 15 });
  const running = useApi<{ executions: Execution[]; next_cursor: string | null }>(
    may('execution.read') ? '/v1/executions' : null, { query: { status: 'running', limit: LIMIT }, every: EVERY });
  const queued = useApi<{ executions: Execution[]; next_cursor: string | null }>(
    may('execution.read') ? '/v1/executions' : null, { query: { status: 'queued', limit: LIMIT }, every: EVERY });
  const recent = useApi<{ executions: Execution[] }>(may('execution.read') ? '/v1/executions' : null, { query: { limit: 200 }, every: EVERY });
  const pending = useApi<{ escalations: Escalation[]; next_cursor: string | null }>(
    may('escalation.read') ? '/v1/escalations' : null, { query: { status: 'pending', limit: LIMIT }, every: EVERY });
  const times = useMemo(() => latencies(recent.data?.executions ?? []), [recent.data]);
  const count = (list: { length: number } | undefined, more: string | null | undefined): ComponentChildren =>
    list === undefined ? '…' : `${list.length}${more ? '+' : ''}`;
  const disk = doctor.data?.findings?.find((one) => /disk|space|storage/i.test(one.name) && one.area === 'service')
    ?? doctor.data?.findings?.find((one) => /disk/i.test(one.name));
  return (
    <Page title="Home">
      <div class="stack">
        <div class="tiles">
          {may('service.read') && (
            <Tile label="Service" note={doctor.data ? `${doctor.data.counts.missing} missing, ${doctor.data.counts.reduced} reduced` : undefined}>
              {doctor.data ? <Status value={doctor.data.usable ? (doctor.data.complete ? 'healthy' : 'usable') : 'not usable'} tone={doctor.data.usable ? 'good' : 'bad'} /> : doctor.error ? <Status value="unknown" tone="warn" /> : '…'}
            </Tile>
          )}
          {may('execution.read') && <Tile label="Running" to="executions?status=running" error={running.error}>{count(running.data?.executions, running.data?.next_cursor)}</Tile>}
          {may('execution.read') && <Tile label="Queued" to="executions?status=queued" error={queued.error}>{count(queued.data?.executions, queued.data?.next_cursor)}</Tile>}
          {may('escalation.read') && <Tile label="Waiting for approval" to="approvals" error={pending.error} strong={(pending.data?.escalations.length ?? 0) > 0}>{count(pending.data?.escalations, pending.data?.next_cursor)}</Tile>}
          {may('execution.read') && (
            <Tile label="Start, median" note={times ? `99 % within ${duration(times.start.p99)}` : 'of the newest 200 runs'} error={recent.error}>
              {times ? duration(times.start.p50) : '–'}
            </Tile>
          )}
          {may('execution.read') && (
            <Tile label="Run, median" note={times ? `99 % within ${duration(times.run.p99)}` : 'of the newest 200 runs'} error={recent.error}>
              {times ? duration(times.run.p50) : '–'}
            </Tile>
          )}
          {disk && <Tile label="Disk" note={disk.detail}><Status value={disk.state} /></Tile>}
          {doctor.data?.memory_bytes !== undefined && (
            <Tile label="Machine" note={`${doctor.data.cpus} processors, at most ${doctor.data.max_sandboxes} sandboxes`}>{bytes(doctor.data.memory_bytes)}</Tile>
          )}
        </div>
        <div class="columns wide-columns">
          {may('escalation.read') && (
            <Card title="Waiting for approval" actions={<Link to="approvals">All approvals</Link>}>
              {pending.error ? <ErrorState error={pending.error} retry={pending.reload} /> : <Pending rows={pending.data?.escalations ?? null} />}
            </Card>
          )}
          {may('execution.read') && (
            <Card title="Newest executions" actions={<Link to="executions">All executions</Link>} class="flush">
              {recent.error ? <ErrorState error={recent.error} retry={recent.reload} /> : <Newest rows={recent.data?.executions ?? null} />}
            </Card>
          )}
        </div>
        {may('service.read') && (
          <Card title="What the service finds on its machine">
            {doctor.error ? <DoctorError error={doctor.error} retry={doctor.reload} /> : <Findings doctor={doctor.data} />}
          </Card>
        )}
      </div>
    </Page>
  );
}

function Tile({ label, children, note, to, error, strong }: {
  label: string; children: ComponentChildren; note?: string | undefined; to?: string; error?: unknown; strong?: boolean;
}): JSX.Element {
  return (
    <div class={`tile ${strong ? 'strong' : ''}`}>
      <p class="tile-label">{to ? <Link to={to}>{label}</Link> : label}</p>
      <p class="tile-value">{error ? <span class="faint" title={String(error instanceof Error ? error.message : error)}>unknown</span> : children}</p>
      {note && <p class="tile-note" title={note}><Untrusted value={note} /></p>}
    </div>
  );
}

function Pending({ rows }: { rows: Escalation[] | null }): JSX.Element {
  if (!rows) return <Loading />;
  if (rows.length === 0) return <Empty title="Nobody waits for you.">Runs that a rule stops appear here at once.</Empty>;
  return (
    <ul class="lines">
      {rows.slice(0, 8).map((row) => (
        <li key={row.id}>
          <Link to={approvalPath(row.id, isAdmin() ? row.requester.tenant : null)}><Untrusted value={row.subject || row.operation} cut={90} mono /></Link>
          <span class="faint"><Untrusted value={ownerName(row.requester)} cut={40} /> · <Time at={row.created_at} relative /> · {row.approvals} of {row.quorum} votes</span>
        </li>
      ))}
    </ul>
  );
}

function Newest({ rows }: { rows: Execution[] | null }): JSX.Element {
  const columns: Column<Execution>[] = useMemo(() => [
    { key: 'status', title: 'Status', width: '104px', cell: (row) => <Status value={row.status} /> },
    { key: 'id', title: 'Execution', width: 'minmax(100px, 2fr)', cell: (row) => <Link to={`executions/${row.id}`} class="mono" tabIndex={-1}>{row.id}</Link> },
    { key: 'language', title: 'Language', width: '90px', wide: true, cell: (row) => row.language ?? 'command' },
    { key: 'wall', title: 'Time', width: '80px', align: 'end', wide: true, cell: (row) => <Duration ms={row.resource_usage.wall_ms} /> },
    { key: 'at', title: 'Created', width: '90px', align: 'end', cell: (row) => <Time at={row.created_at} relative /> },
  ], []);
  return (
    <Table
      inline label="Newest executions" rows={(rows ?? []).slice(0, 10)} columns={columns} id={(row) => row.id} to={(row) => `executions/${row.id}`} loading={!rows}
      empty={<Empty title="Nothing has run yet.">Start a run under <Link to="executions">Executions</Link>, or with <code>cloister run -c 'print(1)'</code>.</Empty>}
    />
  );
}

function DoctorError({ error, retry }: { error: unknown; retry(): void }): JSX.Element {
  if (error instanceof ApiError && error.status === 404) {
    return <Notice tone="warn" title="This service does not report on its machine."><p>Run <code>cloister doctor</code> on the machine itself.</p></Notice>;
  }
  return <ErrorState error={error} retry={retry} />;
}

/** Some roles see the counts alone, and there is nothing to count without a node. */
export function summary(doctor: Pick<Doctor, 'connected' | 'counts'>, listed: number): string | null {
  const { ok, reduced, missing } = doctor.counts;
  if (listed > 0) return null;
  if (missing + reduced > 0) return `${missing} missing, ${reduced} reduced, ${ok} checks passed. An operator sees which.`;
  return doctor.connected ? `Nothing is missing: ${ok} checks passed.` : null;
}

function Findings({ doctor }: { doctor: Doctor | null }): JSX.Element {
  if (!doctor) return <Loading />;
  const found = doctor.findings ?? [];
  const wrong = found.filter((one) => one.state !== 'ok').sort((a, b) => (a.state === b.state ? 0 : a.state === 'missing' ? -1 : 1));
  const fine = found.filter((one) => one.state === 'ok');
  return (
    <div class="stack">
      {!doctor.connected && <Notice tone="bad" title="No node is connected: nothing can run."><p>Look at the node’s log, and at its network to the service.</p></Notice>}
      {summary(doctor, wrong.length) && <p>{summary(doctor, wrong.length)}</p>}
      <ul class="findings">
        {wrong.map((one) => (
          <li key={`${one.area} ${one.name}`}>
            <Status value={one.state} />
            <div>
              <p><strong>{one.area}: {one.name}</strong></p>
              <p class="soft"><Untrusted value={one.detail} /></p>
              {one.remedy && <p>Remedy: <Untrusted value={one.remedy} /></p>}
            </div>
          </li>
        ))}
      </ul>
      {fine.length > 0 && (
        <details>
          <summary>{fine.length} checks passed</summary>
          <ul class="findings">
            {fine.map((one) => <li key={`${one.area} ${one.name}`}><Status value="ok" /><p>{one.area}: {one.name} <span class="faint"><Untrusted value={one.detail} /></span></p></li>)}
          </ul>
        </details>
      )}
      {doctor.only_command.length > 0 && (
        <details><summary>What only the command on the machine finds out</summary><ul class="plain-list">{doctor.only_command.map((one) => <li key={one}>{one}</li>)}</ul></details>
      )}
    </div>
  );
}
