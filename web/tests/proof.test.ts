// SPDX-License-Identifier: Apache-2.0
// Proofs of inclusion, with the vector of docs/AUDIT.md: as it is, and changed in each member.
import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey, sign } from 'node:crypto';
import test from 'node:test';
import './webcrypto';
import vector from './vectors/audit_proof.json';
import { fromBase64, sha256Hex } from '../src/verify/crypto';
import { parse } from '../src/verify/json';
import { KeptRoots, readRecord, recordText, RootRow, type RootRecord, verifyProof } from '../src/verify/proof';

type Proof = typeof vector.proof;

async function problemOf(change: (proof: Proof) => void): Promise<string> {
  const proof = structuredClone(vector.proof);
  change(proof);
  const verdict = await verifyProof(JSON.stringify(proof), vector.public_key);
  assert.equal(verdict.ok, false);
  return verdict.problem;
}

const seed = Buffer.from(vector.seed, 'base64');
const key = createPrivateKey({ key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]), format: 'der', type: 'pkcs8' });

function signed(record: RootRecord): RootRecord {
  return { ...record, signature: sign(null, Buffer.from(recordText(record)), key).toString('base64') };
}

test('the vector verifies', async () => {
  const jwk = createPublicKey(key).export({ format: 'jwk' }).x!;
  assert.equal(Buffer.from(jwk, 'base64url').toString('base64'), vector.public_key);
  const verdict = await verifyProof(JSON.stringify(vector.proof), vector.public_key);
  assert.equal(verdict.problem, '');
  assert.equal(verdict.record?.number, 7);
  const record = readRecord(parse(JSON.stringify(vector.proof.record)));
  assert.equal(await sha256Hex(recordText(record)), '8f655de783aaca9369527e8fef33d21b5be4d22778640362aa54815ff76a0481');
});

test('each change of a proof is found', async () => {
  assert.match(await problemOf((p) => (p.entry.subject = 'exec_02')), /do not match its hash/);
  assert.match(await problemOf((p) => (p.entry.sealed.reason.value = 'other')), /its sealed "reason" is another/);
  assert.match(await problemOf((p) => (p.entry.hash = 'f'.repeat(64))), /do not match its hash/);
  assert.match(await problemOf((p) => (p.place = '8123456789abcdef')), /does not contain this entry/);
  assert.match(await problemOf((p) => (p.place = '8123')), /place: must be/);
  assert.match(await problemOf((p) => p.siblings.pop()), /siblings: must be 64/);
  assert.match(await problemOf((p) => p.siblings.push(p.siblings[0]!)), /siblings: must be 64/);
  assert.match(await problemOf((p) => p.siblings.reverse()), /does not contain this entry/);
  assert.match(await problemOf((p) => (p.record.root = 'a'.repeat(64))), /does not contain this entry/);
  assert.match(await problemOf((p) => (p.record.number = 8)), /signature is not valid/);
  assert.match(await problemOf((p) => (p.record.log = 'b'.repeat(64))), /signature is not valid/);
  assert.match(await problemOf((p) => (p.record.key = '0'.repeat(16))), /is not signed with the key/);
  assert.match(await problemOf((p) => (p.version = 2)), /version: must be 1/);
  const flipped = (text: string): string => (text[0] === 'A' ? 'B' : 'A') + text.slice(1);
  assert.match(await problemOf((p) => (p.record.signature = flipped(p.record.signature))), /signature is not valid/);
  assert.equal((await verifyProof('{', vector.public_key)).ok, false);
});

test('roots form one row', async () => {
  const first = signed({ ...(vector.proof.record as RootRecord), number: 1, prev: '0'.repeat(64) });
  const second = signed({ ...first, number: 2, begins: first.ends, ends: first.ends + 60, prev: await sha256Hex(recordText(first)) });
  const third = signed({ ...second, number: 3, begins: second.ends, ends: second.ends + 60, prev: await sha256Hex(recordText(second)) });
  const follow = async (records: RootRecord[]): Promise<RootRow> => {
    const row = new RootRow(fromBase64(vector.public_key));
    for (const each of records) await row.add(each);
    return row;
  };
  assert.equal((await follow([first, second, third])).records, 3);
  assert.equal((await follow([second, third])).records, 2);
  await assert.rejects(follow([first, third]), /root 2 is missing/);
  await assert.rejects(follow([signed({ ...first, prev: 'a'.repeat(64) })]), /names a root before it/);
  await assert.rejects(follow([first, signed({ ...second, prev: 'a'.repeat(64) })]), /does not follow root 1/);
  await assert.rejects(follow([first, signed({ ...second, begins: 1 })]), /does not begin where/);
  await assert.rejects(follow([first, { ...second, root: 'a'.repeat(64) }]), /signature is not valid/);
});

test('kept roots are compared with those of the service', () => {
  const record = vector.proof.record as RootRecord;
  const line = (change: Partial<RootRecord>): string => JSON.stringify({ ...record, ...change });
  const kept = new KeptRoots(`${line({})}\n${line({ number: 8 })}\n`);
  assert.equal(kept.compare(record), true);
  assert.equal(kept.compare({ ...record, number: 6 }), false);
  assert.throws(() => kept.compare({ ...record, root: 'a'.repeat(64) }), /root 7: differs from the one that you kept/);
  assert.throws(() => kept.finish(7), /root 8 is missing: you kept root 8/);
  kept.finish(8);
  assert.equal(new KeptRoots(JSON.stringify({ roots: [record], next_after: null })).newest, 7);
  assert.throws(() => new KeptRoots('\n'), /has no root/);
  assert.throws(() => new KeptRoots('{"number":1}'), /must be a whole number/);
});

test('a browser without Ed25519 gets the library, which agrees', async (context) => {
  context.mock.method(crypto.subtle, 'importKey', () => Promise.reject(new DOMException('no such algorithm', 'NotSupportedError')));
  assert.equal((await verifyProof(JSON.stringify(vector.proof), vector.public_key)).ok, true);
  assert.match(await problemOf((p) => (p.record.number = 8)), /signature is not valid/);
  assert.match(await problemOf((p) => (p.record.signature = `${'A'.repeat(86)}==`)), /signature is not valid/);
});
