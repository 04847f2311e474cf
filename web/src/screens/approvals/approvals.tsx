// SPDX-License-Identifier: Apache-2.0
// Approvals: what waits for a person at the left, and at the right one request with its votes, as they come.
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiError, path, post } from '../../api';
import { useDraft } from '../../drafts';
import { useApi, usePages } from '../../hooks';
import { attempt, Button, Card, Confirm, Empty, ErrorState, Facts, Form, Id, Input, Loading, Notice, Page, Select, Status, Table, TextArea, Time, Untrusted, type Column } from '../../parts';
import { approvalPath } from '../../places';
import { Link, navigate, setQuery } from '../../router';
import { isAdmin, may, session } from '../../session';
import { useStore } from '../../store';
import { duration, visibleLines } from '../../text';
import { type Escalation, ownerName } from '../../types';
import type { ScreenProps } from '../registry';
import { RequestView, useWholeRequest } from './request';

const STATUSES = ['pending', 'approved', 'used', 'denied', 'expired', 'all'] as const;
const EVERY = 2;
const TIMES = [300, 900, 3600, 28_800, 86_400];  // seconds

/** Two tenants may have approvals of the same number. */
const keyOf = (row: Escalation): string => `${row.requester.tenant}/${row.id}`;

export default function Approvals({ params, query }: ScreenProps): JSX.Element {
  const id = params['id'] ?? null;
  const wanted = query.get('status') ?? 'pending';
  const status = (STATUSES as readonly string[]).includes(wanted) ? (wanted as (typeof STATUSES)[number]) : 'pending';
  const pages = usePages<Escalation>('/v1/escalations', 'escalations', { query: { status: status === 'all' ? undefined : status }, every: EVERY, id: keyOf });
  const everyTenant = isAdmin();
  const tenant = everyTenant ? query.get('tenant') : null;
  const current = id && pages.rows.find((row) => row.id === id && (!tenant || row.requester.tenant === tenant));
  const columns: Column<Escalation>[] = useMemo(() => [
    { key: 'id', title: 'Id', width: '116px', cell: (row) => <span class="mono">{row.id}</span> },
    { key: 'subject', title: 'What', width: 'minmax(140px, 3fr)', cell: (row) => <Untrusted value={row.subject || row.operation} cut={120} mono /> },
    ...(everyTenant ? [{ key: 'tenant', title: 'Tenant', width: 'minmax(70px, 1fr)', cell: (row: Escalation) => <Untrusted value={row.requester.tenant} cut={40} />, compare: (a: Escalation, b: Escalation) => a.requester.tenant.localeCompare(b.requester.tenant) }] : []),
    { key: 'who', title: 'Who asks', wide: true, cell: (row) => <Untrusted value={ownerName(row.requester)} cut={40} />, compare: (a, b) => ownerName(a.requester).localeCompare(ownerName(b.requester)) },
    { key: 'status', title: 'Status', width: '96px', cell: (row) => <Status value={row.status} /> },
    { key: 'votes', title: 'Votes', width: '56px', align: 'end', wide: true, cell: (row) => `${row.approvals}/${row.quorum}` },
    { key: 'at', title: 'Asked', width: '78px', align: 'end', cell: (row) => <Time at={row.created_at} relative />, compare: (a, b) => a.created_at.localeCompare(b.created_at) },
  ], [everyTenant]);
  const filter = { status: status === 'pending' ? undefined : status };
  const suffix = filter.status ? `?status=${filter.status}` : '';
  return (
    <Page title="Approvals" full>
      <div class={`panes ${id ? 'open' : 'closed'}`}>
        <Table
          label="Approvals" rows={pages.rows} columns={columns} id={keyOf} to={(row) => approvalPath(row.id, everyTenant ? row.requester.tenant : null, filter)} current={current ? keyOf(current) : null}
          filterText={(row) => `${row.id} ${everyTenant ? row.requester.tenant : ''} ${row.subject} ${row.operation} ${row.reason} ${ownerName(row.requester)}`}
          tools={<Select label="Status" value={status} options={STATUSES} onChange={(value) => setQuery({ status: value === 'pending' ? undefined : value })} />}
          loading={pages.loading} error={pages.error} retry={pages.reload} more={pages.more} onEnd={pages.loadMore}
          empty={status === 'pending'
            ? <Empty title="Nobody waits for a decision.">A run that a rule stops appears here at once. Rules are under Policy.</Empty>
            : <Empty title={`No approval is ${status}.`}>Choose another status to see others.</Empty>}
        />
        {id && <section class="pane" aria-label={`Approval ${id}`}><Detail key={`${tenant ?? ''}/${id}`} id={id} tenant={tenant} back={`approvals${suffix}`} onDecided={pages.reload} /></section>}
      </div>
    </Page>
  );
}

