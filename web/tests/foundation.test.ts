// SPDX-License-Identifier: Apache-2.0
import './page';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { isForeign } from '../foreign';
import { following, spliced } from '../src/pages';
import { joined, type OutputChunk } from '../src/parts/rich';
import { visibleWindow } from '../src/parts/window';
import { pieces } from '../src/screens/approvals/marks';
import { summary } from '../src/screens/home/home';
import { latencies, quantiles } from '../src/screens/home/latency';
import { rates } from '../src/screens/executions/rates';
import { linesOf, treeOf } from '../src/screens/sessions/tree';
import { EventParser } from '../src/sse';
import { bytes, duration, fromBase64, outputText, quoteShell, toBase64, visible, visibleLines } from '../src/text';
import type { Execution, Session, Snapshot, Usage } from '../src/types';

test('events are read from pieces of any size', () => {
  const stream = 'retry: 1000\n\nid: 0.1.0\nevent: stdout\ndata: {"a":\ndata: 1}\r\n\r\n: comment\ndata: x\n\nevent: lost\n\n';
  for (let size = 1; size <= stream.length; size += 1) {
    const parser = new EventParser();
    const events = [];
    for (let start = 0; start < stream.length; start += size) events.push(...parser.push(stream.slice(start, start + size)));
    assert.deepEqual(events, [{ event: 'stdout', data: '{"a":\n1}', id: '0.1.0' }, { event: 'message', data: 'x', id: '0.1.0' }], `pieces of ${size}`);
    assert.equal(parser.retryMs, 1000);
  }
});

test('a line of a stream is bounded', () => {
  const parser = new EventParser();
  const piece = 'x'.repeat(EventParser.maxCharacters);
  assert.throws(() => parser.push(`data: ${piece}`), /too long/);
});

test('hidden characters are shown', () => {
  assert.equal(visible('a\u202eb\u0000c\u{e0041}\n'), 'a\\u{202e}b\\u{0}c\\u{e0041}\u21b5');
  assert.equal(visibleLines('a\tb\n\u200bc'), 'a\tb\n\\u{200b}c');
});

test('output loses its sequences and keeps its text', () => {
  assert.equal(outputText('\u001b[31mred\u001b[0m \u001b]0;title\u0007x\u001b]8;;http://a\u001b\\link'), 'red xlink');
  assert.equal(outputText('10 %\r50 %\rdone\r\nnext'), 'done\nnext');
  assert.equal(outputText('<script>alert(1)</script>'), '<script>alert(1)</script>');
  assert.equal(outputText('50 %\r100 %\r'), '100 %', 'a progress bar that goes on');
  assert.equal(outputText('a\r\r\nb\u001b[3'), 'a\nb');
});

test('output in pieces of any size reads as a whole', () => {
  const whole = '\u001b[1;31mred\u001b[0m 10 %\r20 %\r\ndone\u001b]0;title\u001b\\ end\r\n';
  for (let size = 1; size <= whole.length; size += 1) {
    const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, index) => whole.slice(index * size, (index + 1) * size));
    const shown = (chunks: OutputChunk[]): string => joined(chunks).map(outputText).join('');
    assert.equal(shown(pieces.map((text) => ({ stream: 'stdout', text }))), outputText(whole), `pieces of ${size}`);
    const mixed = shown(pieces.flatMap((text) => [{ stream: 'stdout', text }, { stream: 'stderr', text: '' }]));
    assert.ok(!/[\\\u001b]|title|31m/.test(mixed), `pieces of ${size} between others: ${mixed}`);
  }
});

test('sizes and times', () => {
  assert.deepEqual([bytes(0), bytes(1536), bytes(300 * 1024 * 1024)], ['0 B', '1.5 KiB', '300 MiB']);
  assert.deepEqual([duration(12), duration(1500), duration(61_000), duration(7_260_000)], ['12 ms', '1.50 s', '1 min 1 s', '2 h 1 min']);
});

test('base64 there and back', () => {
  const raw = Uint8Array.from({ length: 70_000 }, (_, index) => index % 256);
  assert.deepEqual(fromBase64(toBase64(raw)), raw);
  assert.equal(fromBase64('*'), null);
});

test('words of a shell', () => {
  assert.equal(quoteShell('plain-1.txt'), 'plain-1.txt');
  assert.equal(quoteShell("a'b $(c)"), `'a'\\''b $(c)'`);
  assert.equal(quoteShell("a\u0003b\n'!\\\t\u009b\u202e"), "$'a\\x03b\\n\\x27\\x21\\\\\\t\\xc2\\x9b\\xe2\\x80\\xae'");
});

test('a shell reads back each word, and a terminal finds no control character in it', () => {
  const words = ['', '$HOME', "it's", 'echo 1\n# \u0003\ntouch /tmp/x\n#', '\u001b[201~; id', '\u0015\u007f\u0080f', '!!\n', '\\x41\n', '\u{1f600}\u200b', '-n\r'];
  for (const word of words) {
    const quoted = quoteShell(word);
    assert.ok(!/\p{Cc}/u.test(quoted), JSON.stringify(word));
    assert.equal(execFileSync('/bin/bash', ['-c', `printf %s ${quoted}`]).toString(), word);
  }
});

