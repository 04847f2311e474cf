// SPDX-License-Identifier: Apache-2.0
// Images of the node. They are imported on the machine itself (`cloister image import`).
import { Badge, Bytes, ErrorBox, Loading, Page, Table, Time, useLoad } from '../kit';

interface Image {
  name: string;
  digest: string | null;
  source: string;
  created: string | null;
  size_bytes: number | null;
  files: number | null;
  machines: boolean;
  languages: string[];
}

export function Images() {
  const list = useLoad<{ images: Image[] }>('/v1/images', []);
  return (
    <Page title="Images" full>
      <p class="page-lead">An image is imported on the machine of the node: <code>cloister image import FILE NAME</code>. A policy rule decides which image a request may name.</p>
      {list.error ? <ErrorBox error={list.error} onRetry={list.reload} /> : null}
      {!list.data && !list.error && <Loading what="the images" />}
      {list.data && <Table fill label="Images" rows={list.data.images} keyOf={(row) => row.name}
        columns={[
          { id: 'name', title: 'Name', text: (row) => row.name },
          { id: 'source', wide: true, title: 'Source', text: (row) => row.source },
          { id: 'digest', title: 'Digest', text: (row) => row.digest ?? '', width: '2fr', cell: (row) => row.digest ? <code class="clip" title={row.digest}>{row.digest}</code> : <Badge tone="warn">not verified yet</Badge> },
          { id: 'size', title: 'Size', text: (row) => String(row.size_bytes ?? ''), cell: (row) => row.size_bytes === null ? '' : <Bytes value={row.size_bytes} /> },
          { id: 'languages', wide: true, title: 'Languages', text: (row) => row.languages.join(', '), width: '2fr' },
          { id: 'machines', wide: true, title: 'Virtual machines', text: (row) => (row.machines ? 'yes' : 'no') },
          { id: 'created', width: '150px', wide: true, title: 'Imported', text: (row) => row.created ?? '', cell: (row) => row.created ? <Time at={row.created} /> : '' },
        ]} />}
    </Page>
  );
}