function Detail({ id, tenant, back, onDecided }: { id: string; tenant: string | null; back: string; onDecided(): void }): JSX.Element {
  const reading = useApi<Escalation>(path`/v1/escalations/${id}`, { query: { tenant }, every: EVERY });
  useEffect(() => {
    const close = (event: KeyboardEvent): void => {
      if (event.key === 'Escape' && !document.querySelector('dialog[open]') && !(event.target instanceof HTMLTextAreaElement)) navigate(back);
    };
    addEventListener('keydown', close);
    return () => removeEventListener('keydown', close);
  }, [back]);
  const escalation = reading.data;
  const of = tenant ?? (isAdmin() && escalation ? escalation.requester.tenant : null);
  const request = useWholeRequest(escalation, of);
  if (!escalation) {
    if (reading.error instanceof ApiError && reading.error.status === 409 && reading.error.field === 'query.tenant') return <WhichTenant id={id} />;
    return reading.error ? <ErrorState error={reading.error} retry={reading.reload} /> : <Loading what={id} />;
  }
  const decided = (next: Escalation): void => {
    reading.set({ ...next, ...(escalation.similar === undefined ? {} : { similar: escalation.similar }) });
    onDecided();
  };
  return (
    <div class="stack">
      <div class="row">
        <h2 class="pane-title"><Id value={escalation.id} /></h2>
        {isAdmin() && <span class="soft">tenant <Untrusted value={escalation.requester.tenant} cut={60} /></span>}
        <Status value={escalation.status} />
        <span class="grow" />
        <Button small kind="quiet" onClick={() => navigate(back)} label="Close the detail">Close</Button>
      </div>
      {reading.error ? <ErrorState error={reading.error} retry={reading.reload} /> : null}
      <Notice tone="warn" title="Why it was stopped"><p><Untrusted value={escalation.reason} /></p>{escalation.rule && <p class="soft">Rule <code>{escalation.rule}</code></p>}</Notice>
      <Outcome escalation={escalation} tenant={of} onDecided={decided} />
      <RequestView escalation={escalation} tenant={of} reading={request} />
      {escalation.lifts.length > 0 && (
        <Card title="What the approval would allow, once">
          <ul class="plain-list">{escalation.lifts.map((lift) => <li key={`${lift.operation} ${lift.target}`}>{lift.operation} <Untrusted value={lift.target} mono /></li>)}</ul>
        </Card>
      )}
      {/* Below the request and its risks: a decision comes after reading. */}
      <Decide escalation={escalation} tenant={of} readable={request.whole.data !== null} gone={request.whole.error instanceof ApiError && request.whole.error.status === 404} stale={reading.error !== null} onDecided={decided} />
      <Votes escalation={escalation} />
      <Card title="About this request">
        <Facts rows={[
          ['Asked by', <Untrusted key="1" value={[escalation.requester.user, escalation.requester.agent, escalation.requester.app, escalation.requester.tenant].filter(Boolean).join(', ')} />],
          ['Operation', escalation.operation],
          ['Execution', escalation.execution_id ? <Id value={escalation.execution_id} to={`executions/${escalation.execution_id}`} /> : '–'],
          ['Session', escalation.session_id ? <Id value={escalation.session_id} to={`sessions/${escalation.session_id}`} /> : '–'],
          ['Waiting for it', String(escalation.waiting)],
          ['Asked', <Time key="2" at={escalation.created_at} />],
          ['Decide until', <Time key="3" at={escalation.expires_at} />],
          ...(escalation.grant_expires_at ? [['Approval lasts until', <Time key="4" at={escalation.grant_expires_at} />] as [string, JSX.Element]] : []),
        ]} />
        <details><summary>As the requester was shown it</summary><pre class="code">{visibleLines(escalation.display)}</pre></details>
      </Card>
    </div>
  );
}

