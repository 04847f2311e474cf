// SPDX-License-Identifier: Apache-2.0
// One agent: its rules, what they come to with its level, its violations, its use, and its network.
import { useState } from 'preact/hooks';
import { api, ConfirmTyped, Empty, ErrorBox, Gauge, go, IdLink, Loading, may, Page, Table, Tabs, Time, toast, typable, Untrusted, useLoad } from '../kit';
import { QuotaForm } from '../admin/quotas';
import { Rules } from './rules';
import { RuntimeForm } from './runtime';
import type { AgentSandbox, AgentStats, AgentUsage, EffectiveRules, Violation } from './types';
import { LIMITS } from './types';

export function agentRoute(tenant: string, agent: string, rest: string): string {
  return `/v1/agents/${encodeURIComponent(agent)}/${rest}?tenant=${encodeURIComponent(tenant)}`;
}

export function AgentDetail({ tenant, agent }: { tenant: string; agent: string }) {
  const loaded = useLoad<AgentSandbox>(agentRoute(tenant, agent, 'sandbox'), [tenant, agent]);
  const [deletes, setDeletes] = useState(false);
  const title = `Agent ${agent}`;
  if (loaded.error) return <Page title={title}><ErrorBox error={loaded.error} onRetry={loaded.reload} /></Page>;
  if (!loaded.data) return <Page title={title}><Loading what="the agent's rules" /></Page>;
  const sandbox = loaded.data;
  const remove = async (): Promise<void> => {
    await api.del(agentRoute(tenant, agent, 'sandbox'));
    toast(`The sandbox of ${agent} is deleted.`);
    go('agents');
  };
  return (
    <Page title={title} up={{ to: 'agents', label: 'Agents' }} subtitle={`Tenant ${tenant}, level ${sandbox.level}${sandbox.effective ? `: ${sandbox.effective.description}` : ''}`}
      actions={may('agent.manage') ? <button class="button danger" onClick={() => setDeletes(true)}>Delete…</button> : undefined}>
      {sandbox.effective === null && <p class="bad" role="alert">These rules cannot be used, and all requests of the agent are refused. Choose another level, or remove the rule that names an unknown pattern.</p>}
      {sandbox.effective?.warnings.map((each, index) => <p key={index} class="warn"><Untrusted value={each} /></p>)}
      <Tabs label={title} tabs={[
        { id: 'rules', label: 'Rules', content: () => <Rules sandbox={sandbox} onChanged={loaded.reload} /> },
        { id: 'effective', label: 'In effect', content: () => sandbox.effective ? <Effective rules={sandbox.effective} /> : <Empty title="No rules are in effect." /> },
        { id: 'violations', label: `Violations (${sandbox.violation_count})`, content: () => <Violations tenant={tenant} agent={agent} /> },
        { id: 'usage', label: 'Use and quotas', content: () => <Usage tenant={tenant} agent={agent} /> },
        { id: 'runtime', label: 'Runtime', content: () => <RuntimeForm tenant={tenant} agent={agent} /> },
      ]} />
      {deletes && (
        <ConfirmTyped title={`Delete the sandbox of ${agent}`} expect={typable(agent, tenant)} verb="Delete" onConfirm={remove} onClose={() => setDeletes(false)}>
          <p>The default level then applies to the agent, or policy alone where there is no default level. Its violations stay in the log.</p>
        </ConfirmTyped>
      )}
    </Page>
  );
}

function Names({ title, names, none }: { title: string; names: { name: string; why?: string }[]; none: string }) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {names.length === 0 && <p class="muted">{none}</p>}
      <ul class="list">{names.map((each, index) => <li key={index}><Untrusted value={each.name} mono />{each.why && <span class="muted"> <Untrusted value={each.why} /></span>}</li>)}</ul>
    </section>
  );
}

const NETWORK_WORDS: Record<EffectiveRules['network_access'], string> = {
  denied: 'No network.', internal_only: "The operator's internal list, and no other destination.",
  allowed_with_monitoring: 'Each tier that policy grants. Each connection is recorded.', allowed: 'Each tier that policy grants.',
};

