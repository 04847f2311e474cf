// SPDX-License-Identifier: Apache-2.0
// Names and versions of secrets. A value goes in, and never comes out.
import { useState } from 'preact/hooks';
import { instantOf, zoneName } from '../../zone';
import { api, ConfirmTyped, Dialog, Empty, ErrorBox, Field, IdLink, Loading, may, Page, Table, Time, toast, useAction, useLoad, useUtc } from '../kit';

interface Secret {
  name: string;
  version: number;
  created_at: string;
  updated_at: string;
  updated_by: string;
  expires_at: string | null;
  last_used_at: string | null;
}

const PAGE = 1000;
const MOST = 10_000;

async function loadSecrets(): Promise<Secret[]> {
  const all: Secret[] = [];
  for (let after = ''; all.length < MOST; ) {
    const page = await api.get<{ secrets: Secret[] }>('/v1/secrets', { query: { after } });
    all.push(...page.secrets);
    if (page.secrets.length < PAGE) break;
    after = page.secrets.at(-1)!.name;
  }
  return all;
}

export function Secrets() {
  const list = useLoad(loadSecrets, []);
  const [sets, setSets] = useState<string | null>(null);
  const [deletes, setDeletes] = useState<Secret | null>(null);
  const [chosen, setChosen] = useState<Secret | null>(null);
  const manages = may('secret.manage');
  const remove = async (): Promise<void> => {
    await api.del(`/v1/secrets/${encodeURIComponent(deletes!.name)}`);
    toast(`The secret ${deletes!.name} is deleted.`);
    setDeletes(null);
    list.reload();
  };
  return (
    <Page title="Secrets" full actions={manages ? <button class="button primary" onClick={() => setSets('')}>New secret…</button> : undefined}
      subtitle="Names and versions. Nobody reads a value.">
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the secrets" />}
      {list.data && (
        <Table fill empty={<Empty title="The tenant has no secret.">{manages ? 'Set one; a policy rule then grants it to programs by name.' : 'A tenant administrator sets them.'}</Empty>} label="Secrets" rows={list.data} keyOf={(row) => row.name} onOpen={setChosen}
          columns={[
            { id: 'name', title: 'Name', text: (row) => row.name, width: '2fr' },
            { id: 'version', title: 'Version', text: (row) => String(row.version) },
            { id: 'updated', width: '150px', title: 'Set', text: (row) => row.updated_at, cell: (row) => <Time at={row.updated_at} /> },
            { id: 'used', width: '150px', wide: true, title: 'Last use', text: (row) => row.last_used_at ?? '', cell: (row) => row.last_used_at ? <Time at={row.last_used_at} /> : <span class="muted">never</span> },
            { id: 'expires', width: '150px', wide: true, title: 'Expires', text: (row) => row.expires_at ?? '', cell: (row) => row.expires_at ? <Time at={row.expires_at} /> : <span class="muted">never</span> },
          ]} />
      )}
      {chosen && (
        <Dialog title={`Secret ${chosen.name}`} onClose={() => setChosen(null)} actions={manages ? <>
          <button class="button danger" onClick={() => { setDeletes(chosen); setChosen(null); }}>Delete…</button>
          <button class="button primary" onClick={() => { setSets(chosen.name); setChosen(null); }}>New value…</button>
        </> : undefined}>
          <dl class="pairs">
            <dt>Version</dt><dd>{chosen.version}</dd>
            <dt>Made</dt><dd><Time at={chosen.created_at} /></dd>
            <dt>Set</dt><dd><Time at={chosen.updated_at} /> by <IdLink id={chosen.updated_by} /></dd>
          </dl>
        </Dialog>
      )}
      {sets !== null && <SetSecret name={sets} onClose={() => setSets(null)} onSet={() => { setSets(null); list.reload(); }} />}
      {deletes && (
        <ConfirmTyped title={`Delete the secret ${deletes.name}`} expect={deletes.name} verb="Delete" onConfirm={remove} onClose={() => setDeletes(null)}>
          <p>Programs that start afterwards and ask for this secret are refused.</p>
        </ConfirmTyped>
      )}
    </Page>
  );
}

function SetSecret({ name, onClose, onSet }: { name: string; onClose(): void; onSet(): void }) {
  const [typed, setTyped] = useState(name);
  const [value, setValue] = useState('');
  const [expires, setExpires] = useState('');
  const utc = useUtc();
  const acting = useAction();
  const set = (event: Event): void => {
    event.preventDefault();
    void acting.run(async () => {
      const until = expires === '' ? null : instantOf(expires, utc);
      const made = await api.put<Secret>(`/v1/secrets/${encodeURIComponent(typed)}`, { value, expires_at: until });
      toast(`The secret ${made.name} has version ${made.version}.`);
      onSet();
    });
  };
  return (
    <Dialog title={name ? `New value of ${name}` : 'New secret'} onClose={onClose} actions={<>
      <button class="button" onClick={onClose}>Cancel</button><button class="button primary" form="set-secret" disabled={acting.busy}>Set the secret</button>
    </>}>
      <form id="set-secret" class="stack" onSubmit={set} autocomplete="off">
        {name === '' && <Field label="Name" hint="Letters, digits, dot, dash and underscore."><input required maxLength={64} pattern="[A-Za-z0-9_.\-]+" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></Field>}
        <Field label="Value" hint="8 to 65,536 bytes. The page does not show it again."><textarea class="masked" required minLength={8} rows={3} spellcheck={false} autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} /></Field>
        <Field label={`Expires, ${zoneName(utc)} (optional)`}><input type="datetime-local" value={expires} onInput={(event) => setExpires(event.currentTarget.value)} /></Field>
        {acting.error ? <ErrorBox error={acting.error} labels={{ 'url.name': 'Name', value: 'Value', expires_at: 'Expires' }} /> : null}
      </form>
    </Dialog>
  );
}
