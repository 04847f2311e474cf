// SPDX-License-Identifier: Apache-2.0
// The runtime that sandboxes of the agent get (PUT /v1/agents/{agent}/runtime).
import { useState } from 'preact/hooks';
import { api, ApiError, ErrorBox, Field, Loading, may, toast, useAction, useLoad } from '../kit';

interface AgentRuntime {
  runtime: string | null;
  kernel: string | null;
  memory_mb: number | null;
  vcpus: number | null;
}

const NONE: AgentRuntime = { runtime: null, kernel: null, memory_mb: null, vcpus: null };
const RUNTIMES: [string, string][] = [
  ['', 'by policy'], ['process', 'process: namespaces and seccomp'], ['gvisor', 'gvisor: a kernel in user space'], ['microvm', 'microvm: a virtual machine'],
];

export function RuntimeForm({ tenant, agent }: { tenant: string; agent: string }) {
  const route = `/v1/agents/${encodeURIComponent(agent)}/runtime?tenant=${encodeURIComponent(tenant)}`;
  const loaded = useLoad(async (): Promise<AgentRuntime> => {
    try {
      return await api.get<AgentRuntime>(route);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return NONE;
      throw error;
    }
  }, [route]);
  if (loaded.error) return <ErrorBox error={loaded.error} onRetry={loaded.reload} />;
  if (!loaded.data) return <Loading what="the runtime" />;
  return <Form route={route} set={loaded.data} onChanged={loaded.reload} />;
}

function Form({ route, set, onChanged }: { route: string; set: AgentRuntime; onChanged(): void }) {
  const [draft, setDraft] = useState(set);
  const acting = useAction();
  const number = (text: string): number | null => (text.trim() === '' ? null : Number(text));
  const locked = !may('agent.manage');
  const save = (event: Event): void => {
    event.preventDefault();
    void acting.run(async () => {
      const { runtime, memory_mb, vcpus } = draft;
      if (runtime === null) await api.del(route);
      else await api.put(route, { runtime, ...(runtime === 'microvm' ? { memory_mb, vcpus } : {}) });
      toast('The next sandboxes of the agent use this runtime.');
      onChanged();
    });
  };
  return (
    <form class="stack panel" onSubmit={save}>
      <p>A stronger runtime than policy asks for is used. A weaker one is refused at the request.</p>
      <Field label="Runtime">
        <select disabled={locked} value={draft.runtime ?? ''} onChange={(event) => setDraft({ ...draft, runtime: event.currentTarget.value || null })}>
          {RUNTIMES.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
        </select>
      </Field>
      {draft.runtime === 'microvm' && (
        <div class="row">
          <Field label="Memory, MiB"><input type="number" min={1} disabled={locked} value={draft.memory_mb ?? ''} onInput={(event) => setDraft({ ...draft, memory_mb: number(event.currentTarget.value) })} /></Field>
          <Field label="Processors"><input type="number" min={0.1} step={0.1} disabled={locked} value={draft.vcpus ?? ''} onInput={(event) => setDraft({ ...draft, vcpus: number(event.currentTarget.value) })} /></Field>
        </div>
      )}
      {!locked && <div><button class="button primary" disabled={acting.busy}>Save the runtime</button></div>}
      {acting.error ? <ErrorBox error={acting.error} labels={{ runtime: 'Runtime', memory_mb: 'Memory, MiB', vcpus: 'Processors' }} /> : null}
    </form>
  );
}
