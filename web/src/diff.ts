// SPDX-License-Identifier: Apache-2.0
// The difference of two texts, line by line.

export interface DiffLine {
  kind: 'same' | 'added' | 'removed';
  text: string;
}

const MAX_LINES = 2000;

/** Myers' greedy algorithm, bounded; texts beyond 2000 lines or steps are shown as removed and added in whole. */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  if (before === after) return a.map((text): DiffLine => ({ kind: 'same', text }));
  if (Math.max(a.length, b.length) > MAX_LINES) return whole(a, b);
  const offset = a.length + b.length + 1;
  const reach = new Int32Array(2 * offset + 1);
  const trace: Int32Array[] = [];
  const most = Math.min(a.length + b.length, 1000);
  for (let steps = 0; steps <= most; steps += 1) {
    trace.push(reach.slice());
    for (let k = -steps; k <= steps; k += 2) {
      const at = (index: number): number => reach[offset + index] ?? 0;
      let x = k === -steps || (k !== steps && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach[offset + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(trace, a, b, steps, offset);
    }
  }
  return whole(a, b);
}

function whole(a: string[], b: string[]): DiffLine[] {
  return [...a.map((text): DiffLine => ({ kind: 'removed', text })), ...b.map((text): DiffLine => ({ kind: 'added', text }))];
}

function walkBack(trace: Int32Array[], a: string[], b: string[], steps: number, offset: number): DiffLine[] {
  const lines: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let step = steps; step >= 0; step -= 1) {
    const reach = trace[step] as Int32Array;
    const at = (index: number): number => reach[offset + index] ?? 0;
    const k = x - y;
    const from = k === -step || (k !== step && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
    const fromX = step === 0 ? 0 : at(from);
    const fromY = step === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      lines.push({ kind: 'same', text: a[x] ?? '' });
    }
    if (step === 0) break;
    if (x === fromX) lines.push({ kind: 'added', text: b[y - 1] ?? '' });
    else lines.push({ kind: 'removed', text: a[x - 1] ?? '' });
    x = fromX;
    y = fromY;
  }
  return lines.reverse();
}

/** Keeps `context` lines around each change; null stands for lines that are left out. */
export function folded(lines: DiffLine[], context: number): (DiffLine | null)[] {
  const keep = new Set<number>();
  lines.forEach((line, index) => {
    if (line.kind === 'same') return;
    for (let near = index - context; near <= index + context; near += 1) keep.add(near);
  });
  const out: (DiffLine | null)[] = [];
  lines.forEach((line, index) => {
    if (keep.has(index)) out.push(line);
    else if (out.at(-1) !== null) out.push(null);
  });
  return out;
}