test('the development server knows its own page', () => {
  const own = { host: '127.0.0.1:8810' };
  for (const headers of [own, { ...own, origin: 'http://127.0.0.1:8810', 'sec-fetch-site': 'same-origin' }, { host: 'localhost:8810', 'sec-fetch-site': 'none' }]) assert.equal(isForeign(headers), false);
  for (const more of [{ origin: 'https://evil.test' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }, { origin: 'http://127.0.0.1:1' }, { host: 'evil.test:8810' }]) {
    assert.equal(isForeign({ ...own, ...more }), true, JSON.stringify(more));
  }
});

test('without the findings Home says how many there are', () => {
  const of = (missing: number, reduced: number, connected = true) => ({ connected, counts: { ok: 22, missing, reduced } });
  assert.equal(summary(of(4, 1), 0), '4 missing, 1 reduced, 22 checks passed. An operator sees which.');
  assert.equal(summary(of(0, 0), 0), 'Nothing is missing: 22 checks passed.');
  assert.equal(summary(of(4, 1), 5), null);
  assert.equal(summary(of(0, 0, false), 0), null);
});

test('a later page that is read again takes its place', () => {
  const id = (row: string): string => row;
  const old = { rows: [...'abcdefgh'], cursor: 'after h' };
  const again = (mark: string, page: string, cursor: string | null) => spliced(old, { id: mark, cursor: '' }, { rows: [...page], cursor }, id);
  assert.deepEqual(again('b', 'cef', 'after f'), { rows: [...'abcefgh'], cursor: 'after h', next: { id: 'f', cursor: 'after f' } });
  assert.deepEqual(again('e', 'fhi', 'after i'), { rows: [...'abcdefhi'], cursor: 'after i', next: null }, 'beyond the rows at hand');
  assert.deepEqual(again('e', 'f', null), { rows: [...'abcdef'], cursor: null, next: null }, 'the list became shorter');
  assert.equal(again('x', 'f', null), null);
});

test('a table of any length has few rows in the page', () => {
  for (const top of [0, 36, 5000, 359_000, 1e9]) {
    const { first, last } = visibleWindow(top, 4000, 36, 10_000);
    assert.ok(first >= 0 && last <= 10_000 && last - first <= 180 && last > first, String(top));
    if (top < 359_000) assert.ok(first * 36 <= top && last * 36 > top, 'the rows in sight are there');
  }
  assert.deepEqual(visibleWindow(0, 500, 36, 0), { first: 0, last: 0 });
});

test('marks are cut at bytes, and may overlap', () => {
  const found = pieces('é sudo bash', [{ begin: 3, end: 12, title: 'one' }, { begin: 8, end: 12, title: 'two' }, { begin: 90, end: 99, title: 'outside' }]);
  assert.deepEqual(found, [{ text: 'é ', titles: [] }, { text: 'sudo ', titles: ['one'] }, { text: 'bash', titles: ['one', 'two'] }]);
});

test('quantiles and latencies', () => {
  assert.equal(quantiles([]), null);
  assert.deepEqual(quantiles([5, 1, 3, 2, 4]), { p50: 3, p99: 5 });
  const run = (ms: number): Execution => ({
    created_at: '2026-01-01T00:00:00.000Z', started_at: '2026-01-01T00:00:00.050Z', finished_at: '2026-01-01T00:00:01.000Z', resource_usage: { wall_ms: ms },
  }) as unknown as Execution;
  assert.deepEqual(latencies([run(10), run(20), { ...run(5), started_at: null }]), { start: { p50: 50, p99: 50 }, run: { p50: 10, p99: 20 } });
});

test('use over time comes from totals', () => {
  const at = (wall: number, cpu: number, rss: number): Usage => ({ wall_ms: wall, cpu_ms: cpu, max_rss_bytes: rss }) as Usage;
  assert.deepEqual(rates([at(1000, 500, 10), at(1000, 500, 10), at(3000, 2500, 20)]), { times: [1, 3], processors: [0.5, 1], memory: [10, 20] });
});

test('sessions and snapshots make a tree, and a loop makes no endless one', () => {
  const session = (id: string, from: string | null): Session => ({ id, from_snapshot: from, created_at: id }) as unknown as Session;
  const snapshot = (id: string, of: string): Snapshot => ({ id, session_id: of, created_at: id }) as unknown as Snapshot;
  const lines = linesOf(treeOf('ses_c', [session('ses_a', null), session('ses_b', 'snap_1'), session('ses_c', 'snap_1')], [snapshot('snap_1', 'ses_a'), snapshot('snap_2', 'ses_c')]));
  assert.deepEqual(lines.map(({ node, depth }) => `${depth} ${node.id}`), ['0 ses_a', '1 snap_1', '2 ses_b', '2 ses_c', '3 snap_2']);
  const loop = linesOf(treeOf('ses_a', [session('ses_a', 'snap_1')], [snapshot('snap_1', 'ses_a')]));
  assert.equal(loop.length, 2);
});

test('a first page that is read again replaces what it had', () => {
  const rest = (old: string, page: string, cursor: string | null): string => following([...old], [...page], cursor, (row) => row).join('');
  assert.equal(rest('abc', 'ac', null), '', 'a row that left the list is gone');
  assert.equal(rest('bcdef', 'abc', 'next'), 'def');
  assert.equal(rest('abcdef', 'acd', 'next'), 'ef', 'also from a page that has followers');
  assert.equal(rest('defg', 'abc', 'next'), '', 'after too many new rows the list begins anew');
  assert.equal(rest('abc', '', null), '');
});
