// SPDX-License-Identifier: Apache-2.0
// The node, what it lacks, and the sandboxes that it keeps ready.
import { useState } from 'preact/hooks';
import { Badge, Bytes, Dialog, ErrorBox, Loading, may, Page, Table, Untrusted, useLoad } from '../kit';

interface Node {
  connected: boolean;
  node: string;
  version: string;
  runtimes: string[];
  weakened: string[];
  image_digest: string;
  languages: string[];
  findings: Finding[];
  max_sandboxes: number;
  memory_bytes: number;
  cpus: number;
}

interface Finding {
  area: string;
  name: string;
  state: 'ok' | 'reduced' | 'missing';
  detail: string;
  remedy: string;
}

interface Durations {
  count: number;
  sum: number;
  buckets: { le: number; count: number }[];
}

interface Pool {
  kinds: { language: string; limits: string; scratch_bytes: number; ready: number; wanted: number; making: number; waiting: number }[];
  held: 'no' | 'memory' | 'cpu';
  claims: Record<'ready' | 'awaited' | 'copied' | 'made' | 'none', number>;
  claim_us: Durations;
  refill_us: Durations;
  teardown_backlog: number;
  dead: number;
}

const STATES = { ok: 'ok', reduced: 'warn', missing: 'bad' } as const;
const ORDER = ['ok', 'reduced', 'missing'];
const CLAIMS = { ready: 'ready', awaited: 'in the making', copied: 'copied', made: 'made on demand', none: 'refused' } as const;

/** The upper bound of the bucket with this share of the durations, in words. */
export function quantile(durations: Durations, share: number): string {
  if (durations.count === 0) return 'none yet';
  const found = durations.buckets.find((each) => each.count >= share * durations.count);
  if (!found) return `above ${(durations.buckets.at(-1)?.le ?? 0) / 1e6} s`;
  return found.le < 1000 ? `up to ${found.le} µs` : found.le < 1_000_000 ? `up to ${found.le / 1000} ms` : `up to ${found.le / 1e6} s`;
}

export function Nodes() {
  return <Page title="Nodes and pools"><div class="stack"><OneNode />{may('pool.read') && <PoolView />}</div></Page>;
}

function OneNode() {
  const loaded = useLoad<Node>('/v1/node', [], 10_000);
  const [chosen, setChosen] = useState<Finding | null>(null);
  if (loaded.error) return <ErrorBox error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.data) return <Loading what="the node" />;
  const node = loaded.data;
  const findings = [...node.findings].sort((a, b) => ORDER.indexOf(b.state) - ORDER.indexOf(a.state));
  return (
    <section class="stack" aria-labelledby="node">
      <h2 id="node">Node {node.node} <Badge tone={node.connected ? 'ok' : 'bad'}>{node.connected ? 'connected' : 'not connected'}</Badge></h2>
      <dl class="pairs panel">
        <dt>Version</dt><dd>{node.version}</dd>
        <dt>Runtimes</dt><dd>{node.runtimes.join(', ')}</dd>
        <dt>Languages</dt><dd>{node.languages.join(', ')}</dd>
        <dt>Capacity</dt><dd>{node.max_sandboxes} sandboxes, {node.cpus} processors, <Bytes value={node.memory_bytes} /></dd>
        <dt>Weaker than full isolation</dt><dd>{node.weakened.join('; ') || 'nothing'}</dd>
        <dt>Image</dt><dd><code class="break">{node.image_digest || 'not verified yet'}</code></dd>
      </dl>
      <Table label="Findings of the node" rows={findings} keyOf={(row) => `${row.area}/${row.name}`} onOpen={setChosen}
        columns={[
          { id: 'state', title: 'State', text: (row) => row.state, cell: (row) => <Badge tone={STATES[row.state] ?? 'neutral'}>{row.state}</Badge> },
          { id: 'area', wide: true, title: 'Area', text: (row) => row.area },
          { id: 'name', title: 'Name', text: (row) => row.name },
          { id: 'detail', title: 'Detail', text: (row) => row.detail, width: '3fr' },
          { id: 'remedy', wide: true, title: 'Remedy', text: (row) => row.remedy, width: '3fr' },
        ]} />
      {chosen && (
        <Dialog title={`${chosen.area}: ${chosen.name}`} onClose={() => setChosen(null)}>
          <p><Badge tone={STATES[chosen.state] ?? 'neutral'}>{chosen.state}</Badge> <Untrusted value={chosen.detail} /></p>
          {chosen.remedy && <p><strong>Remedy:</strong> <Untrusted value={chosen.remedy} /></p>}
        </Dialog>
      )}
    </section>
  );
}

function PoolView() {
  const loaded = useLoad<Pool>('/v1/pool', [], 5000);
  if (loaded.error) return <ErrorBox error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.data) return <Loading what="the pool" />;
  const pool = loaded.data;
  return (
    <section class="stack" aria-labelledby="pool">
      <h2 id="pool">Sandboxes that are kept ready</h2>
      {pool.held !== 'no' && <p class="warn">No sandbox is made ahead: the machine is short of {pool.held === 'cpu' ? 'processor time' : 'memory'}.</p>}
      <dl class="pairs panel">
        <dt>A sandbox is had in</dt><dd>{quantile(pool.claim_us, 0.5)} (half of {pool.claim_us.count}), {quantile(pool.claim_us, 0.99)} (99 %)</dd>
        <dt>Served from</dt><dd>{(Object.keys(CLAIMS) as (keyof typeof CLAIMS)[]).map((name) => `${CLAIMS[name]}: ${pool.claims[name]}`).join(', ')}</dd>
        <dt>Being removed</dt><dd>{pool.teardown_backlog}</dd>
        <dt>Found dead</dt><dd>{pool.dead}</dd>
      </dl>
      {pool.kinds.length > 0 && (
        <Table label="Kinds of ready sandboxes" rows={pool.kinds} keyOf={(row) => `${row.language}/${row.limits}/${row.scratch_bytes}`}
          columns={[
            { id: 'language', title: 'Language', text: (row) => row.language },
            { id: 'limits', title: 'Limits', text: (row) => row.limits },
            { id: 'ready', title: 'Ready', text: (row) => `${row.ready} of ${row.wanted}` },
            { id: 'making', title: 'Being made', text: (row) => String(row.making) },
            { id: 'waiting', title: 'Waiting', text: (row) => String(row.waiting) },
          ]} />
      )}
    </section>
  );
}
