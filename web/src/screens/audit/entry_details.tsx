// SPDX-License-Identifier: Apache-2.0
// One entry in full, its proof, and for administrators the redaction of its sealed text.
import { useState } from 'preact/hooks';
import { verifyProof } from '../../verify/proof';
import { api, ApiError, Badge, ConfirmTyped, ErrorBox, Field, IdLink, may, Time, toast, Untrusted, useAction } from '../kit';
import { visibleLines } from '../../text';
import { sentenceText } from './sentences';
import type { AuditEntry } from './types';

/** What the route of an entry counts by: the position for administrators, else the tenant's number. */
function numberOf(entry: AuditEntry): number {
  return entry.position ?? entry.seq;
}

export function EntryDetails({ entry, onClose }: { entry: AuditEntry; onClose(): void }) {
  const facts: [string, string][] = [
    ['Action', entry.action], ['Tenant', entry.tenant], ['App', entry.app], ['Agent', entry.agent], ['User', entry.user],
    ['Key', entry.key], ['Number', String(entry.seq)], ['Position', String(entry.position ?? '')], ['Hash', entry.hash], ['Previous', entry.prev],
  ];
  return (
    <aside class="panel stack" aria-label="The chosen entry">
      <div class="row spread">
        <h2><Untrusted value={sentenceText(entry, false)} cut={600} /></h2>
        <button class="button" onClick={onClose} aria-label="Close the entry">Close</button>
      </div>
      <dl class="pairs">
        <dt>Time</dt><dd><Time at={new Date(entry.at / 1000).toISOString()} /></dd>
        {entry.subject && <><dt>Subject</dt><dd><IdLink id={entry.subject} tenant={entry.tenant} /></dd></>}
        {facts.filter(([, value]) => value !== '').map(([name, value]) => (
          <><dt key={`${name}-t`}>{name}</dt><dd key={name} class={value.length === 64 ? 'mono break' : ''}><Untrusted value={value} /></dd></>
        ))}
      </dl>
      <pre class="document" tabIndex={0} aria-label="Details">{visibleLines(JSON.stringify(entry.details, null, 2))}</pre>
      <Proof entry={entry} />
      {may('audit.redact') && entry.position !== undefined && <Redact entry={entry} />}
    </aside>
  );
}

function Proof({ entry }: { entry: AuditEntry }) {
  const [verdict, setVerdict] = useState<{ ok: boolean; text: string } | null>(null);
  const proving = useAction();
  const prove = (): void => void proving.run(async () => {
    const key = await api.get<{ public_key: string }>('/v1/audit/public-key');
    let text: string;
    try {
      text = await api.text(`/v1/audit/entries/${numberOf(entry)}/proof`);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409) throw error;
      setVerdict({ ok: false, text: error.message });
      return;
    }
    const proof = await verifyProof(text, key.public_key);
    const same = proof.entry?.['prev'] === entry.prev && proof.entry?.['seq'] === entry.seq;
    if (proof.ok && same) setVerdict({ ok: true, text: `The signed root ${proof.record?.number} contains this entry, byte for byte.` });
    else setVerdict({ ok: false, text: proof.ok ? 'The proof is about another entry.' : proof.problem });
  });
  return (
    <div class="stack">
      <div><button class="button" disabled={proving.busy} onClick={prove}>Prove this entry</button></div>
      {verdict && <p role="status"><Badge tone={verdict.ok ? 'ok' : 'bad'}>{verdict.ok ? 'proven' : 'not proven'}</Badge> {verdict.text}</p>}
      {proving.error ? <ErrorBox error={proving.error} /> : null}
    </div>
  );
}

const SEALED_NAMES = ['what', 'reason', 'note'];

function Redact({ entry }: { entry: AuditEntry }) {
  const members = SEALED_NAMES.filter((name) => typeof entry.details[name] === 'string');
  const [member, setMember] = useState<string | null>(null);
  const [reason, setReason] = useState('');
  if (members.length === 0) return null;
  const redact = async (): Promise<void> => {
    if (reason.trim() === '') throw new Error('Give a reason: the log keeps it.');
    await api.post(`/v1/audit/${entry.position}:redact`, { member, reason });
    toast(`The text "${member}" of this entry is forgotten.`);
    setMember(null);
  };
  return (
    <div class="row">
      {members.map((name) => <button key={name} class="danger" onClick={() => setMember(name)}>Forget "{name}"…</button>)}
      {member && (
        <ConfirmTyped title={`Forget "${member}" of this entry`} expect={member} verb="Forget" onConfirm={redact} onClose={() => setMember(null)}>
          <p>The ledger overwrites the text. The chain verifies as before. Nobody can bring the text back.</p>
          <Field label="Reason" hint="The log keeps the reason."><input value={reason} maxLength={2000} onInput={(event) => setReason(event.currentTarget.value)} /></Field>
        </ConfirmTyped>
      )}
    </div>
  );
}
