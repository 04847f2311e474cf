// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { approvalPath } from '../src/places';
import { bytesText } from '../src/screens/approvals/bytes';
import { notExplained, programOf } from '../src/screens/approvals/findings';

const text = (...bytes: number[]): string => bytesText(Uint8Array.from(bytes));

test('a byte outside UTF-8 hides nothing of a program', () => {
  const script = new TextEncoder().encode('#!/bin/sh\n# é \u{1f600}\necho hidden\n');
  assert.equal(bytesText(script), '#!/bin/sh\n# é \u{1f600}\necho hidden\n');
  const at = script.indexOf(0x23, 2);
  const broken = Uint8Array.from([...script.subarray(0, at), 0xff, ...script.subarray(at)]);
  assert.equal(bytesText(broken), '#!/bin/sh\n\\xff# é \u{1f600}\necho hidden\n');
});

test('cut, overlong and surrogate sequences are bytes', () => {
  assert.equal(text(0x61, 0xe2, 0x82), 'a\\xe2\\x82');
  assert.equal(text(0xc0, 0xaf, 0x62), '\\xc0\\xafb');
  assert.equal(text(0xed, 0xa0, 0x80), '\\xed\\xa0\\x80');
  assert.equal(text(0xf4, 0x90, 0x80, 0x80), '\\xf4\\x90\\x80\\x80');
  assert.equal(text(0xef, 0xbb, 0xbf, 0x63), '\ufeffc');
  assert.equal(text(), '');
});

test('a program that was not looked at has a reason', () => {
  const reason = (request: Record<string, unknown>, may = true): string | null => notExplained(programOf(request)!, may);
  assert.equal(reason({ language: 'bash', code: 'echo' }), null);
  assert.equal(reason({ command: ['echo', 'a'] }), null);
  assert.match(reason({ language: 'python', code: 'print()' })!, /programs of a shell alone/);
  assert.match(reason({ command: 'é'.repeat(40_000) })!, /longer than 64 KiB/);
  assert.match(reason({ command: 'echo' }, false)!, /Your roles/);
});

test('an approval of several tenants is named with its tenant', () => {
  assert.equal(approvalPath('ESC-2026-001', null), 'approvals/ESC-2026-001');
  assert.equal(approvalPath('ESC-2026-001', 'a b', { status: 'all' }), 'approvals/ESC-2026-001?status=all&tenant=a+b');
});
