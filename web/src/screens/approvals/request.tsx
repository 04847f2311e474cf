// SPDX-License-Identifier: Apache-2.0
// What would run: the whole request, with what the command filter finds marked in it, and what differs from before.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { ApiError, path } from '../../api';
import { type Reading, useApi } from '../../hooks';
import { Button, Bytes, Card, ErrorState, Facts, Loading, Notice, Status, TextDiff, Time, Untrusted } from '../../parts';
import { approvalPath } from '../../places';
import { Link } from '../../router';
import { offer } from '../../save';
import { may, session } from '../../session';
import { useStore } from '../../store';
import { fromBase64, visible, visibleLines } from '../../text';
import type { Escalation } from '../../types';
import { bytesText } from './bytes';
import { programOf, type RiskFactor, useFindings } from './findings';
import { type Mark, pieces } from './marks';
import { Workspace, type WorkspaceList } from './workspace';

export interface WholeRequest {
  escalation_id: string;
  operation: string;
  session_id: string | null;
  digest: string | null;
  request: Record<string, unknown>;
  files: { path: string; bytes: number; sha256: string; executable: boolean; text: boolean }[];
  workspace: WorkspaceList | null;
  unusual: { at: string; offset: number; codepoint: string; what: string }[];
  unusual_left_out: number;
}

export interface WholeReading {
  /** Whether this person may read the request. */
  shown: boolean;
  whole: Reading<WholeRequest>;
}

/** The whole request of an escalation, for its requester and for those who decide. */
export function useWholeRequest(escalation: Escalation | null, tenant: string | null): WholeReading {
  const state = useStore(session);
  const requester = escalation?.requester;
  const mine = state.state === 'in' && requester !== undefined &&
    (['tenant', 'app', 'agent', 'user'] as const).every((member) => state.principal[member] === requester[member]);
  const shown = mine || may('escalation.decide');
  return { shown, whole: useApi<WholeRequest>(shown && escalation ? path`/v1/escalations/${escalation.id}/request` : null, { query: { tenant } }) };
}

export function RequestView({ escalation, tenant, reading }: { escalation: Escalation; tenant: string | null; reading: WholeReading }): JSX.Element {
  const { shown, whole } = reading;
  const findings = useFindings(whole.data?.request ?? null);
  if (!shown || (whole.error instanceof ApiError && (whole.error.status === 403 || whole.error.status === 404))) {
    return (
      <Card title="What would run">
        <Notice tone="warn" title={whole.error instanceof ApiError && whole.error.status === 404 ? 'The whole request is not kept any more.' : 'Only the requester and those who decide see the whole request.'} />
        <pre class="code">{visibleLines(escalation.display)}</pre>
      </Card>
    );
  }
  if (whole.error) return <ErrorState error={whole.error} retry={whole.reload} />;
  if (!whole.data) return <Loading what="the request" />;
  const { request, files, unusual, unusual_left_out: leftOut, workspace } = whole.data;
  return (
    <div class="stack">
      {unusual.length > 0 && (
        <Notice tone="bad" title="The request has characters that mislead.">
          <ul class="plain-list">
            {unusual.slice(0, 12).map((one) => <li key={`${one.at} ${one.offset}`}><code>{visible(one.at)}</code>, byte {one.offset}: {one.codepoint}, {visible(one.what)}</li>)}
            {(unusual.length > 12 || leftOut > 0) && <li>and {unusual.length - Math.min(12, unusual.length) + leftOut} more</li>}
          </ul>
        </Notice>
      )}
      <Card title="What would run">
        <Program request={request} factors={findings.factors} />
        {findings.missing !== null && <Notice tone="warn" title={findings.missing} />}
        {files.map((file) => <RequestFile key={file.path} file={file} request={request} />)}
      </Card>
      {findings.factors.length > 0 && <Factors factors={findings.factors} />}
      {workspace && <Workspace list={workspace} />}
      <Similar escalation={escalation} tenant={tenant} request={request} />
      <Card title="The rest of the request"><RequestFacts request={request} digest={whole.data.digest} /></Card>
    </div>
  );
}

function Program({ request, factors }: { request: Record<string, unknown>; factors: RiskFactor[] }): JSX.Element {
  const program = programOf(request);
  const marked = useMemo(() => {
    const marks: Mark[] = factors.map((factor) => ({ begin: factor.begin, end: factor.end, title: `${factor.what}${factor.why ? `: ${factor.why}` : ''}` }));
    return program ? pieces(program.text, marks) : [];
  }, [program?.text, factors]);
  if (!program) return <pre class="code">{visibleLines(JSON.stringify(request, null, 2))}</pre>;
  const language = typeof request['language'] === 'string' ? request['language'] : 'command';
  return (
    <>
      <p class="soft">{visible(language)}{program.argv ? `, ${program.argv.length} words without a shell` : ''}</p>
      <pre class="code" tabIndex={0} role="region" aria-label="The program">
        {marked.map((piece, index) => (piece.titles.length > 0
          ? <mark key={index} title={visible(piece.titles.join('; '))}>{visibleLines(piece.text)}</mark>
          : <span key={index}>{visibleLines(piece.text)}</span>))}
      </pre>
      {program.argv && <ol class="argv">{program.argv.map((word, index) => <li key={index}><code>{visible(word)}</code></li>)}</ol>}
    </>
  );
}

