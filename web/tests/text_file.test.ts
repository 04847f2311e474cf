// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineEnd, wrongPath } from '../src/screens/sessions/text_file';

test('the ends of lines are kept, or the editor does not open the text', () => {
  assert.equal(lineEnd(''), '\n');
  assert.equal(lineEnd('a\nb\n'), '\n');
  assert.equal(lineEnd('a\r\nb\r\n'), '\r\n');
  for (const mixed of ['a\r\nb\n', 'a\nb\r\n', 'a\rb', 'a\r\r\nb', '\n\r']) assert.equal(lineEnd(mixed), null, JSON.stringify(mixed));
});

test('a path stays below its root', () => {
  for (const wrong of ['../x', 'a/../b', './x', 'a//b', '/x', '..', '']) assert.match(wrongPath(wrong, '/workspace') ?? '', /below \/workspace/, wrong);
  for (const right of ['x', 'a/b.txt', '...', '.hidden', 'a..b', '%2e%2e']) assert.equal(wrongPath(right, '/workspace'), null, right);
});
