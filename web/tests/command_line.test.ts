// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { commandLine } from '../src/screens/executions/requests';

/** The members of a schema, by its indentation in the document. */
function membersOf(schema: string): string[] {
  const spec = readFileSync('../spec/openapi.yaml', 'utf8');  // the units run in web/
  const begin = spec.indexOf(`\n    ${schema}:\n`);
  const rest = spec.slice(begin + 1).split('\n').slice(1);
  const end = rest.findIndex((line) => /^ {0,4}\S/.test(line));
  const lines = rest.slice(0, end);
  const properties = lines.findIndex((line) => /^ {6,12}properties:$/.test(line));
  const indent = (lines[properties + 1] ?? '').search(/\S/);
  return lines.slice(properties + 1).flatMap((line) => new RegExp(`^ {${indent}}([a-z_]+):`).exec(line)?.[1] ?? []);
}

const RUN = { language: 'python', code: 'print(1)', artifacts: [] };
const EXEC = { ...RUN, session_id: 'ses_1' };
// A value other than the default, and the words for it. null: no command line says it.
const SAID: Record<string, [value: unknown, run: string | null, exec: string | null]> = {
  language: ['node', '-l node -c', '-l node -c'], code: ['f()', "-c 'f()'", "-c 'f()'"], args: [['a b'], "-- 'a b'", "-- 'a b'"],
  env: [{ A: '1' }, '-e A=1', '-e A=1'], artifacts: [['*.txt', 'b'], "--artifacts '*.txt' --artifacts b", "--artifacts '*.txt' --artifacts b"],
  input: ['in', 'printf %s in | cloister', 'printf %s in | cloister'], encoding: ['base64', null, null], files: [[{ path: 'f', content: '' }], null, null],
  secrets: [[{ name: 's' }], null, null], metadata: [{ task: 't' }, null, null], approval: ['ESC-2026-001', null, null],
  timeout_seconds: [0.5, '--timeout 0.5s', '--timeout 0.5s'], memory_mb: [64, '--memory 64MB', ''], cpu_millis: [400, '--cpu 400m', ''], pids: [9, '--pids 9', ''],
  disk_mb: [7, '--disk 7MB', ''], cpu_seconds: [1, null, null], max_output_bytes: [9, null, null], file_size_mb: [1, null, ''], open_files: [99, null, ''], inodes: [99, null, ''],
  runtime: ['gvisor', '--runtime gvisor', null], image: ['slim', '--image slim', null], tier: ['Assisted', '--tier Assisted', null],
  network_policy: [{ tier: 'restricted', allow: [{ name: 'a.b', ports: [443, 80] }, 'c.d:1'], on_denied: 'ask' },
    '--network restricted --allow a.b:443 --allow a.b:80 --allow c.d:1 --on-denied ask', null],
  deps: [['numpy', 'six'], '--dep numpy --dep six', ''], deps_from: ['script', '--deps-from script', null],
  cwd: ['/tmp', null, '--cwd /tmp'], kernel: ['none', null, '--kernel none'], sandbox: ['fresh', null, null], nested: [true, null, null],
  background: [true, null, null], keep_input: [true, null, null], tty: [{ cols: 80, rows: 24 }, null, null], parent_id: ['exec_1', null, null],
};

test('each member of a request is in the command line, or there is none', () => {
  const members = new Set([...membersOf('Settings'), ...membersOf('Program'), ...membersOf('ExecRequest')]);
  assert.ok(members.size > 30 && ['network_policy', 'deps_from', 'cwd', 'tty'].every((one) => members.has(one)), [...members].join(' '));
  for (const member of members) {
    if (member === 'command') continue;
    const [value, run, exec] = SAID[member] ?? assert.fail(`${member}: not said here`);
    for (const [base, words] of [[RUN, run], [EXEC, exec]] as const) {
      const line = commandLine({ ...base, [member]: value });
      if (words === null) assert.equal(line, null, member);
      else assert.ok(line?.includes(words), `${member}: ${line ?? 'null'}`);
    }
  }
});

test('commands, and what a run keeps by default', () => {
  assert.equal(commandLine({ ...RUN, artifacts: ['**'] }), "cloister run --artifacts '**' -l python -c 'print(1)'");
  assert.equal(commandLine({ command: 'echo $A', artifacts: [] }), "cloister run -l bash -c 'echo $A'");
  assert.equal(commandLine({ command: ['echo', 'a b'], artifacts: [], session_id: 'ses_1' }), "cloister exec ses_1 -- echo 'a b'");
  assert.equal(commandLine({ command: 'echo $A', artifacts: [], session_id: 'ses_1' }), "cloister exec ses_1 -- bash -c 'echo $A' bash");
  assert.equal(commandLine({ ...RUN, network_policy: { tier: 'full', allow: [{ name: 'a', ports: [80], methods: ['GET'] }] } }), null);
  assert.equal(commandLine({ ...RUN, something_new: 1 }), null);
  assert.equal(commandLine({ ...RUN, network_policy: { tier: 'none' }, env: {}, args: [], encoding: 'utf8', runtime: null, metadata: {} }), "cloister run -l python -c 'print(1)'");
});
