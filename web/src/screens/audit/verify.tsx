// SPDX-License-Identifier: Apache-2.0
// Verification in the browser. An administrator walks the whole chain; other roles prove their own entries and follow
// the row of signed roots. The service's own claims are not used.
import { useEffect, useRef, useState } from 'preact/hooks';
import { available, fromBase64 } from '../../verify/crypto';
import { parse } from '../../verify/json';
import { KeptRoots, MAX_ROOTS, readRecord, RootRow, verifyProof } from '../../verify/proof';
import type { VerifyMessage, VerifyStart } from '../../verify/protocol';
import { api, ApiError, apiUrl, Badge, Bytes, ErrorBox, Field, may, Time, Untrusted, useAction } from '../kit';
import type { AuditPage } from './types';

const MAX_HEADS_FILE = 64 << 20;
const ROOTS_PAGE = 1000;
const MY_ENTRIES = 50;

export function Verify() {
  if (!available()) {
    return <p role="alert">This page cannot compute hashes here. Open it over HTTPS, or on the machine of the service.</p>;
  }
  return (
    <div class="stack">
      {may('audit.verify') && <Chain />}
      <Roots />
    </div>
  );
}

function Chain() {
  const worker = useRef<Worker | null>(null);
  const [message, setMessage] = useState<VerifyMessage | null>(null);
  const [heads, setHeads] = useState<{ name: string; text: string } | null>(null);
  const starting = useAction();
  const running = message?.kind === 'progress';
  const stop = (): void => {
    worker.current?.terminate();
    worker.current = null;
  };
  useEffect(() => stop, []);
  const start = (): void => void starting.run(async () => {
    stop();
    setMessage({ kind: 'progress', entries: 0, bytes: 0, at: 0 });
    try {
      const key = await api.get<{ public_key: string }>('/v1/audit/public-key');
      const newest = await api.get<AuditPage>('/v1/audit?order=newest&limit=1');
      const seen = newest.entries.flatMap((each) => (each.position === undefined ? [] : [{ seq: each.position, hash: each.hash }]));
      const order: VerifyStart = { kind: 'start', exportUrl: apiUrl('/v1/audit/export'), publicKey: key.public_key, heads, seen };
      const made = new Worker(new URL('../../verify/worker.ts', import.meta.url), { type: 'module' });
      worker.current = made;
      made.onmessage = (event: MessageEvent<VerifyMessage>) => setMessage(event.data);
      made.onerror = () => setMessage({ kind: 'failed', problem: 'the worker did not start; reload the page', entries: 0 });
      made.postMessage(order);
    } catch (error) {
      setMessage(null);
      throw error;
    }
  });
  const take = (event: { currentTarget: HTMLInputElement }): void => {
    const file = event.currentTarget.files?.[0];
    if (!file) return setHeads(null);
    if (file.size > MAX_HEADS_FILE) return void starting.run(() => Promise.reject(new Error('The file is larger than 64 MiB. Choose a file of checkpoints.')));
    void file.text().then((text) => setHeads({ name: file.name, text }));
  };
  return (
    <section class="panel stack" aria-labelledby="verify-chain">
      <h2 id="verify-chain">The whole chain</h2>
      <p>The browser reads the log from its first entry, computes each hash, and names the first bad entry. A checkpoint file from another place also shows a log that was computed anew.</p>
      <Field label="Checkpoints that you kept (optional)" hint="The file audit.checkpoints, or lines that were published."><input type="file" onChange={take} disabled={running} /></Field>
      <div class="row">
        <button class="button primary" disabled={running || starting.busy} onClick={start}>Verify the chain</button>
        {running && <button class="button" onClick={() => { stop(); setMessage(null); }}>Stop</button>}
      </div>
      {starting.error ? <ErrorBox error={starting.error} /> : null}
      <div role="status" data-testid="chain-result">{message && <Result message={message} />}</div>
    </section>
  );
}

function Result({ message }: { message: VerifyMessage }) {
  switch (message.kind) {
    case 'progress':
      return <p><Badge tone="neutral">verifying</Badge> {message.entries} entries, <Bytes value={message.bytes} />{message.at > 0 && <>, up to <Time at={new Date(message.at / 1000).toISOString()} /></>}</p>;
    case 'ok':
      return <p><Badge tone="ok">verified</Badge> {message.entries} entries, <Bytes value={message.bytes} />. {message.held === null ? 'No checkpoint was compared' : message.held === 1 ? 'One checkpoint of your file agrees' : `${message.held} checkpoints of your file agree`}. The head is <code class="break">{message.head}</code>. Compare it with one that you keep elsewhere.</p>;
    case 'broken':
      return <p class="bad"><Badge tone="bad">broken</Badge> <Untrusted value={message.problem} />. The {message.entries} entries before it are good. Keep a copy of the export and of the checkpoints, and restore from a backup.</p>;
    case 'failed':
      return <p><Badge tone="warn">not verified</Badge> <Untrusted value={message.problem} />. Start again.</p>;
  }
}

interface RootsVerdict {
  records: number;
  from: string;
  to: string;
  proven: number;
  /** Records that agree with the kept ones. */
  agree: number;
  waiting: number;
  /** Entries before the first root, or of a period that the service no longer keeps. */
  without: number;
  problem: string;
}

