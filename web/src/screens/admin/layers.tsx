// SPDX-License-Identifier: Apache-2.0
// Dependency layers: the packages that requests name, installed once.
import { useState } from 'preact/hooks';
import { api, Bytes, Dialog, Empty, ErrorBox, Field, Loading, may, Page, Table, Time, toast, useAction, useLoad } from '../kit';

interface Layer {
  key: string;
  tenant: string | null;
  shared: boolean;
  ecosystem: string;
  deps: string[];
  digest: string;
  size_bytes: number;
  files: number;
  packages: { name: string; version: string; license?: string }[];
  made_at: string;
  used_at: string;
}

export function Layers() {
  const list = useLoad<{ layers: Layer[] }>('/v1/deps', []);
  const [chosen, setChosen] = useState<Layer | null>(null);
  const [prunes, setPrunes] = useState(false);
  const any = (list.data?.layers.length ?? 0) > 0;
  return (
    <Page title="Packages" full subtitle="Layers of installed packages, made for requests that name packages"
      actions={may('quota.manage') && any ? <button class="button" onClick={() => setPrunes(true)}>Forget unused layers…</button> : undefined}>
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the layers" />}
      {list.data && (
        <Table fill empty={<Empty title="No layer is made yet.">A request with packages, in <code>deps</code>, makes one.</Empty>} label="Dependency layers" rows={list.data.layers} keyOf={(row) => row.key} onOpen={setChosen}
          columns={[
            { id: 'deps', title: 'Requested', text: (row) => row.deps.join(', '), width: '3fr' },
            { id: 'ecosystem', wide: true, title: 'From', text: (row) => row.ecosystem },
            { id: 'tenant', title: 'For', text: (row) => row.tenant ?? 'every tenant' },
            { id: 'packages', wide: true, title: 'Packages', text: (row) => String(row.packages.length) },
            { id: 'size', title: 'Size', text: (row) => String(row.size_bytes), cell: (row) => <Bytes value={row.size_bytes} /> },
            { id: 'used', width: '150px', wide: true, title: 'Last use', text: (row) => row.used_at, cell: (row) => <Time at={row.used_at} /> },
          ]} />
      )}
      {chosen && (
        <Dialog title={chosen.deps.join(', ')} wide onClose={() => setChosen(null)}>
          <p class="muted"><code class="break">{chosen.digest}</code>, {chosen.files} files, made <Time at={chosen.made_at} /></p>
          <Table label="Packages of the layer" rows={chosen.packages} keyOf={(row) => `${row.name}@${row.version}`}
            columns={[
              { id: 'name', title: 'Package', text: (row) => row.name, width: '2fr' },
              { id: 'version', title: 'Version', text: (row) => row.version },
              { id: 'license', title: 'Licence', text: (row) => row.license ?? 'not stated' },
            ]} />
        </Dialog>
      )}
      {prunes && <Prune onClose={() => setPrunes(false)} onDone={() => { setPrunes(false); list.reload(); }} />}
    </Page>
  );
}

function Prune({ onClose, onDone }: { onClose(): void; onDone(): void }) {
  const [days, setDays] = useState('30');
  const acting = useAction();
  const prune = (): void => void acting.run(async () => {
    const answer = await api.post<{ layers: Layer[] }>('/v1/deps:prune', { unused_days: Number(days) });
    toast(`${answer.layers.length} layers are forgotten.`);
    onDone();
  });
  return (
    <Dialog title="Forget unused layers" onClose={onClose} actions={<>
      <button class="button" onClick={onClose}>Cancel</button><button class="button danger" disabled={acting.busy || days === ''} onClick={prune}>Forget</button>
    </>}>
      <Field label="Without a use for days" hint="0 forgets all. The next request makes its layer anew."><input type="number" min={0} max={36_500} value={days} onInput={(event) => setDays(event.currentTarget.value)} /></Field>
      {acting.error ? <ErrorBox error={acting.error} labels={{ unused_days: 'Without a use for days' }} /> : null}
    </Dialog>
  );
}
