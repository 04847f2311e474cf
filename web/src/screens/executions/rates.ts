// SPDX-License-Identifier: Apache-2.0
// Totals of the service as lines over a run's time.
import type { Usage } from '../../types';

export interface Rates {
  /** Seconds since the start. */
  times: number[];
  processors: (number | null)[];
  memory: (number | null)[];
}

export function rates(points: Usage[]): Rates {
  const out: Rates = { times: [], processors: [], memory: [] };
  let before: Usage | null = null;
  for (const point of points) {
    if (before && point.wall_ms <= before.wall_ms) continue;
    const wall = point.wall_ms - (before?.wall_ms ?? 0);
    out.times.push(point.wall_ms / 1000);
    out.processors.push(wall > 0 ? Math.max(0, point.cpu_ms - (before?.cpu_ms ?? 0)) / wall : null);
    out.memory.push(point.max_rss_bytes);
    before = point;
  }
  return out;
}
