// SPDX-License-Identifier: Apache-2.0
// The difference of two texts by lines (Myers, O((N+M)D)), bounded: very different texts are shown as a whole.

export interface DiffLine {
  kind: 'same' | 'added' | 'removed' | 'skipped';
  text: string;
}

const MAX_EDITS = 2000;

/** The furthest column of each diagonal, after each number of edits; null above MAX_EDITS. */
function trace(a: string[], b: string[]): Int32Array[] | null {
  const size = a.length + b.length;
  const most = Math.min(size, MAX_EDITS);
  let furthest = new Int32Array(2 * most + 3);
  const rounds: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    rounds.push(furthest);
    furthest = furthest.slice();
    for (let k = -edits; k <= edits; k += 2) {
      const at = k + most + 1;
      const down = k === -edits || (k !== edits && furthest[at - 1]! < furthest[at + 1]!);
      let x = down ? furthest[at + 1]! : furthest[at - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest[at] = x;
      if (x >= a.length && x - k >= b.length) return rounds;
    }
  }
  return null;
}

function walkBack(a: string[], b: string[], rounds: Int32Array[]): DiffLine[] {
  const most = (rounds[0]!.length - 3) / 2;
  const out: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let edits = rounds.length - 1; edits >= 0; edits--) {
    const furthest = rounds[edits]!;
    const k = x - y;
    const at = k + most + 1;
    const down = k === -edits || (k !== edits && furthest[at - 1]! < furthest[at + 1]!);
    const fromX = edits === 0 ? 0 : down ? furthest[at + 1]! : furthest[at - 1]!;
    const fromY = edits === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY && a[x - 1] === b[y - 1]) {
      out.push({ kind: 'same', text: a[--x]! });
      y--;
    }
    if (edits === 0) break;
    if (down) out.push({ kind: 'added', text: b[--y]! });
    else out.push({ kind: 'removed', text: a[--x]! });
  }
  return out.reverse();
}

export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  const rounds = trace(a, b);
  if (rounds) return walkBack(a, b, rounds);
  return [...a.map((text): DiffLine => ({ kind: 'removed', text })), ...b.map((text): DiffLine => ({ kind: 'added', text }))];
}

/** Leaves `context` same lines around each change, and one line that says how many are left out. */
export function folded(lines: DiffLine[], context = 3): DiffLine[] {
  const near = new Set<number>();
  lines.forEach((line, index) => {
    if (line.kind === 'same') return;
    for (let i = index - context; i <= index + context; i++) near.add(i);
  });
  const out: DiffLine[] = [];
  let skipped = 0;
  const flush = (): void => {
    if (skipped > 0) out.push({ kind: 'skipped', text: `${skipped} ${skipped === 1 ? 'line is' : 'lines are'} the same` });
    skipped = 0;
  };
  lines.forEach((line, index) => {
    if (!near.has(index)) return void skipped++;
    flush();
    out.push(line);
  });
  flush();
  return out;
}
