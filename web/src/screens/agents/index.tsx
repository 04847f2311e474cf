// SPDX-License-Identifier: Apache-2.0
// Agents with sandboxes of their own: the list, and the way to a new one.
import '../governance.css';
import { useState } from 'preact/hooks';
import { useDraft } from '../../drafts';
import { api, Badge, Dialog, Empty, ErrorBox, Field, go, isAdmin, Loading, may, Page, Table, Time, toast, Untrusted, useAction, useLoad } from '../kit';
import type { ScreenProps } from '../registry';
import { AgentDetail } from './detail';
import { Trial } from './trial';
import type { AgentDryRun, AgentSandbox } from './types';

interface Health {
  ok: boolean;
  levels: string[];
  broken: { agent: string; tenant: string; problem: string }[];
}

export function agentPath(tenant: string, agent: string): string {
  return `agents/${encodeURIComponent(tenant)}/${encodeURIComponent(agent)}`;
}

export function AgentsPage({ params }: ScreenProps) {
  const { tenant, agent } = params;
  return tenant && agent ? <AgentDetail key={`${tenant}/${agent}`} tenant={tenant} agent={agent} /> : <AgentList />;
}

/** All agents, page by page; the route gives at most 1000 in one. */
async function loadAgents(): Promise<AgentSandbox[]> {
  return await api.all<AgentSandbox>('/v1/agents?limit=500', 'agents', 10_000);
}

function AgentList() {
  const list = useLoad(loadAgents, []);
  const health = useLoad<Health>('/v1/agents:health', []);
  const [makes, setMakes] = useDraft('new sandbox', false);
  const actions = may('agent.manage') ? <button class="button primary" onClick={() => setMakes(true)}>New sandbox…</button> : undefined;
  return (
    <Page full title="Agents" subtitle="What each agent may do, and what it was refused" actions={actions}>
      {health.data?.broken.map((each) => (
        <p key={`${each.tenant}/${each.agent}`} class="bad" role="alert">The rules of <Untrusted value={each.agent} /> in <Untrusted value={each.tenant} /> cannot be used: <Untrusted value={each.problem} />. All its requests are refused until the rules are changed.</p>
      ))}
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the agents" />}
      {list.data && (
        <Table fill empty={
          <Empty title="No agent has a sandbox of its own.">
            {may('agent.manage') ? 'Make one: its level then bounds all requests of the agent.' : 'A tenant administrator makes them.'}
          </Empty>} label="Agents" rows={list.data} keyOf={(row) => `${row.tenant}/${row.agent}`} onOpen={(row) => go(agentPath(row.tenant, row.agent))}
          columns={[
            { id: 'agent', title: 'Agent', text: (row) => row.agent, width: '2fr' },
            { id: 'tenant', title: 'Tenant', text: (row) => row.tenant },
            { id: 'level', title: 'Level', text: (row) => row.level, cell: (row) => <Badge tone={row.level === 'unrestricted' ? 'warn' : 'neutral'}>{row.level}</Badge> },
            { id: 'own', wide: true, title: 'Own rules', text: (row) => String(ownRules(row)) },
            { id: 'changed', width: '150px', wide: true, title: 'Changed', text: (row) => row.last_modified, cell: (row) => <Time at={row.last_modified} /> },
          ]} />
      )}
      {makes && <NewSandbox levels={health.data?.levels ?? []} onClose={() => setMakes(false)} />}
    </Page>
  );
}

function ownRules(row: AgentSandbox): number {
  return row.allowed_commands.length + row.forbidden_commands.length + row.forbidden_paths.length + row.granted_operations.length +
    row.revoked_operations.length + Object.values(row.limits).filter((each) => each !== null).length;
}

function NewSandbox({ levels, onClose }: { levels: string[]; onClose(): void }) {
  const [agent, setAgent] = useDraft('sandbox agent', '');
  const [tenant, setTenant] = useDraft('sandbox tenant', '');
  const [level, setLevel] = useDraft('sandbox level', 'restricted');
  const [trial, setTrial] = useState<{ of: string; answer: AgentDryRun } | null>(null);
  const making = useAction();
  const wanted = JSON.stringify([tenant, agent, level]);
  const tried = trial?.of === wanted ? trial.answer : null;
  // The first press tries the level on stored requests of the agent, and the second one makes the sandbox.
  const make = (event: Event): void => {
    event.preventDefault();
    void making.run(async () => {
      const query = tenant ? `?tenant=${encodeURIComponent(tenant)}` : '';
      const place = `/v1/agents/${encodeURIComponent(agent)}/sandbox`;
      if (!tried) {
        const answer = await api.post<AgentDryRun>(`${place}:dry-run${query}`, { level });
        setTrial({ of: wanted, answer });
        return;
      }
      const made = await api.post<AgentSandbox>(`${place}${query}`, { level });
      toast(`The agent ${made.agent} has the level ${made.level}.`);
      go(agentPath(made.tenant, made.agent));
    });
  };
  return (
    <Dialog title="New sandbox of an agent" wide onClose={onClose} actions={<>
      <button class="button" onClick={onClose}>Cancel</button>
      <button class="button primary" form="new-sandbox" disabled={making.busy}>{tried ? 'Make it' : 'Try it'}</button>
    </>}>
      <form id="new-sandbox" class="stack" onSubmit={make}>
        <Field label="Agent" hint="The name on its key."><input required maxLength={128} value={agent} onInput={(event) => setAgent(event.currentTarget.value)} /></Field>
        {isAdmin() && <Field label="Tenant" hint="Empty: your own."><input maxLength={128} value={tenant} onInput={(event) => setTenant(event.currentTarget.value)} /></Field>}
        <Field label="Level"><select value={level} onChange={(event) => setLevel(event.currentTarget.value)}>{levels.map((each) => <option key={each}>{each}</option>)}</select></Field>
        {tried ? <Trial answer={tried} /> : <p class="muted">The page first shows which stored requests of the agent would be decided otherwise.</p>}
        {making.error ? <ErrorBox error={making.error} labels={{ 'url.agent': 'Agent', 'query.tenant': 'Tenant', level: 'Level' }} /> : null}
      </form>
    </Dialog>
  );
}