/** Follows the row of roots, then proves the newest entries that the caller may read. */
async function verifyRoots(kept: KeptRoots | null, tell: (text: string) => void): Promise<RootsVerdict> {
  const key = await api.get<{ public_key: string }>('/v1/audit/public-key');
  const row = new RootRow(fromBase64(key.public_key));
  const verdict: RootsVerdict = { records: 0, from: '', to: '', proven: 0, agree: 0, waiting: 0, without: 0, problem: '' };
  try {
    for (let after: number | null = 0; after !== null && row.records < MAX_ROOTS; ) {
      const page = parse(await api.text(`/v1/audit/roots?after=${after}&limit=${ROOTS_PAGE}`)) as { roots?: unknown };
      const roots = Array.isArray(page.roots) ? page.roots : [];
      for (const each of roots) {
        const record = readRecord(each);
        await row.add(record);
        if (kept?.compare(record)) verdict.agree += 1;
        if (row.records === 1) verdict.from = new Date(record.begins / 1000).toISOString();
      }
      tell(`${row.records} roots`);
      after = roots.length < ROOTS_PAGE ? null : (row.last?.number ?? null);
    }
    kept?.finish(row.last?.number ?? 0);
    verdict.records = row.records;
    if (row.last) verdict.to = new Date(row.last.ends / 1000).toISOString();
    const mine = await api.get<AuditPage>(`/v1/audit?order=newest&limit=${MY_ENTRIES}`);
    for (const entry of mine.entries) {
      const found = await proofOf(entry.position ?? entry.seq);
      if (found === 'waiting') verdict.waiting += 1;
      else if (found === 'without') verdict.without += 1;
      else {
        const proof = await verifyProof(found, key.public_key);
        if (!proof.ok) throw new Error(`entry ${entry.position ?? entry.seq}: ${proof.problem}`);
        if (proof.entry?.['seq'] !== entry.seq || proof.entry['prev'] !== entry.prev) throw new Error(`entry ${entry.seq}: the proof is about another entry`);
        verdict.proven += 1;
      }
      tell(`${row.records} roots, ${verdict.proven} entries`);
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
    verdict.records = row.records;
    verdict.problem = error instanceof Error ? error.message : String(error);
  }
  return verdict;
}

/** Saves all roots, one a line. */
async function keepRoots(): Promise<void> {
  const lines: string[] = [];
  for (let after: number | null = 0; after !== null && lines.length < MAX_ROOTS; ) {
    const page: { roots: { number: number }[]; next_after: number | null } =
      await api.get('/v1/audit/roots', { query: { after, limit: ROOTS_PAGE } });
    lines.push(...page.roots.map((each) => `${JSON.stringify(each)}\n`));
    after = page.next_after;
  }
  api.offer(new Blob(lines), 'cloister-roots.jsonl');
}

async function proofOf(number: number): Promise<string> {
  try {
    return await api.text(`/v1/audit/entries/${number}/proof`);
  } catch (error) {
    // Both are 409: the next root will contain the entry, or its root is no longer kept.
    if (error instanceof ApiError && error.status === 409) return error.message.includes('older') ? 'without' : 'waiting';
    if (error instanceof ApiError && error.status === 404) return 'without';
    throw error;
  }
}

function Roots() {
  const [progress, setProgress] = useState('');
  const [verdict, setVerdict] = useState<RootsVerdict | null>(null);
  const [kept, setKept] = useState<KeptRoots | null>(null);
  const acting = useAction();
  const start = (): void => void acting.run(async () => {
    setVerdict(null);
    setVerdict(await verifyRoots(kept, setProgress));
  });
  const take = (event: { currentTarget: HTMLInputElement }): void => {
    const file = event.currentTarget.files?.[0];
    setKept(null);
    if (!file) return;
    void acting.run(async () => {
      if (file.size > MAX_HEADS_FILE) throw new Error('The file is larger than 64 MiB. Choose a copy of the roots.');
      const text = await file.text();
      try {
        setKept(new KeptRoots(text));
      } catch (error) {
        throw new Error(`${file.name}: ${error instanceof Error ? error.message : String(error)}`);
      }
    });
  };
  return (
    <section class="panel stack" aria-labelledby="verify-roots">
      <h2 id="verify-roots">Signed roots and your entries</h2>
      <p>Each period the service signs a root over the entries of all tenants. A proof shows that a root contains one entry, and tells nothing about other entries. The page follows the roots and proves your newest {MY_ENTRIES} entries.</p>
      <Field label="Roots that you kept (optional)" hint="A copy from here, or of the command cloister audit roots."><input type="file" onChange={take} disabled={acting.busy} /></Field>
      <div class="row">
        <button class="button primary" disabled={acting.busy} onClick={start}>Verify roots and entries</button>
        <button class="button" disabled={acting.busy} onClick={() => void acting.run(keepRoots)}>Keep a copy of the roots</button>
      </div>
      {acting.error ? <ErrorBox error={acting.error} /> : null}
      <div role="status" data-testid="roots-result">
        {acting.busy && <p><Badge tone="neutral">verifying</Badge> {progress}</p>}
        {verdict && verdict.problem !== '' && <p class="bad"><Badge tone="bad">broken</Badge> <Untrusted value={verdict.problem} />. Keep your copy of the roots, and tell an administrator.</p>}
        {verdict && verdict.problem === '' && (
          <p>
            <Badge tone="ok">verified</Badge> {verdict.records} roots form one row{verdict.from && <> from <Time at={verdict.from} /> to <Time at={verdict.to} /></>}. {verdict.proven} of your entries are proven.
            {kept && ` ${verdict.agree} roots agree with your copy.`}
            {verdict.waiting > 0 && ` ${verdict.waiting} wait for the next root.`}
            {verdict.without > 0 && ` ${verdict.without} are older than the kept roots.`}
          </p>
        )}
      </div>
    </section>
  );
}
