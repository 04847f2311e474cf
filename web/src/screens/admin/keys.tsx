// SPDX-License-Identifier: Apache-2.0
// API keys and the people and agents behind them. The secret of a new key is shown once, and never kept by the page.
import { useEffect, useState } from 'preact/hooks';
import { useDraft } from '../../drafts';
import { api, Badge, Confirm, ConfirmTyped, Dialog, ErrorBox, Field, IdLink, isAdmin, Loading, may, Page, Table, Tabs, Time, toast, typable, Untrusted, useAction, useLoad } from '../kit';
import type { ScreenProps } from '../registry';

const ROLES = ['agent', 'viewer', 'operator', 'approver', 'tenant-admin', 'admin', 'metrics'];
/** A tenant administrator issues these alone. */
const TENANT_ROLES = ['agent', 'viewer', 'approver', 'tenant-admin'];
const LIVES: [string, number | null][] = [['until revoked', null], ['1 day', 86_400], ['30 days', 2_592_000], ['90 days', 7_776_000], ['1 year', 31_536_000]];
const OVERLAPS: [string, number][] = [['24 hours', 86_400], ['1 hour', 3600], ['7 days', 604_800], ['no overlap', 0]];

interface Key {
  id: string;
  name: string;
  tenant: string;
  app: string;
  agent: string;
  user: string;
  roles: string[];
  networks: string[];
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  replaces: string | null;
  replaced_by: string[];
  revoked_at: string | null;
}

type NewKey = Key & { secret: string };

export function stateOf(key: Key, now = Date.now()): 'revoked' | 'expired' | 'replaced' | 'valid' {
  if (key.revoked_at !== null) return 'revoked';
  if (key.expires_at !== null && Date.parse(key.expires_at) <= now) return 'expired';
  return key.replaced_by.length > 0 ? 'replaced' : 'valid';
}

const LABELS = {
  name: 'Name', tenant: 'Tenant', role: 'Role', roles: 'Role', agent: 'Agent', user: 'User', app: 'App', networks: 'Only from these networks', expires_in_seconds: 'Valid',
};
const TONES = { revoked: 'neutral', expired: 'neutral', replaced: 'warn', valid: 'ok' } as const;

function who(key: Key): string {
  return [key.user, key.agent, key.app].filter(Boolean).join(', ') || 'nobody named';
}

