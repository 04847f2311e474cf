// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { filtersOf, NONE, pageOf, target } from '../src/screens/audit/filters';
import { instantOf } from '../src/zone';

process.env['TZ'] = 'Pacific/Auckland';

test('filters are kept in the address', () => {
  const filters = filtersOf(new URLSearchParams('tab=timeline&action=key.*&since=2026-12-01'));
  assert.deepEqual(filters, { ...NONE, action: 'key.*', since: '2026-12-01' });
  assert.equal(pageOf(filters), 'audit?action=key.*&since=2026-12-01');
  assert.equal(pageOf(NONE), 'audit');
});

test('days of a filter are those that the page shows', () => {
  const since = (utc: boolean): string | null => new URL(target({ ...NONE, since: '2026-12-01' }, null, utc), 'http://a').searchParams.get('since');
  assert.equal(since(false), '2026-11-30T11:00:00.000Z');
  assert.equal(since(true), '2026-12-01T00:00:00.000Z');
});

test('a typed time is of the zone of the switch', () => {
  assert.equal(instantOf('2026-12-01T12:00', true), '2026-12-01T12:00:00.000Z');
  assert.equal(instantOf('2026-12-01T12:00', false), '2026-11-30T23:00:00.000Z');
  for (const kept of ['2026-12-01T12:00:00Z', 'yesterday', '2026-99-99', '']) assert.equal(instantOf(kept, false), kept);
});
