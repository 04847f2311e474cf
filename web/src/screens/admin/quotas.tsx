// SPDX-License-Identifier: Apache-2.0
// Quotas of tenants and of agents, against their use.
import { useState } from 'preact/hooks';
import { api, ConfirmTyped, Dialog, Empty, ErrorBox, Field, Gauge, Loading, may, Page, Table, toast, typable, Untrusted, useAction, useLoad } from '../kit';

const MEMBERS = [
  ['concurrent', 'Runs at once', '', 'Further runs wait.', 'Runs'],
  ['sessions', 'Sessions at once', '', 'Further sessions are refused.', 'Sessions'],
  ['runs_per_minute', 'Runs per minute', '', 'Programs of sessions and cells count.', 'Runs/min'],
  ['cpu_seconds_per_hour', 'Processor per hour', 's', 'Of the hour of the clock.', 'Processor, s/h'],
  ['memory_mb', 'Memory of running work', 'MiB', 'Runs wait, sessions are refused.', 'Memory, MiB'],
  ['storage_mb', 'Artifacts and snapshots', 'MiB', 'Of the tenant.', 'Stored, MiB'],
] as const;
const labelOf = (label: string, unit: string): string => (unit ? `${label}, ${unit}` : label);
const LABELS = Object.fromEntries(MEMBERS.map(([member, label, unit]) => [member, labelOf(label, unit)]));
type Member = (typeof MEMBERS)[number][0];
type Quota = Record<Member, number | null>;

interface QuotaState {
  tenant: string;
  agent: string | null;
  own: Quota;
  effective: Quota;
  use: Record<Exclude<Member, 'storage_mb'>, number>;
}

function text(state: QuotaState, member: Member): string {
  const used = member === 'storage_mb' ? null : state.use[member];
  const most = state.effective[member];
  const limit = most === null ? '(no limit)' : `of ${most}`;
  return used === null ? limit : `${used} ${limit}`;
}

function mayChange(state: QuotaState): boolean {
  return state.agent === null ? may('quota.grant') : may('quota.manage');
}

export function Quotas() {
  const list = useLoad<{ quotas: QuotaState[] }>('/v1/quotas', []);
  const [chosen, setChosen] = useState<QuotaState | null>(null);
  const [names, setNames] = useState(false);
  const [erases, setErases] = useState<string | null>(null);
  const erase = async (): Promise<void> => {
    const answer = await api.del<{ artifacts: number }>(`/v1/tenants/${encodeURIComponent(erases ?? '')}/artifacts`);
    toast(`${answer.artifacts} artifacts of ${erases} are destroyed.`);
    setErases(null);
  };
  return (
    <Page title="Tenants and quotas" full actions={may('quota.grant') ? <button class="button" onClick={() => setNames(true)}>Quota of another tenant or agent…</button> : undefined}>
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the quotas" />}
      {list.data && <Table fill empty={<Empty title="No tenant has used anything yet.">A tenant appears with its first request, or with its first quota.</Empty>} label="Quotas" rows={list.data.quotas} keyOf={(row) => `${row.tenant}/${row.agent ?? ''}`} onOpen={setChosen}
            columns={[
              { id: 'tenant', title: 'Tenant', text: (row) => row.tenant },
              { id: 'agent', title: 'Agent', text: (row) => row.agent ?? '', cell: (row) => row.agent !== null ? <Untrusted value={row.agent} /> : <span class="muted">whole tenant</span> },
              ...MEMBERS.map(([member, , , , title]) => ({ id: member, title, text: (row: QuotaState) => text(row, member), wide: member !== 'concurrent' })),
            ]} />}
      {chosen && (
        <Dialog title={chosen.agent ? `Quota of ${chosen.agent} in ${chosen.tenant}` : `Quota of the tenant ${chosen.tenant}`} onClose={() => setChosen(null)}>
          <QuotaEdit state={chosen} onChanged={() => { setChosen(null); list.reload(); }} />
          {chosen.agent === null && may('tenant.erase') && (
            <button class="button danger" onClick={() => { setErases(chosen.tenant); setChosen(null); }}>Destroy all artifacts of the tenant…</button>
          )}
        </Dialog>
      )}
      {names && <Named onClose={() => setNames(false)} onChanged={() => { setNames(false); list.reload(); }} />}
      {erases && (
        <ConfirmTyped title={`Destroy all artifacts of ${erases}`} expect={typable(erases, 'destroy')} verb="Destroy" onConfirm={erase} onClose={() => setErases(null)}>
          <p>The key of the tenant's artifacts is destroyed. Nobody can read them again, not even from a copy of the disk.</p>
        </ConfirmTyped>
      )}
    </Page>
  );
}

