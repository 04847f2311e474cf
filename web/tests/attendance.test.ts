// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attendance } from '../src/attendance';

test('a page that nobody touches says so, until somebody does', () => {
  let now = 0;
  const page = new Attendance(() => now);
  assert.deepEqual(page.headers(), {});
  now = 60_001;
  assert.deepEqual(page.headers(), { 'X-Cloister-Unattended': '1' });
  page.note();
  assert.deepEqual(page.headers(), {});
});

test('any sign of a person counts', () => {
  let now = 0;
  const signs = new Map<string, () => void>();
  const page = new Attendance(() => now);
  page.watch({ addEventListener: (name: string, heard: unknown) => { signs.set(name, heard as () => void); } } as Window);
  for (const sign of ['keydown', 'pointerdown', 'wheel']) {
    now += 100_000;
    assert.equal(page.attended, false);
    signs.get(sign)?.();
    assert.equal(page.attended, true);
  }
});
