// SPDX-License-Identifier: Apache-2.0
// The verification in the browser, with vectors from a real server (vectors/): as they came, and changed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import './webcrypto';
import { Chain, entryForm, readHead, verifyHead } from '../src/verify/chain';
import { fromBase64 } from '../src/verify/crypto';
import { canonical, isObject, parse } from '../src/verify/json';
import { verifyReceipt } from '../src/verify/receipt';

const vectors = process.env['VECTORS'] ?? 'tests/vectors';
const text = (name: string): string => readFileSync(`${vectors}/${name}`, 'utf8');
const log = text('audit.jsonl');
const key = text('audit.pub').trim();
const lines = log.trimEnd().split('\n');

async function walk(whole: string | Uint8Array, step = 4096, heads = ''): Promise<Chain> {
  const chain = new Chain();
  for (const line of heads.split('\n').filter(Boolean)) chain.expect(readHead(line), true);
  const bytes = typeof whole === 'string' ? new TextEncoder().encode(whole) : whole;
  for (let at = 0; at < bytes.length; at += step) await chain.feed(bytes.subarray(at, at + step));
  chain.finish();
  return chain;
}

const broken = (position: number, problem: RegExp) => (error: Error & { position?: number }) => {
  assert.equal(error.position, position);
  assert.match(error.message, problem);
  return true;
};

test('numbers keep all their digits', () => {
  const source = '{"a":9223372036854775807,"b":-9007199254740993,"c":18446744073709551615,"d":7}';
  assert.equal(canonical(parse(source)), source);
});

test('members are sorted by the bytes of their names', () => {
  assert.equal(canonical(parse('{"\u{1f600}":1,"\uffee":2,"b":{"z":1,"a":2},"a":3}')), '{"a":3,"b":{"a":2,"z":1},"\uffee":2,"\u{1f600}":1}');
  assert.equal(canonical(parse('{"10":1,"9":2,"__proto__":3}')), '{"10":1,"9":2,"__proto__":3}');
});

test('strings have the escapes of RFC 8785', () => {
  assert.equal(canonical(parse('"\\u0000\\u001F\\u007f\\/\\"\\\\\\n\\u00e9"')), '"\\u0000\\u001f\u007f/\\"\\\\\\né"');
});

test('what is no JSON is refused', () => {
  for (const bad of ['{"a":1,"a":2}', '01', '[1,]', '"\\ud800"', '{"a":1}x', 'nul', '', '"\n"', '['.repeat(100)]) {
    assert.throws(() => parse(bad), Error, bad);
  }
  assert.throws(() => canonical(parse('1.5')), /fraction/);
});

test('the log of a real server verifies, however its bytes are cut', async () => {
  for (const step of [1 << 20, 1000, 37]) {
    const chain = await walk(log, step, text('audit.checkpoints'));
    assert.equal(chain.entries, lines.length);
    assert.ok(chain.held > 3);
    const last = parse(lines.at(-1)!);
    assert.equal(chain.head, isObject(last) && last['hash']);
  }
});

test('the signed heads are signed, and a changed one is not', async () => {
  for (const line of text('audit.checkpoints').trimEnd().split('\n')) {
    const head = readHead(line);
    assert.equal(await verifyHead(head, fromBase64(key)), true);
    assert.equal(await verifyHead({ ...head, at: `${head.at}1` }, fromBase64(key)), false);
    assert.equal(await verifyHead({ ...head, seq: head.seq + 1 }, fromBase64(key)), false);
  }
});

test('one flipped bit anywhere in an entry is found there', async () => {
  const bytes = new TextEncoder().encode(log);
  let start = 0;
  for (let entry = 1; entry <= lines.length; entry++) {
    const length = new TextEncoder().encode(lines[entry - 1]!).length;
    for (const part of [0.1, 0.35, 0.6, 0.85]) {
      const copy = bytes.slice();
      copy[start + Math.floor(length * part)]! ^= 1;
      await assert.rejects(walk(copy), broken(entry, /./));
    }
    start += length + 1;
  }
});

