// SPDX-License-Identifier: Apache-2.0
// The filters of GET /v1/audit, as the address of the page keeps them.
import { instantOf } from '../../zone';

const PAGE = 100;

export const FILTERS = [
  ['action', 'Action', 'escalation.*'],
  ['by', 'By', 'a user, or key_…'],
  ['agent', 'Agent', ''],
  ['subject', 'Subject', 'an id'],
  ['execution_id', 'Execution', 'exec_…'],
  ['since', 'Since', '2026-01-31'],
  ['until', 'Before', '2026-02-01'],
] as const;
export type Filters = Record<(typeof FILTERS)[number][0], string>;
export const NONE = Object.fromEntries(FILTERS.map(([name]) => [name, ''])) as Filters;

/** Whether a filter is a time, of which the label names the zone. */
export const isTime = (name: string): boolean => name === 'since' || name === 'until';

export function filtersOf(query: URLSearchParams): Filters {
  return Object.fromEntries(FILTERS.map(([name]) => [name, query.get(name) ?? ''])) as Filters;
}

function given(filters: Filters): [string, string][] {
  return Object.entries(filters).map(([name, value]): [string, string] => [name, value.trim()]).filter(([, value]) => value !== '');
}

/** The page with these filters. */
export function pageOf(filters: Filters): string {
  const query = new URLSearchParams(given(filters)).toString();
  return query ? `audit?${query}` : 'audit';
}

/** The request for one page of entries; days are those of the zone in which the page shows times. */
export function target(filters: Filters, before: number | null, utc: boolean): string {
  const query = new URLSearchParams({ order: 'newest', limit: String(PAGE) });
  for (const [name, value] of given(filters)) query.set(name, isTime(name) ? instantOf(value, utc) : value);
  if (before !== null) query.set('before', String(before));
  return `/v1/audit?${query.toString()}`;
}