/** Asked for by its number alone, which several tenants have. */
function WhichTenant({ id }: { id: string }): JSX.Element {
  const [name, setName] = useState('');
  return (
    <Notice tone="warn" title={`Several tenants have an approval ${id}.`}>
      <p>Choose it in the list, or name its tenant.</p>
      <Form onSubmit={() => setQuery({ tenant: name.trim() })}>
        <Input label="Tenant" value={name} onInput={setName} maxLength={128} required autoFocus />
        <div><Button type="submit" disabled={name.trim() === ''}>Open</Button></div>
      </Form>
    </Notice>
  );
}

function Votes({ escalation }: { escalation: Escalation }): JSX.Element {
  const missing = Math.max(0, escalation.quorum - escalation.approvals);
  return (
    <Card title="Votes" actions={<span class="soft">{escalation.approvals} of {escalation.quorum}{escalation.required_roles.length ? ` by ${escalation.required_roles.join(' or ')}` : ''}</span>}>
      <div aria-live="polite">
        {escalation.decisions.length === 0
          ? <p class="soft">No vote yet.</p>
          : (
            <ul class="lines">
              {escalation.decisions.map((one, index) => (
                <li key={index}>
                  <span class="row"><Status value={one.decision === 'approve' ? 'approved' : 'denied'} /> <Untrusted value={one.automatic ? 'the service' : one.principal.user || one.principal.agent || one.credential || ownerName(one.principal)} /> <Time at={one.at} relative />{one.revoked && <Status value="revoked" title="The credential was revoked: the vote does not count." />}</span>
                  {one.reason && <span class="soft"><Untrusted value={one.reason} /></span>}
                </li>
              ))}
            </ul>
          )}
        {escalation.status === 'pending' && escalation.decisions.length > 0 && missing > 0 && <p class="soft">{missing} more {missing === 1 ? 'vote is' : 'votes are'} needed.</p>}
      </div>
    </Card>
  );
}

/** Why this person cannot vote, or null. The service decides; this only spares a refusal. */
export function whyNot(escalation: Escalation, principal: { user: string; agent: string; tenant: string; roles: string[] }, admin: boolean): string | null {
  if (!admin && escalation.required_roles.length > 0 && !escalation.required_roles.some((role) => principal.roles.includes(role))) {
    return `A vote needs the role ${escalation.required_roles.join(' or ')}.`;
  }
  const same = (other: { user: string; agent: string; tenant: string }): boolean =>
    other.tenant === principal.tenant && other.user === principal.user && other.agent === principal.agent;
  if (same(escalation.requester)) return 'You asked for it: another person has to decide.';
  if (escalation.status === 'pending' && escalation.decisions.some((one) => !one.revoked && !one.automatic && one.decision === 'approve' && same(one.principal))) {
    return 'You have approved. Another person has to vote as well.';
  }
  return null;
}

interface DecideProps {
  escalation: Escalation;
  tenant: string | null;
  onDecided(next: Escalation): void;
}

