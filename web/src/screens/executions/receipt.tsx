// SPDX-License-Identifier: Apache-2.0
// Where a run was, by which rules, and its receipt: the page itself verifies it with the public key of the log.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, get, isAbort, path, request } from '../../api';
import { Button, Card, ErrorState, Facts, Loading, Notice } from '../../parts';
import { ENDED, type Execution } from '../../types';
import { type ReceiptVerdict, verifyReceipt } from '../../verify/receipt';
import { download } from './artifacts';

const code = (value: string | null): JSX.Element => (value ? <code>{value}</code> : <span class="faint">–</span>);

export function Provenance({ execution }: { execution: Execution }): JSX.Element {
  const { provenance } = execution;
  return (
    <div class="stack">
      {provenance.weakened.length > 0 && (
        <Notice tone="warn" title="The isolation was weaker than it can be."><ul class="plain-list">{provenance.weakened.map((one) => <li key={one}>{one}</li>)}</ul></Notice>
      )}
      <Receipt execution={execution} />
      <Card title="Where and by which rules">
        <Facts rows={[
          ['Runtime', provenance.runtime ?? '–'], ['Node', provenance.node ?? '–'], ['Image', provenance.image ?? '–'], ['Image digest', code(provenance.image_digest)],
          ['Policy', code(provenance.policy_id)], ['Permit', code(provenance.permit_id)], ['Code, SHA-256', code(provenance.code_sha256)],
          ['Output, SHA-256', code(provenance.output_sha256)], ['stdout, SHA-256', code(provenance.stdout_sha256)], ['stderr, SHA-256', code(provenance.stderr_sha256)],
        ]} />
      </Card>
    </div>
  );
}

function Receipt({ execution }: { execution: Execution }): JSX.Element {
  const [verdict, setVerdict] = useState<ReceiptVerdict | null>(null);
  const [key, setKey] = useState('');
  const [error, setError] = useState<unknown>(null);
  const ended = ENDED.has(execution.status);
  useEffect(() => {
    if (!ended) return undefined;
    const abort = new AbortController();
    const where = path`/v1/executions/${execution.id}/receipt`;
    Promise.all([
      request('GET', where, { signal: abort.signal }).then((response) => response.text()),
      get<{ public_key: string; key: string }>('/v1/audit/public-key', { signal: abort.signal }),
    ]).then(async ([text, audit]) => {
      setKey(audit.key);
      setVerdict(await verifyReceipt(text, audit.public_key));
    }).catch((failed: unknown) => {
      if (!isAbort(failed)) setError(failed);
    });
    return () => abort.abort();
  }, [execution.id, ended]);
  if (!ended) return <Card title="Receipt"><p class="soft">The service signs a receipt at the end.</p></Card>;
  const missing = error instanceof ApiError && (error.status === 404 || error.status === 409);
  return (
    <Card title="Receipt" actions={<Button small onClick={() => download(path`/v1/executions/${execution.id}/receipt`, `${execution.id}.receipt.json`)}>Save the receipt</Button>}>
      {missing ? <Notice tone="warn" title="This execution has no receipt."><p>{error.message}</p></Notice>
        : error ? <ErrorState error={error} />
          : !verdict ? <Loading what="the receipt" />
            : verdict.ok
              ? <Notice tone="good" title="The receipt is genuine."><p>This page has verified the signature over {verdict.covered} values, with the key <code>{key}</code> of the audit log.</p></Notice>
              : <Notice tone="bad" title="The receipt is not what the service signed."><p>{verdict.problem}</p><p>Keep a copy, and compare it with the audit log.</p></Notice>}
    </Card>
  );
}