test('a removed, swapped, doubled and cut entry is named', async () => {
  const without = lines.filter((_, index) => index !== 4).join('\n') + '\n';
  await assert.rejects(walk(without), broken(5, /is missing: entry 6 stands in its place/));
  const unnumbered = lines.map((line) => line.replace(/,"position":\d+/, ''));
  await assert.rejects(walk(unnumbered.filter((_, index) => index !== 4).join('\n') + '\n'), broken(5, /does not follow entry 4/));
  await assert.rejects(walk(unnumbered.slice(2).join('\n') + '\n'), broken(1, /export as an administrator/));
  const doubled = [...unnumbered.slice(0, 3), ...unnumbered.slice(2)].join('\n') + '\n';
  await assert.rejects(walk(doubled), broken(4, /does not follow entry 3/));
  await assert.rejects(walk(lines.slice(0, -3).join('\n') + '\n', 4096, text('audit.checkpoints')), broken(lines.length - 2, /is missing: entry \d+ was published/));
  await assert.rejects(walk(log.slice(0, -1)), broken(lines.length, /its line has no end/));
});

test('a number of the details in other words is found', async () => {
  const changed = lines[0]!.replace('"details":{"name":', '"details":{ "name":');
  await assert.rejects(walk([changed, ...lines.slice(1)].join('\n') + '\n'), broken(1, /not its canonical form/));
});

test('a changed sealed text is found', async () => {
  const at = lines.findIndex((line) => line.includes('"sealed":{"reason":{"salt"') && line.includes('carol says'));
  const changed = lines.map((line, index) => (index === at ? line.replace('carol says', 'carol said') : line));
  await assert.rejects(walk(changed.join('\n') + '\n'), broken(at + 1, /its sealed "reason" is another/));
});

test('a chain that was computed anew differs from a published head', async () => {
  const heads = text('audit.checkpoints').trimEnd().split('\n');
  const head = readHead(heads[2]!);
  const other = JSON.stringify({ ...head, at: Number(head.at), hash: 'f'.repeat(64) });
  await assert.rejects(walk(log, 4096, other), broken(head.seq, /was published with another hash/));
});

test('the form of an entry is the hashed text', () => {
  const entry = parse(lines[0]!);
  assert.ok(isObject(entry));
  delete entry['hash'];
  delete entry['position'];
  assert.ok(lines[0]!.startsWith(entryForm(entry).slice(0, -1)));
});

test('a real receipt verifies', async () => {
  const verdict = await verifyReceipt(text('receipt.json'), key);
  assert.equal(verdict.problem, '');
  assert.equal(verdict.ok, true);
  assert.ok(verdict.covered > 30);
});

test('a changed, removed and added value of a receipt is named', async () => {
  const receipt = text('receipt.json');
  const told = async (changed: string): Promise<string> => {
    assert.notEqual(changed, receipt);
    const verdict = await verifyReceipt(changed, key);
    assert.equal(verdict.ok, false);
    return verdict.problem;
  };
  assert.match(await told(receipt.replace(/"max_rss_bytes":\d+/, '"max_rss_bytes":1')), /^\/usage\/max_rss_bytes: was changed$/);
  assert.match(await told(receipt.replace(/"max_rss_bytes":(\d+)/, '"max_rss_bytes":$1.0')), /fraction/);
  assert.match(await told(receipt.replace(/"max_rss_bytes":\d+,/, '')), /^\/usage\/max_rss_bytes: was removed$/);
  assert.match(await told(receipt.replace('"usage":{', '"usage":{"more":1,')), /^\/usage\/more: was added$/);
  assert.match(await told(receipt.replace(/"value":"./, '"value":"_')), /./);
  assert.match(await told(receipt.replace(/"key":"[0-9a-f]{16}","value"/, '"key":"0000000000000000","value"')), /is not the key/);
  assert.match((await verifyReceipt(receipt, 'AAAA')).problem, /is not the key/);
  assert.match((await verifyReceipt('{', key)).problem, /JSON/);
});
