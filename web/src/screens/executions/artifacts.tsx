// SPDX-License-Identifier: Apache-2.0
// Files that runs left: a list, a preview, and downloads.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { type Query, request } from '../../api';
import { Button, Bytes, Empty, Table, toastError, Untrusted, type Column } from '../../parts';
import { Link } from '../../router';
import { offer } from '../../save';
import { may } from '../../session';
import type { ArtifactRef } from '../../types';

/** Saves an answer as a file. The page fetches it itself: the cookie is no credential of a document. */
export async function download(path: string, name: string, query: Query = {}): Promise<void> {
  try {
    offer(await (await request('GET', path, { query, headers: { Accept: '*/*' } })).blob(), name);
  } catch (error) {
    toastError(error);
  }
}

export function ArtifactList({ artifacts, ended }: { artifacts: ArtifactRef[]; ended: boolean }): JSX.Element {
  const columns: Column<ArtifactRef>[] = useMemo(() => [
    { key: 'path', title: 'File', width: 'minmax(120px, 3fr)', cell: (row) => <Link to={`artifacts/${row.id}`} tabIndex={-1}><Untrusted value={row.path} mono /></Link>, compare: (a, b) => a.path.localeCompare(b.path) },
    { key: 'type', title: 'Type', wide: true, cell: (row) => <Untrusted value={row.content_type} cut={40} /> },
    { key: 'size', title: 'Size', width: '84px', align: 'end', cell: (row) => <Bytes count={row.size} />, compare: (a, b) => a.size - b.size },
    { key: 'get', title: '', width: '80px', align: 'end', cell: (row) => may('artifact.read') && <Button small label={`Save ${row.path}`} onClick={() => download(`/v1/artifacts/${row.id}/content`, row.path)}>Save</Button> },
  ], []);
  return (
    <Table
      inline label="Files" rows={artifacts} columns={columns} id={(row) => row.id} to={(row) => `artifacts/${row.id}`}
      empty={<Empty title={ended ? 'It left no files.' : 'No file yet.'}>Files below /workspace are kept at the end.</Empty>}
    />
  );
}
