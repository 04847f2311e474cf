// SPDX-License-Identifier: Apache-2.0
// Verifies that a signed root contains one entry (docs/AUDIT.md, "Proofs for one entry"), and that kept roots form
// one row. A proof tells nothing about other entries.
import { entryForm, sealProblem } from './chain';
import { bytesOf, fromBase64, hex, keyId, sha256, sha256Hex, verifySignature } from './crypto';
import { isObject, type Json, type JsonObject, parse } from './json';

const DEPTH = 64;
const MAX_BYTES = 1 << 20;
const NODE = 1;
const DIGEST = /^[0-9a-f]{64}$/;

export interface RootRecord {
  number: number;
  /** Microseconds since 1970; the record covers entries of this period. */
  begins: number;
  ends: number;
  root: string;
  log: string;
  prev: string;
  key: string;
  signature: string;
}

export interface ProofVerdict {
  ok: boolean;
  problem: string;
  entry: JsonObject | null;
  record: RootRecord | null;
}

class Wrong extends Error {}

function need(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Wrong(problem);
}

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return out;
}

function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export function readRecord(value: Json | undefined): RootRecord {
  need(isObject(value), 'the record of the root is missing');
  const { number, begins, ends, root, log, prev, key, signature } = value;
  for (const [name, each] of Object.entries({ number, begins, ends })) {
    need(typeof each === 'number' && each >= 0, `record.${name}: must be a whole number`);
  }
  for (const [name, each] of Object.entries({ root, log, prev })) {
    need(typeof each === 'string' && DIGEST.test(each), `record.${name}: must be 64 lower-case hex digits`);
  }
  need(typeof key === 'string' && typeof signature === 'string', 'record.signature: is missing');
  return { number, begins, ends, root, log, prev, key, signature } as RootRecord;
}

export function recordText(record: RootRecord): string {
  const { number, begins, ends, root, log, prev } = record;
  return ['cloister-audit-root v1', number, begins, ends, root, log, prev, ''].join('\n');
}

async function checkRecord(record: RootRecord, key: Uint8Array<ArrayBuffer>): Promise<void> {
  const id = await keyId(key);
  need(record.key === id, `root ${record.number}: is not signed with the key ${id}`);
  const good = await verifySignature(key, recordText(record), fromBase64(record.signature));
  need(good, `root ${record.number}: its signature is not valid`);
}

/** The digest at the top of the tree, from the entry's hash along its place. */
async function rootOf(hash: string, place: string, siblings: string[]): Promise<string> {
  let digest = await sha256(joined(bytesOf('cloister-audit-leaf v1\n'), fromHex(place), fromHex(hash)));
  const bits = BigInt(`0x${place}`);
  for (let i = 0; i < DEPTH; i++) {
    const sibling = fromHex(siblings[i]!);
    const right = ((bits >> BigInt(i)) & 1n) === 1n;
    digest = await sha256(right ? joined(Uint8Array.of(NODE), sibling, digest) : joined(Uint8Array.of(NODE), digest, sibling));
  }
  return hex(digest);
}

async function checkEntry(line: Json | undefined): Promise<{ entry: JsonObject; hash: string }> {
  need(isObject(line), 'entry: is missing');
  const entry: JsonObject = Object.assign(Object.create(null) as JsonObject, line);
  const { hash, sealed } = entry;
  for (const name of ['hash', 'sealed', 'position']) delete entry[name];
  need(typeof hash === 'string' && DIGEST.test(hash), 'entry.hash: must be 64 lower-case hex digits');
  need(isObject(entry['details']), 'entry.details: must be an object');
  need((await sha256Hex(entryForm(entry))) === hash, 'entry: its bytes do not match its hash');
  const problem = await sealProblem(entry, sealed);
  need(problem === '', `entry: ${problem}`);
  return { entry, hash };
}

async function check(text: string, publicKey: string): Promise<ProofVerdict> {
  need(text.length <= MAX_BYTES, `the proof is larger than ${MAX_BYTES} bytes`);
  const proof = parse(text);
  need(isObject(proof) && proof['version'] === 1, 'version: must be 1');
  const { place, siblings } = proof;
  need(typeof place === 'string' && /^[0-9a-f]{16}$/.test(place), 'place: must be 16 lower-case hex digits');
  const hexes = Array.isArray(siblings) ? siblings.filter((each): each is string => typeof each === 'string' && DIGEST.test(each)) : [];
  need(Array.isArray(siblings) && siblings.length === DEPTH && hexes.length === DEPTH, `siblings: must be ${DEPTH} digests`);
  const { entry, hash } = await checkEntry(proof['entry']);
  const record = readRecord(proof['record']);
  need((await rootOf(hash, place, hexes)) === record.root, 'the root does not contain this entry');
  await checkRecord(record, fromBase64(publicKey.trim()));
  return { ok: true, problem: '', entry, record };
}

/** `text` is the proof as the service sent it; `publicKey` is the base64 of the audit key. */
export async function verifyProof(text: string, publicKey: string): Promise<ProofVerdict> {
  try {
    return await check(text, publicKey);
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error), entry: null, record: null };
  }
}

export const MAX_ROOTS = 20_000;

/** Records that a person kept, to compare with those that the service has now. */
export class KeptRoots {
  private readonly texts = new Map<number, string>();
  newest = 0;

  /** `file`: one record a line, or the answer of GET /v1/audit/roots. Throws with the reason where it is neither. */
  constructor(file: string) {
    const lines = file.split('\n').filter((line) => line.trim() !== '');
    for (const line of lines) {
      const value = parse(line);
      const records = isObject(value) && Array.isArray(value['roots']) ? value['roots'] : [value];
      for (const each of records) this.add(readRecord(each));
    }
    need(this.texts.size > 0, 'the file has no root: choose a copy of the roots');
  }

  private add(record: RootRecord): void {
    need(this.texts.size < MAX_ROOTS, `the file has more than ${MAX_ROOTS} roots: leave out old ones`);
    this.texts.set(record.number, recordText(record) + record.signature);
    this.newest = Math.max(this.newest, record.number);
  }

  /** Throws if the kept record of this number is another. → whether there is one. */
  compare(record: RootRecord): boolean {
    const kept = this.texts.get(record.number);
    need(kept === undefined || kept === recordText(record) + record.signature, `root ${record.number}: differs from the one that you kept`);
    return kept !== undefined;
  }

  /** Throws if the service's row ends before the newest kept record. */
  finish(last: number): void {
    need(this.newest <= last, `root ${last + 1} is missing: you kept root ${this.newest}`);
  }
}

/** Follows records, oldest first: one row, each signed. Bounded memory: it keeps the last record alone. */
export class RootRow {
  records = 0;
  last: RootRecord | null = null;
  private digest = '';
  constructor(private readonly publicKey: Uint8Array<ArrayBuffer>) {}

  /** Throws with the first defect. */
  async add(record: RootRecord): Promise<void> {
    if (this.last) {
      need(record.number === this.last.number + 1, `root ${this.last.number + 1} is missing`);
      need(record.begins === this.last.ends, `root ${record.number}: does not begin where the previous one ends`);
      need(record.prev === this.digest, `root ${record.number}: does not follow root ${this.last.number}`);
    } else {
      need(record.number > 1 || record.prev === '0'.repeat(64), 'root 1: names a root before it');
    }
    await checkRecord(record, this.publicKey);
    this.digest = await sha256Hex(recordText(record));
    this.last = record;
    this.records += 1;
  }
}
