// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileName } from '../src/save';
import { codeOf } from '../src/screens/executions/requests';
import { append, type Kept } from '../src/screens/executions/stream';

const NOTHING: Kept = { chunks: [], size: 0, dropped: 0 };

test('output that goes to and fro has few chunks, in its order', () => {
  const pieces = Array.from({ length: 20_000 }, (_, at) => ({ stream: at % 2 ? 'stderr' as const : 'stdout' as const, text: `${at}\n` }));
  let kept = NOTHING;
  for (let at = 0; at < pieces.length; at += 10) kept = append(kept, pieces.slice(at, at + 10));
  assert.ok(kept.chunks.length <= 1000, String(kept.chunks.length));
  assert.equal(kept.chunks.map((chunk) => chunk.text).join(''), pieces.map((piece) => piece.text).join(''));
  assert.deepEqual(kept.chunks.at(-1), { stream: 'stderr', text: '19999\n' });
  assert.deepEqual([kept.size, kept.dropped], [pieces.reduce((sum, piece) => sum + piece.text.length, 0), 0]);
});

test('the beginning of long output is forgotten, and counted', () => {
  const piece = { stream: 'stdout' as const, text: 'x'.repeat(16 * 1024) };
  let kept = NOTHING;
  for (let at = 0; at < 100; at += 1) kept = append(kept, [piece]);
  assert.equal(kept.size, kept.chunks.reduce((sum, chunk) => sum + chunk.text.length, 0));
  assert.equal(kept.size + kept.dropped, 100 * piece.text.length);
  assert.ok(kept.size <= 1024 * 1024);
});

test('a file that is saved keeps its letters, and loses what misleads', () => {
  assert.equal(fileName('out/отчёт ünï 漢字.csv'), 'отчёт ünï 漢字.csv');
  assert.equal(fileName('a\u202etxt.exe'), 'a_txt.exe');
  assert.equal(fileName('..\\a:b*c?"<>|\n\t.txt'), '__a_b_c_______.txt');
  assert.equal(fileName('.bashrc'), '_bashrc');
  assert.equal(fileName('a/'), 'file');
});

test('a command is code of bash in the form of a new run', () => {
  assert.deepEqual(codeOf({ command: ['echo', 'a b'] }), { language: 'bash', code: "echo 'a b'" });
  assert.deepEqual(codeOf({ command: 'echo $A' }), { language: 'bash', code: 'echo $A' });
  assert.deepEqual(codeOf({ language: 'node', code: 'f()' }), { language: 'node', code: 'f()' });
});
