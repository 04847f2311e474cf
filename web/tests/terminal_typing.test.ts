// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanPaste, inputPieces, Replay } from '../src/screens/sessions/typing';

test('a paste cannot end its own bracket', () => {
  assert.equal(cleanPaste('echo x\u001b[201~; echo y\u009b201~\n'), 'echo x\u241b[201~; echo y\u241b201~\n');
});

test('input is sent whole, and no pair is torn', () => {
  const text = `${'x'.repeat(32 * 1024 - 1)}\u{1f600}${'y'.repeat(1_200_000)}`;
  const pieces = inputPieces(text);
  assert.equal(pieces.join(''), text);
  for (const piece of pieces) assert.ok(piece.length <= 32 * 1024 && encodeURIComponent(piece));
  assert.deepEqual(inputPieces(''), []);
});

test('nothing is sent while old output is written', () => {
  const replay = new Replay();
  replay.connected();
  const before = replay.writes(0);
  assert.equal(replay.sends, false, 'it is not known yet how much is old');
  replay.caughtUpAt(100);
  const old = replay.writes(60);
  before();
  assert.equal(replay.sends, false);
  old();
  assert.equal(replay.sends, true);
  replay.writes(100);
  assert.equal(replay.sends, true, 'a program that runs now is answered');
  replay.connected();
  replay.writes(120);
  assert.equal(replay.sends, false, 'what was written while the connection was lost is old');
});
