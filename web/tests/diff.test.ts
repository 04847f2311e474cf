// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { diffLines, folded } from '../src/diff';

const shown = (a: string, b: string): string =>
  diffLines(a, b).map((each) => (each.kind === 'added' ? '+' : each.kind === 'removed' ? '-' : ' ') + each.text).join('|');

test('a changed, an added and a removed line', () => {
  assert.equal(shown('a\nb\nc', 'a\nx\nc'), ' a|-b|+x| c');
  assert.equal(shown('a\nb', 'a\nb\nc'), ' a| b|+c');
  assert.equal(shown('a\nb\nc', 'b\nc'), '-a| b| c');
  assert.equal(shown('', ''), ' ');
  assert.equal(shown('a', 'b'), '-a|+b');
});

test('the two texts come out of every difference again', () => {
  let seed = 7;
  const random = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let i = 0; i < 300; i++) {
    const text = (): string => Array.from({ length: random(12) }, () => 'abc'[random(3)]).join('\n');
    const [a, b] = [text(), text()];
    const lines = diffLines(a, b);
    assert.equal(lines.filter((each) => each.kind !== 'added').map((each) => each.text).join('\n'), a);
    assert.equal(lines.filter((each) => each.kind !== 'removed').map((each) => each.text).join('\n'), b);
  }
});

test('texts without anything in common stay bounded', () => {
  const many = (prefix: string): string => Array.from({ length: 4000 }, (_, i) => prefix + i).join('\n');
  const started = Date.now();
  assert.equal(diffLines(many('a'), many('b')).length, 8000);
  assert.ok(Date.now() - started < 2000);
});

test('a difference far down a long text is shown', () => {
  const long = Array.from({ length: 2500 }, (_, at) => `line ${at}`);
  const changed = diffLines(long.join('\n'), [...long.slice(0, -1), 'another end'].join('\n'));
  assert.deepEqual(folded(changed, 0).map((each) => each.text), ['2499 lines are the same', 'line 2499', 'another end']);
});

test('same lines far from a change are left out', () => {
  const lines = folded(diffLines('1\n2\n3\n4\n5\n6\n7\n8\n9', '1\n2\n3\n4\n5\n6\n7\n8\nx'), 2);
  assert.deepEqual(lines.map((each) => each.text), ['6 lines are the same', '7', '8', '9', 'x']);
});
