// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { changesInWords, draftOf, grantsTakenBack, limitOf, linesOf, updateOf } from '../src/screens/agents/draft';
import type { AgentSandbox } from '../src/screens/agents/types';

const sandbox: AgentSandbox = {
  tenant: 'acme', agent: 'coder', level: 'restricted', allowed_commands: ['make *'], forbidden_commands: [],
  forbidden_paths: ['/secret/*'], dangerous_patterns: [], parameter_restrictions: [{ command: 'git', forbidden_flags: ['--force'] }],
  granted_operations: ['network'], revoked_operations: [], whitelist_mode: false, nested: false, limits: { memory_mb: 512 },
  escalation: {}, temporary_permissions: [], created_by: 'tom', created_at: '', last_modified: '', violation_count: 0, version: 3,
  effective: null,
};

test('an unchanged draft is an empty update', () => {
  assert.deepEqual(updateOf(sandbox, draftOf(sandbox)), {});
});

test('only what changed is sent', () => {
  const draft = draftOf(sandbox);
  draft.level = 'standard';
  draft.allowed_commands = linesOf(' make *\n\ncurl *\ncurl *\n');
  draft.forbidden_paths = [];
  draft.operations.network = 'revoked';
  draft.operations.file_write = 'granted';
  draft.limits.memory_mb = null;
  draft.limits.concurrent = 4;
  draft.parameter_restrictions = [{ command: 'curl', allowed_paths: ['/tmp/*'] }];
  draft.nested = true;
  const update = updateOf(sandbox, draft);
  assert.deepEqual(update, {
    level: 'standard',
    add: { allowed_commands: ['curl *'], parameter_restrictions: [{ command: 'curl', allowed_paths: ['/tmp/*'] }] },
    remove: { forbidden_paths: ['/secret/*'], parameter_restrictions: ['git'] },
    grant: ['file_write'], revoke: ['network'], nested: true, limits: { memory_mb: null, concurrent: 4 },
  });
  assert.equal(changesInWords(update).length, 10);
  assert.ok(changesInWords(update).includes("Memory: the level's limit applies."));
});

test('a grant that goes back to the level cannot be sent', () => {
  const draft = draftOf(sandbox);
  draft.operations.network = 'level';
  assert.deepEqual(grantsTakenBack(sandbox, draft), ['network']);
});

test('a wrong limit is no limit', () => {
  assert.deepEqual(['', ' ', '512', ' 7 '].map(limitOf), [null, null, 512, 7]);
  for (const wrong of ['0', '-5', '1.6', '1e3', 'many', '9007199254740993']) assert.equal(limitOf(wrong), undefined, wrong);
});
