// SPDX-License-Identifier: Apache-2.0
// MCP servers that run in sandboxes, and the tools of the registry.
import { useState } from 'preact/hooks';
import { useDraft } from '../../drafts';
import { api, Badge, ConfirmTyped, Dialog, Empty, ErrorBox, Field, IdLink, Loading, may, Page, Table, Time, toast, Untrusted, useAction, useLoad } from '../kit';

interface Server {
  id: string;
  name: string;
  command: string[];
  agent: string;
  created_at: string;
  status: 'stopped' | 'starting' | 'running';
  session_id: string | null;
  starts: number;
  error: string | null;
  tools: string[];
}

interface Tool {
  id: string;
  title: string;
  why: string;
  capabilities: string[];
  network: string;
  risk: 'low' | 'medium' | 'high';
  tier: string;
  arguments: unknown;
}

const RISKS = { low: 'ok', medium: 'warn', high: 'bad' } as const;

export function Servers() {
  return <Page title="Servers and tools"><div class="stack"><McpServers />{may('execution.run') && <Tools />}</div></Page>;
}

function McpServers() {
  const list = useLoad<{ mcp_servers: Server[] }>('/v1/mcp-servers', []);
  const [chosen, setChosen] = useState<Server | null>(null);
  const [deletes, setDeletes] = useState<Server | null>(null);
  const [adds, setAdds] = useDraft('new server', false);
  const uses = may('session.use');
  const remove = async (): Promise<void> => {
    await api.del(`/v1/mcp-servers/${encodeURIComponent(deletes!.name)}`);
    toast(`The server ${deletes!.name} is removed.`);
    setDeletes(null);
    list.reload();
  };
  return (
    <section class="stack" aria-labelledby="mcp-servers">
      <div class="row spread"><h2 id="mcp-servers">MCP servers</h2>{uses && <button class="button" onClick={() => setAdds(true)}>Add a server…</button>}</div>
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the servers" />}
      {list.data?.mcp_servers.length === 0 && <Empty title="No server is registered.">{uses ? 'Add one: its tools appear at /mcp.' : 'An agent registers servers.'}</Empty>}
      {list.data && list.data.mcp_servers.length > 0 && (
        <Table label="MCP servers" rows={list.data.mcp_servers} keyOf={(row) => row.id} onOpen={setChosen}
          columns={[
            { id: 'name', title: 'Name', text: (row) => row.name },
            { id: 'command', wide: true, title: 'Command', text: (row) => row.command.join(' '), width: '2fr', cell: (row) => <Untrusted value={row.command.join(' ')} mono cut={200} /> },
            { id: 'agent', wide: true, title: 'Agent', text: (row) => row.agent || 'every agent' },
            { id: 'status', title: 'Status', text: (row) => row.status, cell: (row) => <Badge tone={row.error ? 'bad' : row.status === 'running' ? 'ok' : 'neutral'}>{row.status}</Badge> },
            { id: 'tools', title: 'Tools', text: (row) => String(row.tools.length) },
          ]} />
      )}
      {chosen && (
        <Dialog title={chosen.name} onClose={() => setChosen(null)} actions={uses ? <button class="button danger" onClick={() => { setDeletes(chosen); setChosen(null); }}>Remove…</button> : undefined}>
          {chosen.error && <p class="bad"><Untrusted value={chosen.error} /></p>}
          <dl class="pairs">
            <dt>Command</dt><dd><Untrusted value={chosen.command.join(' ')} mono /></dd>
            <dt>Registered</dt><dd><Time at={chosen.created_at} /></dd>
            {chosen.session_id && <><dt>Session</dt><dd><IdLink id={chosen.session_id} /></dd></>}
            <dt>Starts</dt><dd>{chosen.starts}</dd>
            <dt>Tools</dt><dd><Untrusted value={chosen.tools.join(', ') || 'not known yet'} /></dd>
          </dl>
        </Dialog>
      )}
      {deletes && (
        <ConfirmTyped title={`Remove the server ${deletes.name}`} expect={deletes.name} verb="Remove" onConfirm={remove} onClose={() => setDeletes(null)}>
          <p>Its sandboxes end, and its tools disappear.</p>
        </ConfirmTyped>
      )}
      {adds && <Add onClose={() => setAdds(false)} onAdded={() => { setAdds(false); list.reload(); }} />}
    </section>
  );
}

function Add({ onClose, onAdded }: { onClose(): void; onAdded(): void }) {
  const [name, setName] = useDraft('server name', '');
  const [command, setCommand] = useDraft('server command', '');
  const acting = useAction();
  const add = (event: Event): void => {
    event.preventDefault();
    void acting.run(async () => {
      const made = await api.post<Server>('/v1/mcp-servers', { name, command: command.split('\n').map((each) => each.trim()).filter(Boolean) });
      toast(made.error ? `The server is registered, but does not run: ${made.error}` : `The server ${made.name} is registered.`);
      onAdded();
    });
  };
  return (
    <Dialog title="Add an MCP server" onClose={onClose} actions={<>
      <button class="button" onClick={onClose}>Cancel</button><button class="button primary" form="add-server" disabled={acting.busy}>Add</button>
    </>}>
      <form id="add-server" class="stack" onSubmit={add}>
        <Field label="Name" hint="The first part of the names of its tools."><input required pattern="[a-z][a-z0-9\-]{0,31}" value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>
        <Field label="Command" hint="The program, then each argument in a line of its own."><textarea class="mono" required rows={4} spellcheck={false} value={command} onInput={(event) => setCommand(event.currentTarget.value)} /></Field>
        {acting.error ? <ErrorBox error={acting.error} labels={{ name: 'Name', command: 'Command' }} /> : null}
      </form>
    </Dialog>
  );
}

function Tools() {
  const list = useLoad<{ tools: Tool[] }>('/v1/capabilities', []);
  const [chosen, setChosen] = useState<Tool | null>(null);
  return (
    <section class="stack" aria-labelledby="tools">
      <h2 id="tools">Tools</h2>
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the tools" />}
      {list.data && (
        <Table label="Tools" rows={list.data.tools} keyOf={(row) => row.id} onOpen={setChosen}
          columns={[
            { id: 'id', title: 'Tool', text: (row) => row.id },
            { id: 'title', wide: true, title: 'Title', text: (row) => row.title, width: '2fr' },
            { id: 'risk', title: 'Risk', text: (row) => row.risk, cell: (row) => <Badge tone={RISKS[row.risk] ?? 'neutral'}>{row.risk}</Badge> },
            { id: 'tier', title: 'Lowest tier', text: (row) => row.tier },
            { id: 'network', wide: true, title: 'Network', text: (row) => row.network },
            { id: 'needs', wide: true, title: 'Needs', text: (row) => row.capabilities.join(', '), width: '2fr' },
          ]} />
      )}
      {chosen && (
        <Dialog title={chosen.id} wide onClose={() => setChosen(null)}>
          <p>{chosen.why}</p>
          <pre class="document" tabIndex={0} aria-label="Schema of the arguments">{JSON.stringify(chosen.arguments, null, 2)}</pre>
        </Dialog>
      )}
    </section>
  );
}
