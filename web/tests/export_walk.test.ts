// SPDX-License-Identifier: Apache-2.0
// The walk over an export, with the checkpoints that a person kept.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import './webcrypto';
import { parse } from '../src/verify/json';
import { walkExport } from '../src/verify/export_walk';
import type { VerifyMessage, VerifyStart } from '../src/verify/protocol';

const vectors = process.env['VECTORS'] ?? 'tests/vectors';
const text = (name: string): string => readFileSync(`${vectors}/${name}`, 'utf8');
const log = text('audit.jsonl');
const last = parse(log.trimEnd().split('\n').at(-1)!) as { hash: string };
const seen = [{ seq: log.trimEnd().split('\n').length, hash: last.hash }];

async function walk(heads: VerifyStart['heads']): Promise<VerifyMessage> {
  globalThis.fetch = () => Promise.resolve(new Response(log));
  let end: VerifyMessage | null = null;
  await walkExport({ kind: 'start', exportUrl: 'http://service.test/v1/audit/export', publicKey: text('audit.pub'), heads, seen },
    (message) => { if (message.kind !== 'progress') end = message; });
  return end!;
}

test('a head of the service itself is no known head', async () => {
  const end = await walk(null);
  assert.ok(end.kind === 'ok' && end.held === null);
});

test('kept checkpoints that agree are counted', async () => {
  const file = text('audit.checkpoints');
  const end = await walk({ name: 'audit.checkpoints', text: file });
  assert.ok(end.kind === 'ok' && end.held === file.trimEnd().split('\n').length);
});

test('a file without a checkpoint fails, and is named', async () => {
  for (const [content, problem] of [['', /^blank\.txt: has no checkpoint/], [' \n\n', /^blank\.txt: has no checkpoint/], ['\nhello', /^blank\.txt, line 2: is no checkpoint/]] as const) {
    const end = await walk({ name: 'blank.txt', text: content });
    assert.ok(end.kind === 'failed', JSON.stringify(end));
    assert.match(end.problem, problem);
  }
});
