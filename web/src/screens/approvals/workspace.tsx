// SPDX-License-Identifier: Apache-2.0
// The files of the session to which an approval is bound.
import type { JSX } from 'preact';
import { Bytes, Card } from '../../parts';
import { visible } from '../../text';

export interface WorkspaceList {
  sha256: string;
  files: number;
  bytes: number;
  names: {
    path: string;
    type: string;
    mode: string;
    bytes: number | null;
    sha256: string | null;
    target: string | null;
    modified: string | null;
    hard_link_of: string | null;
  }[];
  left_out: number;
}

const OPEN_TO = 40;  // longer lists are folded

export function Workspace({ list }: { list: WorkspaceList }): JSX.Element {
  return (
    <Card title="The files of the session">
      <p class="soft">The approval is bound to these {list.files} names, <Bytes count={list.bytes} /> in all. Their digest is <code>{list.sha256}</code>.</p>
      <details open={list.names.length <= OPEN_TO}>
        <summary>{list.names.length} names</summary>
        <ul class="lines" aria-label="Files of the session">
          {list.names.map((name) => (
            <li key={name.path}>
              <span><code>{visible(name.path)}</code>{name.target !== null && <> → <code>{visible(name.target)}</code></>}</span>
              <span class="soft">
                {name.type}, mode {name.mode}{name.bytes !== null && <>, <Bytes count={name.bytes} /></>}{name.sha256 !== null && <>, SHA-256 <code>{name.sha256}</code></>}
                {name.hard_link_of !== null && <>, the same file as <code>{visible(name.hard_link_of)}</code></>}
              </span>
            </li>
          ))}
        </ul>
      </details>
      {list.left_out > 0 && <p class="warn">{list.left_out} further names are bound as well, and not listed.</p>}
    </Card>
  );
}