function Effective({ rules }: { rules: EffectiveRules }) {
  const plain = (names: string[]): { name: string }[] => names.map((name) => ({ name }));
  return (
    <div class="flow">
      <Names title="Allowed commands" names={plain(rules.allowed_commands)} none="No command." />
      <Names title="Forbidden commands" names={plain(rules.forbidden_commands)} none="None by name." />
      <Names title="Forbidden paths" names={rules.forbidden_paths.map((each) => ({ name: each.path, why: `${each.access === 'write' ? 'no write' : 'no access'}. ${each.why}` }))} none="None." />
      <Names title="Dangerous patterns" names={plain(rules.dangerous_patterns)} none="None." />
      <Names title="Restricted programs" names={rules.parameter_restrictions.map((each) => ({ name: each.command, why: each.why }))} none="None." />
      <Names title="File operations" names={plain(rules.file_operations)} none="None." />
      <section class="panel">
        <h2>Network</h2><p>{NETWORK_WORDS[rules.network_access] ?? rules.network_access}</p>
        <h2>Approvals</h2>
        <p>{rules.auto_approve_safe ? 'Safe operations are approved at once.' : 'No operation is approved at once.'} Without an answer: {rules.fallback_action}.</p>
        {rules.require_human_approval.length > 0 && <p>A person must approve: {rules.require_human_approval.join(', ')}.</p>}
      </section>
      <section class="panel">
        <h2>Limits</h2>
        <dl class="pairs">{LIMITS.map(([name, label, unit]) => <><dt key={`${name}t`}>{label}</dt><dd key={name}>{rules.limits[name] === null ? 'no limit' : `${rules.limits[name]} ${unit}`}</dd></>)}</dl>
      </section>
    </div>
  );
}

function Violations({ tenant, agent }: { tenant: string; agent: string }) {
  const list = useLoad(() => api.all<Violation>(`${agentRoute(tenant, agent, 'sandbox/violations')}&limit=500`, 'violations', 10_000), [tenant, agent]);
  if (list.error) return <ErrorBox error={list.error} onRetry={list.reload} />;
  if (!list.data) return <Loading what="the violations" />;
  if (list.data.length === 0) return <Empty title="The agent was refused nothing.">A refused command, path or destination appears here.</Empty>;
  return (
    <Table label="Violations" rows={list.data} keyOf={(row) => row.id}
      columns={[
        { id: 'at', width: '150px', title: 'Time', text: (row) => row.at, cell: (row) => <Time at={row.at} /> },
        { id: 'operation', wide: true, title: 'Operation', text: (row) => row.operation },
        { id: 'what', title: 'What', text: (row) => row.what, cell: (row) => <Untrusted value={row.what} mono cut={300} />, width: '2fr' },
        { id: 'reason', wide: true, title: 'Reason', text: (row) => row.reason, width: '3fr' },
        { id: 'subject', title: 'Where', text: (row) => row.subject ?? '', cell: (row) => row.subject ? <IdLink id={row.subject} tenant={tenant} /> : '' },
      ]} />
  );
}

function Usage({ tenant, agent }: { tenant: string; agent: string }) {
  const usage = useLoad<AgentUsage>(agentRoute(tenant, agent, 'sandbox/usage'), [tenant, agent]);
  const stats = useLoad<AgentStats>(agentRoute(tenant, agent, 'sandbox/stats'), [tenant, agent]);
  const error = usage.error ?? stats.error;
  if (error) return <ErrorBox error={error} onRetry={() => { usage.reload(); stats.reload(); }} />;
  if (!usage.data || !stats.data) return <Loading what="the use" />;
  const { running, memory_mb: memory, cpu_percent: cpu, time_seconds: time } = usage.data;
  return (
    <div class="panels">
      <section class="panel stack">
        <h2>Now, against the limits of the level</h2>
        <Gauge label="Runs and sessions" used={running.used} limit={running.limit} warning={running.warning} />
        <Gauge label="Memory" unit="MiB" used={memory.used} limit={memory.limit} warning={memory.warning} reserved={memory.reserved} />
        <Gauge label="Processor" unit="%" used={cpu.used} limit={cpu.limit} warning={cpu.warning} reserved={cpu.reserved} />
        <Gauge label="Longest run" unit="s" used={time.used} limit={time.limit} warning={time.warning} />
      </section>
      <section class="panel">
        <h2>So far</h2>
        <dl class="pairs">
          <dt>Executions</dt><dd>{stats.data.executions_total}</dd>
          {Object.entries(stats.data.executions).map(([status, count]) => <><dt key={`${status}t`}>{status}</dt><dd key={status}>{count}</dd></>)}
          <dt>Sessions</dt><dd>{stats.data.sessions}</dd>
          <dt>Violations</dt><dd>{stats.data.violations}{stats.data.last_violation_at && <>, last <Time at={stats.data.last_violation_at} /></>}</dd>
        </dl>
      </section>
      <QuotaForm tenant={tenant} agent={agent} />
    </div>
  );
}