/** How the request ended, or that it may run: what is known before the request is read. */
function Outcome({ escalation, tenant, onDecided }: DecideProps): JSX.Element | null {
  const state = useStore(session);
  const [taking, setTaking] = useState(false);
  if (state.state !== 'in') return null;
  if (escalation.status === 'used') {
    const { execution_id: execution, session_id: session } = escalation;
    return (
      <Notice tone="good" title="Approved, and started.">
        {execution ? <p><Link to={`executions/${execution}`}>Look at the execution</Link></p> : session && <p><Link to={`sessions/${session}`}>Look at the session</Link></p>}
      </Notice>
    );
  }
  if (escalation.status === 'denied' || escalation.status === 'expired') {
    return (
      <Notice tone="bad" title={escalation.status === 'denied' ? 'Denied: nothing runs under it.' : escalation.ended_reason ? 'Withdrawn: nothing runs under it.' : 'Expired: nothing runs under it.'}>
        {escalation.ended_reason && <p><Untrusted value={escalation.ended_reason} /></p>}
        <p>The requester may ask again.{escalation.execution_id && <> <Link to={`executions/${escalation.execution_id}`}>Look at the execution</Link></>}</p>
      </Notice>
    );
  }
  if (escalation.status !== 'approved' || !may('escalation.decide') || whyNot(escalation, state.principal, isAdmin())) return null;
  return (
    <Notice tone="good" title="Approved, not used yet.">
      <p>The approval lasts until <Time at={escalation.grant_expires_at} />.</p>
      <Button kind="danger" onClick={() => setTaking(true)}>Take it back…</Button>
      {taking && (
        <Confirm title="Take the approval back?" action="Take back" onClose={() => setTaking(false)} onConfirm={async () => onDecided(await post<Escalation>(`${path`/v1/escalations/${escalation.id}`}:deny`, { reason: 'taken back' }, { query: { tenant } }))}>
          <p>Nothing will run under {escalation.id} any more.</p>
        </Confirm>
      )}
    </Notice>
  );
}

interface ReadyProps extends DecideProps {
  /** The whole request is in sight. */
  readable: boolean;
  /** The service does not keep the whole request any more. */
  gone: boolean;
  /** The present state could not be read. */
  stale: boolean;
}

function Decide({ escalation, tenant, readable, gone, stale, onDecided }: ReadyProps): JSX.Element | null {
  const state = useStore(session);
  const [reason, setReason] = useDraft(`reason ${tenant ?? ''}`, '');
  const [missing, setMissing] = useState<string | null>(null);
  const [lasts, setLasts] = useState('');
  if (state.state !== 'in' || escalation.status !== 'pending') return null;
  if (!may('escalation.decide')) return <Notice><p>Your roles see approvals, and do not decide them.</p></Notice>;
  const barred = whyNot(escalation, state.principal, isAdmin());
  const refusal = barred ?? (readable ? null : 'Nobody can read the whole request any more, so the page approves nothing.');
  const send = (decision: 'approve' | 'deny'): Promise<unknown> => {
    if (decision === 'deny' && reason.trim() === '') {
      setMissing('Say why: the requester reads it.');
      return Promise.resolve();
    }
    setMissing(null);
    return attempt(async () => {
      const next = await post<Escalation>(`${path`/v1/escalations/${escalation.id}`}:${decision}`, {
        ...(reason.trim() ? { reason: reason.trim() } : {}), ...(decision === 'approve' && lasts ? { grant_seconds: Number(lasts) } : {}),
      }, { query: { tenant } });
      setReason('');
      onDecided(next);
    }, decision === 'approve' ? 'Your approval is recorded.' : 'The denial is recorded.', { reason: 'Reason', grant_seconds: 'An approval is good for' });
  };
  if (barred && !barred.startsWith('You have approved')) return <Notice><p>{barred}</p></Notice>;
  if (!readable && !gone) return <Notice><p>You can decide once the whole request is shown above.</p></Notice>;
  if (stale) return <Notice tone="warn"><p>You can decide once the present state is read again.</p></Notice>;
  return (
    <Card title="Your decision">
      <div class="form">
        {refusal && <p class="soft">{refusal} You may still deny.</p>}
        <TextArea label="Reason" rows={2} value={reason} onInput={setReason} maxLength={2000} error={missing} hint="Needed to deny. It is recorded, and the requester reads it." />
        {!refusal && (
          <Select label="An approval is good for" value={lasts} onChange={setLasts}
            options={[{ value: '', label: duration(escalation.grant_seconds * 1000) }, ...TIMES.filter((time) => time < escalation.grant_seconds).map((time) => ({ value: String(time), label: duration(time * 1000) }))]} />
        )}
        <div class="row">
          {!refusal && <Button kind="primary" onClick={() => send('approve')}>Approve once</Button>}
          <Button kind="danger" onClick={() => send('deny')}>Deny</Button>
          <span class="hint">The approval is for exactly this request, for one use.</span>
        </div>
      </div>
    </Card>
  );
}