function RequestFile({ file, request }: { file: WholeRequest['files'][number]; request: Record<string, unknown> }): JSX.Element {
  const sent = (Array.isArray(request['files']) ? request['files'] : []) as { path?: unknown; content?: unknown; encoding?: unknown }[];
  const content = sent.find((one) => one.path === file.path);
  const given = typeof content?.content === 'string' ? content.content : null;
  const raw = given !== null && content?.encoding === 'base64' ? fromBase64(given) : null;
  return (
    <details>
      <summary><code>{visible(file.path)}</code>, <Bytes count={file.bytes} />{file.executable ? ', executable' : ''}{file.text ? '' : ', not UTF-8'}</summary>
      {raw !== null ? <RawContent bytes={raw} /> : given !== null && content?.encoding !== 'base64' && <pre class="code">{visibleLines(given)}</pre>}
      <p class="soft">SHA-256 {file.sha256}</p>
    </details>
  );
}

const MAX_RAW = 256 * 1024;

/** Content that came as base64. */
function RawContent({ bytes }: { bytes: Uint8Array }): JSX.Element {
  const shown = useMemo(() => visibleLines(bytesText(bytes.subarray(0, MAX_RAW))), [bytes]);
  return (
    <>
      <p class="soft">Bytes outside UTF-8 are shown as \xNN.</p>
      <pre class="code">{shown}</pre>
      {bytes.length > MAX_RAW && <p class="warn">These are the first <Bytes count={MAX_RAW} /> of <Bytes count={bytes.length} />. Save the content to read the rest.</p>}
      <Button small onClick={() => offer(new Uint8Array(bytes), 'content.bin')}>Save the content</Button>
    </>
  );
}

function Factors({ factors }: { factors: RiskFactor[] }): JSX.Element {
  return (
    <Card title="Why it is risky">
      <ul class="factors">
        {factors.map((factor, index) => (
          <li key={index}>
            <Status value={factor.outcome} tone={factor.outcome === 'deny' ? 'bad' : factor.outcome === 'allow' ? 'plain' : 'warn'} />
            <div>
              <p><code>{visible(factor.words)}</code> <Untrusted value={factor.what} /></p>
              {factor.why && <p class="soft"><Untrusted value={factor.why} /></p>}
              {factor.mitigation && <p class="soft">Safer: <Untrusted value={factor.mitigation} /></p>}
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** The request as lines that a difference can compare. */
function asLines(request: Record<string, unknown>): string {
  const lines: string[] = [];
  for (const name of Object.keys(request).sort()) {
    const value = request[name];
    if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) continue;
    if (typeof value === 'string') {
      const [first = '', ...more] = value.split('\n');
      lines.push(more.length ? `${name}:` : `${name}: ${first}`, ...(more.length ? [first, ...more].map((line) => `  ${line}`) : []));
    } else {
      const text = JSON.stringify(value, null, 2).split('\n');
      lines.push(`${name}: ${text[0] ?? ''}`, ...text.slice(1));
    }
  }
  return lines.join('\n');
}

function Similar({ escalation, tenant, request }: { escalation: Escalation; tenant: string | null; request: Record<string, unknown> }): JSX.Element | null {
  const similar = escalation.similar;
  const before = useApi<WholeRequest>(similar ? path`/v1/escalations/${similar.id}/request` : null, { query: { tenant } });
  if (similar === undefined) return null;
  if (similar === null) return <Card title="Compared to the last approval"><p class="soft">No such request of this requester has been approved before.</p></Card>;
  const changed = before.data !== null && JSON.stringify(before.data.request) !== JSON.stringify(request);
  return (
    <Card title="Compared to the last approval">
      <p class="soft"><Link to={approvalPath(similar.id, tenant)}>{similar.id}</Link>, approved <Time at={similar.decided_at} relative /></p>
      {before.error ? <Notice tone="warn" title="That request is not kept any more, so nothing can be compared." /> : !before.data ? <Loading /> : changed ? <TextDiff label="Difference" before={asLines(before.data.request)} after={asLines(request)} /> : <Notice tone="good" title="The request is the same, member for member." />}
    </Card>
  );
}

const SHOWN_ABOVE = new Set(['code', 'command', 'files']);

function RequestFacts({ request, digest }: { request: Record<string, unknown>; digest: string | null }): JSX.Element {
  const input = request['encoding'] === 'base64' && typeof request['input'] === 'string' ? fromBase64(request['input']) : null;
  const rows = Object.entries(request)
    .filter(([name, value]) => !SHOWN_ABOVE.has(name) && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0) && !(typeof value === 'object' && Object.keys(value as object).length === 0))
    .map(([name, value]): [string, JSX.Element] => [name, name === 'input' && input !== null ? <RawContent key={name} bytes={input} /> : <pre key={name} class="code">{visibleLines(typeof value === 'string' ? value : JSON.stringify(value, null, 2))}</pre>]);
  if (digest) rows.push(['digest', <code key="d">{digest}</code>]);
  return <Facts rows={rows} />;
}
