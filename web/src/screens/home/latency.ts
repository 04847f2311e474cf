// SPDX-License-Identifier: Apache-2.0
// How long runs took to start and to end, of the records at hand.
import type { Execution } from '../../types';

export interface Quantiles {
  p50: number;
  p99: number;
}

export function quantiles(values: number[]): Quantiles | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

/** Null without a run that has started and ended. A run that waited for a person counts as it was: with that wait. */
export function latencies(rows: Execution[]): { start: Quantiles; run: Quantiles } | null {
  const done = rows.filter((row) => row.started_at && row.finished_at);
  const start = quantiles(done.map((row) => Math.max(0, Date.parse(row.started_at ?? '') - Date.parse(row.created_at))));
  const run = quantiles(done.map((row) => row.resource_usage.wall_ms));
  return start && run ? { start, run } : null;
}