export function Keys({ query }: ScreenProps) {
  const list = useLoad<{ keys: Key[] }>('/v1/keys', []);
  const [ended, setEnded] = useState(false);
  const [dialog, setDialog] = useState<'new' | Key | null>(null);
  const [made, setMade] = useState<NewKey | null>(null);
  const asked = query.get('key');
  useEffect(() => {
    const found = list.data?.keys.find((each) => each.id === asked);
    if (found) setDialog(found);
  }, [asked, list.data === null]);
  const rows = (list.data?.keys ?? []).filter((each) => ended || stateOf(each) === 'valid' || stateOf(each) === 'replaced');
  const take = (key: NewKey): void => {
    setDialog(null);
    setMade(key);
    list.reload();
  };
  return (
    <Page title="Keys and people" full actions={may('key.manage') ? <button class="button primary" onClick={() => setDialog('new')}>New key…</button> : undefined}>
      <Tabs label="Keys and people" tabs={[
        { id: 'keys', label: 'Keys', content: () => <>
          {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
          {!list.data && !list.error && <Loading what="the keys" />}
          {list.data && <Table fill label="Keys" rows={rows}
            tools={<label class="check-label"><input type="checkbox" checked={ended} onChange={() => setEnded(!ended)} /> Show revoked and expired keys</label>} keyOf={(row) => row.id} onOpen={setDialog}
            columns={[
              { id: 'name', title: 'Name', text: (row) => row.name, width: '2fr' },
              { id: 'who', wide: true, title: 'For', text: who, width: '2fr' },
              { id: 'tenant', title: 'Tenant', text: (row) => row.tenant, wide: true },
              { id: 'roles', title: 'Roles', text: (row) => row.roles.join(', ') },
              { id: 'state', title: 'State', text: (row) => stateOf(row), cell: (row) => <Badge tone={TONES[stateOf(row)]}>{stateOf(row)}</Badge> },
              { id: 'used', width: '150px', wide: true, title: 'Last use', text: (row) => row.last_used_at ?? '', cell: (row) => row.last_used_at ? <Time at={row.last_used_at} /> : <span class="muted">never</span> },
              { id: 'expires', width: '150px', wide: true, title: 'Expires', text: (row) => row.expires_at ?? '', cell: (row) => row.expires_at ? <Time at={row.expires_at} /> : <span class="muted">never</span> },
            ]} />}
        </> },
        { id: 'people', label: 'Signed in', content: () => <SignIns /> },
      ]} />
      {dialog === 'new' && <Make onClose={() => setDialog(null)} onMade={take} />}
      {dialog !== null && dialog !== 'new' && <OneKey known={dialog} onClose={() => setDialog(null)} onRotated={take} onRevoked={() => { setDialog(null); list.reload(); }} />}
      {made && <ShowOnce made={made} onClose={() => setMade(null)} />}
    </Page>
  );
}

interface SignIn {
  id: string;
  tenant: string;
  agent: string | null;
  user: string | null;
  roles: string[];
  key_id: string | null;
  issuer: string | null;
  created_at: string;
  last_used_at: string;
  ends_at: string;
}

/** Who is signed in to this interface. */
function SignIns() {
  const list = useLoad<{ sign_ins: SignIn[] }>('/v1/sign-ins', []);
  const [chosen, setChosen] = useState<SignIn | null>(null);
  const name = (row: SignIn): string => row.user ?? row.agent ?? row.key_id ?? row.id;
  const end = async (): Promise<void> => {
    if (!chosen) return;
    await api.del(`/v1/sign-ins/${encodeURIComponent(chosen.id)}`);
    toast(`${name(chosen)} is signed out.`);
    list.reload();
  };
  return (
    <>
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {list.data && <Table label="Signed in" rows={list.data.sign_ins} keyOf={(row) => row.id} onOpen={may('key.manage') ? setChosen : undefined} columns={[
        { id: 'who', title: 'Who', text: name, width: '2fr' },
        { id: 'tenant', title: 'Tenant', text: (row) => row.tenant, wide: true },
        { id: 'roles', title: 'Roles', text: (row) => row.roles.join(', ') },
        { id: 'by', title: 'By', wide: true, text: (row) => (row.issuer ? 'identity provider' : 'key'), cell: (row) => (row.key_id ? <IdLink id={row.key_id} /> : <Untrusted value={row.issuer ?? ''} />) },
        { id: 'used', width: '150px', title: 'Last use', text: (row) => row.last_used_at, cell: (row) => <Time at={row.last_used_at} /> },
        { id: 'ends', width: '150px', wide: true, title: 'Ends', text: (row) => row.ends_at, cell: (row) => <Time at={row.ends_at} /> },
      ]} />}
      {chosen && (
        <Confirm title={`Sign ${name(chosen)} out?`} action="Sign out" onClose={() => setChosen(null)} onConfirm={end}>
          <p>The page of this person ends within a second. The {chosen.key_id ? 'key' : 'account'} can sign in again.</p>
        </Confirm>
      )}
    </>
  );
}

function Make({ onClose, onMade }: { onClose(): void; onMade(key: NewKey): void }) {
  const admin = isAdmin();
  const [form, setForm] = useDraft('new key', { name: '', tenant: '', app: '', agent: '', user: '', role: 'agent', networks: '', life: '0' });
  const making = useAction();
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  const make = (event: Event): void => {
    event.preventDefault();
    void making.run(async () => {
      const named = Object.fromEntries((['name', 'tenant', 'app', 'agent', 'user'] as const).filter((each) => form[each].trim() !== '').map((each) => [each, form[each].trim()]));
      const networks = form.networks.split(/[\s,]+/).filter(Boolean);
      const life = LIVES[Number(form.life)]?.[1] ?? null;
      onMade(await api.post<NewKey>('/v1/keys', { ...named, role: form.role, ...(networks.length > 0 ? { networks } : {}), ...(life === null ? {} : { expires_in_seconds: life }) }));
    });
  };
  return (
    <Dialog title="New key" onClose={onClose} actions={<>
      <button class="button" onClick={onClose}>Cancel</button><button class="button primary" form="new-key" disabled={making.busy}>Make the key</button>
    </>}>
      <form id="new-key" class="stack" onSubmit={make}>
        <Field label="Name" hint="What the key is for."><input maxLength={128} value={form.name} onInput={set('name')} /></Field>
        <div class="fields">
          {admin && <Field label="Tenant"><input required maxLength={128} value={form.tenant} onInput={set('tenant')} /></Field>}
          <Field label="Role"><select value={form.role} onChange={set('role')}>{(admin ? ROLES : TENANT_ROLES).map((each) => <option key={each}>{each}</option>)}</select></Field>
          <Field label="Agent"><input maxLength={128} value={form.agent} onInput={set('agent')} /></Field>
          <Field label="User"><input maxLength={128} value={form.user} onInput={set('user')} /></Field>
          <Field label="App"><input maxLength={128} value={form.app} onInput={set('app')} /></Field>
          <Field label="Valid"><select value={form.life} onChange={set('life')}>{LIVES.map(([label], index) => <option key={label} value={index}>{label}</option>)}</select></Field>
        </div>
        <Field label="Only from these networks" hint="Such as 10.0.0.0/8. Empty: from everywhere."><input value={form.networks} onInput={set('networks')} /></Field>
        {making.error ? <ErrorBox error={making.error} labels={LABELS} /> : null}
      </form>
    </Dialog>
  );
}

function ShowOnce({ made, onClose }: { made: NewKey; onClose(): void }) {
  const [copied, setCopied] = useState(false);
  const copy = (): void => void navigator.clipboard.writeText(made.secret).then(() => setCopied(true), () => toast('The browser did not copy. Select the text and copy it.'));
  return (
    <Dialog title="The key is made" stays onClose={onClose} actions={<button class="button primary" onClick={onClose}>I have kept it</button>}>
      <div class="stack">
        <p role="alert">This is the only time that the secret is shown. The service keeps its digest alone.</p>
        <div class="row"><code class="break" data-testid="new-secret">{made.secret}</code><button class="button" onClick={copy}>{copied ? 'Copied' : 'Copy'}</button></div>
        <p class="muted"><Untrusted value={`${made.id}, tenant ${made.tenant}, ${made.roles.join(', ')}, for ${who(made)}`} /></p>
      </div>
    </Dialog>
  );
}

function OneKey({ known, onClose, onRotated, onRevoked }: { known: Key; onClose(): void; onRotated(key: NewKey): void; onRevoked(): void }) {
  const [asks, setAsks] = useState(false);
  const [overlap, setOverlap] = useState(0);
  const acting = useAction();
  const state = stateOf(known);
  const live = state === 'valid' || state === 'replaced';
  const manages = may('key.manage') && live && (isAdmin() || known.roles.every((role) => TENANT_ROLES.includes(role)));
  const rotate = (): void => void acting.run(async () => {
    onRotated(await api.post<NewKey>(`/v1/keys/${encodeURIComponent(known.id)}:rotate`, { overlap_seconds: OVERLAPS[overlap]?.[1] ?? 86_400 }));
  });
  const revoke = async (): Promise<void> => {
    await api.del(`/v1/keys/${encodeURIComponent(known.id)}`);
    toast(`The key ${known.name || known.id} is revoked. Its connections end within a second.`);
    onRevoked();
  };
  const expect = typable(known.name, known.id);
  if (asks) {
    return (
      <ConfirmTyped title={`Revoke ${expect}`} expect={expect} verb="Revoke" onConfirm={revoke} onClose={() => setAsks(false)}>
        <p>The connections of the key end within a second. Nobody can make the key valid again.</p>
      </ConfirmTyped>
    );
  }
  return (
    <Dialog title={known.name || known.id} onClose={onClose} actions={manages ? <>
      <button class="button" onClick={onClose}>Close</button><button class="button danger" onClick={() => setAsks(true)}>Revoke…</button>
    </> : <button class="button" onClick={onClose}>Close</button>}>
      <dl class="pairs">
        <dt>Id</dt><dd><code class="break">{known.id}</code></dd>
        <dt>State</dt><dd><Badge tone={TONES[state]}>{state}</Badge></dd>
        <dt>For</dt><dd><Untrusted value={`${who(known)}, tenant ${known.tenant}`} /></dd>
        <dt>Roles</dt><dd>{known.roles.join(', ')}</dd>
        <dt>Networks</dt><dd>{known.networks.join(', ') || 'everywhere'}</dd>
        <dt>Made</dt><dd><Time at={known.created_at} /></dd>
        {known.revoked_at && <><dt>Revoked</dt><dd><Time at={known.revoked_at} /></dd></>}
        {known.replaces && <><dt>Replaces</dt><dd><IdLink id={known.replaces} /></dd></>}
        {known.replaced_by.length > 0 && <><dt>Replaced by</dt><dd>{known.replaced_by.map((id) => <div key={id}><code class="break">{id}</code></div>)}</dd></>}
      </dl>
      {manages && (
        <div class="row">
          <Field label="Both keys are valid for"><select value={overlap} onChange={(event) => setOverlap(Number(event.currentTarget.value))}>{OVERLAPS.map(([label], index) => <option key={label} value={index}>{label}</option>)}</select></Field>
          <button class="button" disabled={acting.busy} onClick={rotate}>Rotate</button>
        </div>
      )}
      {acting.error ? <ErrorBox error={acting.error} labels={{ overlap_seconds: 'Both keys are valid for' }} /> : null}
    </Dialog>
  );
}
