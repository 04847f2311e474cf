// SPDX-License-Identifier: Apache-2.0
// The sentences of the timeline are those of the command line (src/cli/render/audit_text_test.cc).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { PHRASES, sentenceText } from '../src/screens/audit/sentences';
import type { AuditEntry } from '../src/screens/audit/types';

function entryOf(action: string, details: Record<string, unknown>, more: Partial<AuditEntry> = {}): AuditEntry {
  return {
    seq: 1, at: 1_769_856_127_000_000, action, subject: 'ESC-2026-003', tenant: 'acme', app: '', agent: '',
    user: 'security-lead', key: 'key_1', details, prev: '', hash: '', ...more,
  };
}

test('who did what to what, for whom', () => {
  const entry = entryOf('escalation.approved', { operation: 'file_write', what: '/srv/data', requester: { agent: 'junior-agent' } });
  assert.equal(sentenceText(entry, false), 'security-lead approved ESC-2026-003 (file_write /srv/data) for agent junior-agent');
  assert.match(sentenceText(entry, true), / in tenant acme$/);
});

test('struck votes, redacted text, unknown actions, the service itself', () => {
  assert.match(sentenceText(entryOf('escalation.approved', { operation: 'run', revoked_credentials: ['key_a', 'key_b'] }), false),
    /; the votes of revoked credentials no longer count: key_a, key_b$/);
  assert.equal(sentenceText(entryOf('escalation.denied', { operation: 'command', what: { sealed: '00' } }), false),
    'security-lead denied ESC-2026-003 (command)');
  assert.equal(sentenceText(entryOf('tool.registered', {}), false), 'security-lead tool.registered ESC-2026-003');
  assert.equal(sentenceText(entryOf('constructor', {}), false), 'security-lead constructor ESC-2026-003');
  assert.equal(sentenceText(entryOf('execution.started', { node: 'local' }, { user: '', key: '' }), false),
    'cloister got a sandbox for ESC-2026-003 (local)');
});

test('a session that refused a visitor', () => {
  const entry = entryOf('session.refused', { doing: 'running in a session', session_agent: 'coder' }, { user: '', agent: 'bob' });
  assert.equal(sentenceText(entry, false), 'bob was refused in ESC-2026-003 (running in a session): the session is of ' +
    'agent coder, and lets programs do more than bob may');
});

test('file operations and failed notifications', () => {
  const shown = (action: string, details: Record<string, unknown>): string => sentenceText(entryOf(action, details, { subject: 'ses_1' }), false);
  assert.equal(shown('file.written', { request: 'write', arguments: ['notes.txt', ''] }), 'security-lead wrote a file in ses_1 (notes.txt)');
  assert.equal(shown('file.removed', { arguments: ['old', '1'] }), 'security-lead removed a file in ses_1 (old)');
  assert.equal(shown('file.moved', { arguments: ['a', 'b', '0'] }), 'security-lead moved a file in ses_1 (a, b)');
  assert.equal(shown('file.directory_made', { arguments: ['dir'] }), 'security-lead made a directory in ses_1 (dir)');
  assert.equal(shown('file.unpacked', { arguments: [''], incomplete: 'cut off' }), 'security-lead unpacked files in ses_1 (cut off)');
  assert.equal(shown('escalation.notification_failed', { channel: 'hook', event: 'requested', reason: 'refused' }),
    'security-lead could not send a notification of ses_1 (hook requested refused)');
});

test('the values of a quota', () => {
  const shown = (quota: Record<string, unknown>): string => sentenceText(entryOf('quota.set', { quota }, { subject: 'quota:acme' }), false);
  assert.equal(shown({ concurrent: 4, memory_mb: 512 }), 'security-lead set quota:acme (concurrent 4, memory_mb 512)');
  assert.equal(shown({}), 'security-lead set quota:acme (none)');
});

test('the table has each row of the command line, in its words', () => {
  const source = readFileSync(process.env['AUDIT_TEXT'] ?? '../src/cli/render/audit_text.cc', 'utf8');
  const rows = [...source.matchAll(/Phrase\{"([^"]+)",\s+"([^"]*)",\s+"([^"]*)"\}/g)];
  assert.ok(rows.length > 40);
  for (const [, action = '', verb, shown = ''] of rows) {
    assert.deepEqual(PHRASES[action], { verb, shown: shown.split(' ').filter(Boolean) }, action);
  }
});