const NONE = Object.fromEntries(MEMBERS.map(([member]) => [member, null])) as Quota;

function Named({ onClose, onChanged }: { onClose(): void; onChanged(): void }) {
  const [tenant, setTenant] = useState('');
  const [agent, setAgent] = useState('');
  const [named, setNamed] = useState<{ tenant: string; agent: string } | null>(null);
  const show = (event: Event): void => {
    event.preventDefault();
    setNamed({ tenant: tenant.trim(), agent: agent.trim() });
  };
  return (
    <Dialog title="Quota of another tenant or agent" onClose={onClose}>
      <form class="stack" onSubmit={show}>
        <Field label="Tenant"><input required maxLength={128} value={tenant} onInput={(event) => { setTenant(event.currentTarget.value); setNamed(null); }} /></Field>
        <Field label="Agent" hint="Empty: the whole tenant."><input maxLength={128} value={agent} onInput={(event) => { setAgent(event.currentTarget.value); setNamed(null); }} /></Field>
        {!named && <div><button class="button primary" disabled={tenant.trim() === ''}>Show its quota</button></div>}
      </form>
      {named && <InForce key={`${named.tenant}/${named.agent}`} {...named} onChanged={onChanged} />}
    </Dialog>
  );
}

/** Begins with the quota in force, since the service replaces all of it. */
function InForce({ tenant, agent, onChanged }: { tenant: string; agent: string; onChanged(): void }) {
  const loaded = useLoad(async (signal) => (await api.get<{ quotas: QuotaState[] }>('/v1/quotas', { query: { tenant, agent }, signal })).quotas, [tenant, agent]);
  if (loaded.error) return <ErrorBox error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.data) return <Loading what="the quota" />;
  const state = loaded.data.find((each) => (each.agent ?? '') === agent);
  return state ? <QuotaEdit state={state} onChanged={onChanged} /> : <p class="bad" role="alert">The service names no quota of {agent || tenant}.</p>;
}

function QuotaEdit({ state, onChanged }: { state: QuotaState; onChanged(): void }) {
  const [own, setOwn] = useState(state.own);
  const saving = useAction();
  const locked = !mayChange(state);
  const members = MEMBERS.filter(([member]) => state.agent === null || member !== 'storage_mb');
  const save = (event: Event): void => {
    event.preventDefault();
    void saving.run(async () => {
      const body = Object.fromEntries(members.map(([member]) => [member, own[member]]));
      const target = state.agent === null ? `/v1/quotas/tenants/${encodeURIComponent(state.tenant)}`
        : `/v1/quotas/agents/${encodeURIComponent(state.agent)}?tenant=${encodeURIComponent(state.tenant)}`;
      await api.put(target, body);
      toast('The quota applies from the next request.');
      onChanged();
    });
  };
  return (
    <form class="stack" onSubmit={save}>
      <div class="fields">
        {members.map(([member, label, unit, hint]) => (
          <Field key={member} label={labelOf(label, unit)} hint={hint}>
            <input type="number" min={1} max={1_000_000_000} disabled={locked} value={own[member] ?? ''} placeholder="no limit of its own"
              onInput={(event) => setOwn({ ...own, [member]: event.currentTarget.value === '' ? null : Number(event.currentTarget.value) })} />
          </Field>
        ))}
      </div>
      {!locked && <div><button class="button primary" disabled={saving.busy}>Set the quota</button></div>}
      {locked && <p class="muted">Your role reads this quota. An administrator changes it.</p>}
      {saving.error ? <ErrorBox error={saving.error} labels={LABELS} /> : null}
    </form>
  );
}

/** The quota of one agent, with its use; part of the agent's page. */
export function QuotaForm({ tenant, agent }: { tenant: string; agent: string }) {
  const loaded = useLoad<{ quotas: QuotaState[] }>(`/v1/quotas?tenant=${encodeURIComponent(tenant)}&agent=${encodeURIComponent(agent)}`, [tenant, agent]);
  if (loaded.error) return <ErrorBox error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.data) return <Loading what="the quota" />;
  const state = loaded.data.quotas.find((each) => each.agent === agent) ??
    { tenant, agent, own: NONE, effective: NONE, use: { concurrent: 0, sessions: 0, runs_per_minute: 0, cpu_seconds_per_hour: 0, memory_mb: 0 } };
  return (
    <section class="panel stack">
      <h2>Quota</h2>
      {MEMBERS.filter(([member]) => member !== 'storage_mb').map(([member, label, unit]) => (
        <Gauge key={member} label={label} unit={unit} used={state.use[member as 'concurrent']} limit={state.effective[member]} />
      ))}
      <QuotaEdit state={state} onChanged={loaded.reload} />
    </section>
  );
}
