// SPDX-License-Identifier: Apache-2.0
// Completion in a policy document, at the mark | of each text.
import assert from 'node:assert/strict';
import test from 'node:test';
import schema from '../../policies/policy.schema.json';
import { describeAt, lineOf, propose, type SchemaObject } from '../src/screens/policy/complete';
import { placeAt } from '../src/screens/policy/yaml_path';

const root = schema as unknown as SchemaObject;

function at(marked: string): string[] {
  const cursor = marked.indexOf('|');
  return propose(root, marked.replace('|', ''), cursor)?.options.map((each) => each.label) ?? [];
}

test('the top of a document', () => {
  assert.deepEqual(at('|'), ['version', 'risk', 'tiers', 'rules']);
  assert.deepEqual(at('version: 2\n|'), ['risk', 'tiers', 'rules']);
  assert.deepEqual(at('version: |'), ['2']);
});

test('members of a rule, without those that stand there', () => {
  const names = at('version: 2\nrules:\n  - name: a\n    why: b\n    |\n    effect: deny\n');
  assert.ok(names.includes('match') && names.includes('remedy'), names.join());
  assert.ok(!names.includes('name') && !names.includes('why') && !names.includes('effect'), names.join());
  assert.ok(at('rules:\n- |').includes('name'));
  assert.ok(at('rules:\n- name: a\n  |').includes('effect'));
});

test('a second rule does not lack the members of the first', () => {
  const names = at('rules:\n  - name: a\n    why: x\n    effect: deny\n  - name: b\n    |');
  assert.ok(names.includes('effect') && names.includes('why') && !names.includes('name'), names.join());
});

test('values of a member', () => {
  assert.deepEqual(at('rules:\n  - name: a\n    effect: |'), ['deny', 'allow', 'approve']);
  assert.deepEqual(at('rules:\n  - name: a\n    effect: a|'), ['allow', 'approve']);
  assert.deepEqual(at('rules:\n  - name: a\n    packages: |'), ['true', 'false']);
  assert.deepEqual(at('rules:\n  - name: a\n    name: |'), []);
});

test('flow collections', () => {
  assert.ok(at('rules:\n  - name: a\n    match: {|').includes('network_tiers'));
  assert.deepEqual(at('rules:\n  - name: a\n    match: {network_tiers: [n|'), ['none']);
  assert.deepEqual(at('rules:\n  - name: a\n    match: {network_tiers: [none], dependencies: |'), ['none', 'any']);
  assert.ok(!at('rules:\n  - name: a\n    match: {network_tiers: [none], |').includes('network_tiers'));
  assert.deepEqual(at('rules:\n  - {name: a, effect: approve, approve: {r|'), ['roles']);
  assert.deepEqual(at('rules:\n  - {name: a, effect: approve, approve: {roles: [approver, a|'), ['agent', 'approver', 'admin']);
});

test('items of a block list', () => {
  assert.ok(at('rules:\n  - name: a\n    match:\n      network_tiers:\n        - |').includes('restricted'));
  assert.ok(at('rules:\n  - name: a\n    network:\n      - |').includes('ports'));
});

test('members of tiers and risk', () => {
  assert.deepEqual(at('tiers:\n  |'), ['Auto', 'Assisted', 'HumanApprove', 'ManualOnly']);
  assert.deepEqual(at('tiers:\n  Auto: {runtime: |'), ['process', 'gvisor', 'microvm']);
  assert.ok(at('risk:\n  |').includes('commands'));
});

test('comments, blank lines and long texts do not mislead', () => {
  assert.ok(at('version: 2\n# rules: {\n\nrules:\n  # - x: y\n  - name: a\n\n    |').includes('effect'));
  const long = 'x: y\n'.repeat(20000);
  const started = Date.now();
  placeAt(long, long.length);
  assert.ok(Date.now() - started < 1000);
});

test('descriptions and lines of errors', () => {
  const text = 'rules:\n  - name: a\n    packages: true\n';
  assert.match(describeAt(root, text, text.indexOf('ackages')), /package gateway/);
  assert.equal(lineOf('document: line 3: rules[0].why: is required'), 3);
  assert.equal(lineOf('document: yaml-cpp: error at line 4, column 4: end of sequence not found'), 4);
  assert.equal(lineOf('document: is too large'), null);
});
