// SPDX-License-Identifier: Apache-2.0
// What a run did with the network, and the packages it had.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { ApiError, path } from '../../api';
import { useApi } from '../../hooks';
import { Button, Bytes, Card, Empty, ErrorState, Facts, Loading, Notice, Table, Untrusted, type Column } from '../../parts';
import { number } from '../../text';
import type { Denied, Execution } from '../../types';
import { download } from './artifacts';

export function Network({ execution }: { execution: Execution }): JSX.Element {
  const { network } = execution;
  const columns: Column<Denied & { key: string }>[] = useMemo(() => [
    { key: 'host', title: 'Destination', width: 'minmax(140px, 2fr)', cell: (row) => <Untrusted value={row.port ? `${row.host}:${row.port}` : row.host} mono /> },
    { key: 'how', title: 'By', width: '60px', cell: (row) => row.transport },
    { key: 'reason', title: 'Why it was refused', width: 'minmax(120px, 2fr)', wide: true, cell: (row) => <Untrusted value={row.reason} /> },
    { key: 'remedy', title: 'Remedy', width: 'minmax(120px, 2fr)', wide: true, cell: (row) => <Untrusted value={row.remedy} /> },
    { key: 'count', title: 'Times', width: '60px', align: 'end', cell: (row) => number(row.count), compare: (a, b) => a.count - b.count },
  ], []);
  const rows = network.denied.map((row, index) => ({ ...row, key: String(index) }));
  return (
    <div class="stack">
      {network.hint && <Notice tone="warn" title="About its network"><p><Untrusted value={network.hint} /></p></Notice>}
      <Card>
        <Facts rows={[
          ['Allowed connections', number(network.connections)], ['Received', <Bytes key="i" count={network.bytes_in} />], ['Sent', <Bytes key="o" count={network.bytes_out} />],
        ]} />
      </Card>
      <Card title="Refused destinations" class="flush">
        <Table inline label="Refused destinations" rows={rows} columns={columns} id={(row) => row.key} empty={<Empty title="Nothing was refused." />} />
        {network.denied_left_out > 0 && <p class="soft note">and {number(network.denied_left_out)} more</p>}
      </Card>
      {execution.session_id && <p class="hint">For a program of a session: what all programs of the session did in the meantime.</p>}
    </div>
  );
}

interface Bill {
  components?: { name?: string; version?: string; purl?: string; licenses?: { license?: { id?: string; name?: string }; expression?: string }[] }[];
}

interface Component {
  key: string;
  name: string;
  version: string;
  licence: string;
}

export function Packages({ execution }: { execution: Execution }): JSX.Element {
  const layers = execution.provenance.layers ?? [];
  const reading = useApi<Bill>(layers.length > 0 ? path`/v1/executions/${execution.id}/sbom` : null);
  const rows: Component[] = useMemo(() => (reading.data?.components ?? []).slice(0, 20_000).map((one, index) => ({
    key: String(index), name: String(one.name ?? ''), version: String(one.version ?? ''),
    licence: (one.licenses ?? []).map((each) => each.expression ?? each.license?.id ?? each.license?.name ?? '').filter(Boolean).join(', '),
  })), [reading.data]);
  const columns: Column<Component>[] = useMemo(() => [
    { key: 'name', title: 'Package', width: 'minmax(120px, 2fr)', cell: (row) => <Untrusted value={row.name} mono />, compare: (a, b) => a.name.localeCompare(b.name) },
    { key: 'version', title: 'Version', cell: (row) => <Untrusted value={row.version} mono cut={40} /> },
    { key: 'licence', title: 'Licence', wide: true, cell: (row) => <Untrusted value={row.licence || '–'} cut={60} />, compare: (a, b) => a.licence.localeCompare(b.licence) },
  ], []);
  if (layers.length === 0) return <Empty title="It had no packages of its own.">A request names packages with <code>deps</code>.</Empty>;
  if (reading.error && !(reading.error instanceof ApiError && reading.error.status === 404)) return <ErrorState error={reading.error} retry={reading.reload} />;
  if (reading.loading && !reading.data) return <Loading what="the bill of materials" />;
  return (
    <div class="stack">
      <Card title="Layers">
        <ul class="plain-list">{layers.map((layer) => <li key={layer.digest}><code>{layer.place}</code> <code>{layer.digest}</code></li>)}</ul>
      </Card>
      <Card title="Packages" class="flush" actions={<Button small onClick={() => download(path`/v1/executions/${execution.id}/sbom`, `${execution.id}.cdx.json`)}>Save the bill of materials</Button>}>
        <Table inline label="Packages" rows={rows} columns={columns} id={(row) => row.key} filterText={(row) => `${row.name} ${row.version} ${row.licence}`} empty={<Empty title="The bill of materials lists nothing." />} />
      </Card>
    </div>
  );
}
