// SPDX-License-Identifier: Apache-2.0
// Colours of a policy document, line by line.
import assert from 'node:assert/strict';
import test from 'node:test';
import { StringStream } from '@codemirror/language';
import { yamlTokens } from '../src/screens/policy/yaml_tokens';

function tokens(text: string): string[] {
  const state = yamlTokens.startState!(2);
  return text.split('\n').flatMap((line) => {
    const stream = new StringStream(line, 2, 2);
    const found: string[] = [];
    while (!stream.eol()) {
      stream.start = stream.pos;
      const kind = yamlTokens.token(stream, state);
      assert.ok(stream.pos > stream.start, `no progress in ${line}`);
      if (kind && kind !== 'punctuation') found.push(`${kind} ${stream.current()}`);
    }
    return found;
  });
}

test('members, values, comments and quoted texts', () => {
  assert.deepEqual(tokens('effect: deny # why'), ['propertyName effect', 'string deny', 'comment # why']);
  assert.deepEqual(tokens('  max: {memory_mb: 512, packages: true}'), ['propertyName max', 'propertyName memory_mb', 'number 512', 'propertyName packages', 'number true']);
  assert.deepEqual(tokens('- "a: b": \'c # d\''), ['propertyName "a: b"', "string 'c # d'"]);
  assert.deepEqual(tokens('a: b#c'), ['propertyName a', 'string b#c']);
});

test('a block text ends where the indentation does', () => {
  assert.deepEqual(tokens('why: >-\n  effect: deny\n  # text\neffect: deny').slice(0, 2), ['propertyName why', 'keyword >-']);
  assert.deepEqual(tokens('  why: >-\n    effect: deny\n\n  effect: deny').at(-1), 'string deny');
  assert.equal(tokens('  why: >-\n    effect: deny\n\n  effect: deny').filter((each) => each.startsWith('propertyName')).length, 2);
});

test('a block text of the first member of an item', () => {
  assert.deepEqual(tokens('  - why: >-\n      effect: deny\n    effect: deny').filter((each) => each.startsWith('propertyName')), ['propertyName why', 'propertyName effect']);
});

test('any text makes progress', () => {
  for (const text of ['"open', "it's", '{[', ':::', '- - -', '\t#x', '#', '\u{1f4a5} "', "''''"]) tokens(text);
});
