// SPDX-License-Identifier: Apache-2.0
// What changed between two texts, line by line.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { diffLines, folded } from '../diff';
import { visibleLines } from '../text';

const SIGNS = { added: '+ ', removed: '− ', same: '  ', skipped: '… ' };

export function TextDiff({ label, before, after }: { label: string; before: string; after: string }): JSX.Element {
  const lines = useMemo(() => folded(diffLines(before, after)), [before, after]);
  return (
    <div class="diff" tabIndex={0} role="region" aria-label={label}>
      {lines.map(({ kind, text }, index) => (
        <p key={index} class={kind}>
          {(kind === 'added' || kind === 'removed') && <span class="sr">{kind}: </span>}
          <span aria-hidden="true">{SIGNS[kind]}</span>{visibleLines(text)}
        </p>
      ))}
    </div>
  );
}
