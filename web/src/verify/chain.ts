// SPDX-License-Identifier: Apache-2.0
// Walks an exported audit log, one line at a time, and names the first bad entry. Numbers
// keep their digits (json.ts). Memory: one line, the last number of each tenant, and
// the published heads.
import { fromBase64, keyId, sha256Hex, verifySignature } from './crypto';
import { canonical, isObject, type Json, type JsonObject, parse, quoted } from './json';
import { Numbering } from './numbering';

export const MAX_LINE = 16 << 20;
export const MAX_HEADS = 100_000;
export const MEMBERS = [
  'seq', 'at', 'action', 'subject', 'tenant', 'app', 'agent', 'user', 'key', 'details', 'prev',
] as const;
const NO_HASH = '0'.repeat(64);

export class ChainError extends Error {
  constructor(readonly position: number, problem: string) {
    super(position > 0 ? `entry ${position}: ${problem}` : problem);
  }
}

export interface Head {
  seq: number;
  hash: string;
  at: string;
  key: string;
  signature: string;
}

/** The canonical form of an entry: the hashed text. */
export function entryForm(entry: JsonObject): string {
  return `{${MEMBERS.map((name) => `${quoted(name)}:${canonical(entry[name]!)}`).join(',')}}`;
}

/** The digest that stands in an entry for the sealed `value`. */
export function sealOf(salt: string, value: Json): Promise<string> {
  return sha256Hex(`cloister-audit-seal v1\n${salt}\n${canonical(value)}`);
}

/** Reads a line of a checkpoint file, without a check of its signature. */
export function readHead(line: string): Head {
  const value = parse(line);
  if (!isObject(value)) throw new Error('is no checkpoint');
  const { seq, hash, at, key, signature } = value;
  if (typeof seq !== 'number' || typeof hash !== 'string' || typeof signature !== 'string' ||
      typeof key !== 'string' || (typeof at !== 'number' && typeof at !== 'bigint')) {
    throw new Error('is no checkpoint');
  }
  return { seq, hash, at: String(at), key, signature };
}

export async function verifyHead(head: Head, publicKey: Uint8Array<ArrayBuffer>): Promise<boolean> {
  if (head.key !== (await keyId(publicKey))) return false;
  const text = `cloister-audit-checkpoint v1\n${head.seq}\n${head.hash}\n${head.at}\n`;
  return await verifySignature(publicKey, text, fromBase64(head.signature));
}

export class Chain {
  entries = 0;
  head = NO_HASH;
  /** Kept heads that agreed with the log. */
  held = 0;
  /** Microseconds since 1970 of the last entry. */
  at = 0;
  private readonly numbering = new Numbering();
  private readonly heads = new Map<number, string>();
  private readonly kept = new Set<number>();
  private readonly decoder = new TextDecoder('utf-8', { fatal: true });
  private pending: Uint8Array[] = [];
  private pendingBytes = 0;

  /** Adds a published head; its signature is verified by the caller. `kept`: not from the service that is verified. */
  expect(head: Pick<Head, 'seq' | 'hash'>, kept: boolean): void {
    const known = this.heads.get(head.seq);
    if (known !== undefined && known !== head.hash) {
      throw new ChainError(head.seq, 'was published with two hashes');
    }
    if (this.heads.size >= MAX_HEADS) throw new ChainError(0, `more than ${MAX_HEADS} heads: leave out old ones`);
    this.heads.set(head.seq, head.hash);
    if (kept) this.kept.add(head.seq);
  }

  /** Takes the next bytes of the export; throws ChainError at the first bad entry. */
  async feed(bytes: Uint8Array): Promise<void> {
    let from = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, from)) {
      await this.line(this.taken(bytes.subarray(from, end)));
      from = end + 1;
    }
    if (from < bytes.length) this.keep(bytes.subarray(from));
  }

  /** Discards an unfinished line, before the export continues behind the last entry. */
  forgetPartialLine(): void {
    this.pending = [];
    this.pendingBytes = 0;
  }

  /** Ends the walk: the log must reach the newest published head. */
  finish(): void {
    if (this.pendingBytes > 0) throw new ChainError(this.entries + 1, 'its line has no end');
    const newest = Math.max(0, ...this.heads.keys());
    if (newest > this.entries) {
      throw new ChainError(this.entries + 1, `is missing: entry ${newest} was published`);
    }
  }

  private keep(part: Uint8Array): void {
    this.pendingBytes += part.length;
    if (this.pendingBytes > MAX_LINE) throw new ChainError(this.entries + 1, 'its line is too long');
    this.pending.push(part.slice());
  }

  private taken(last: Uint8Array): Uint8Array<ArrayBuffer> {
    const whole = new Uint8Array(this.pendingBytes + last.length);
    let at = 0;
    for (const part of this.pending) {
      whole.set(part, at);
      at += part.length;
    }
    whole.set(last, at);
    this.forgetPartialLine();
    if (whole.length > MAX_LINE) throw new ChainError(this.entries + 1, 'its line is too long');
    return whole;
  }

  private async line(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const position = this.entries + 1;
    const problem = await this.problemOf(position, bytes).catch((error: unknown) =>
      `is not a line of the log (${error instanceof Error ? error.message : String(error)})`);
    if (problem) throw new ChainError(position, problem);
    this.entries = position;
  }

  /** Checks one line and takes its hash as the new head; returns the problem, or the empty string. */
  private async problemOf(position: number, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
    const text = this.decoder.decode(bytes);
    const entry = parse(text);
    if (!isObject(entry)) return 'is not a line of the log';
    const { hash, sealed, position: stated } = entry;
    delete entry['hash'];
    delete entry['sealed'];
    delete entry['position'];
    if (typeof hash !== 'string' || !hasMembers(entry)) return 'its members are not those of an entry';
    if (stated !== undefined && stated !== position) return `is missing: entry ${String(stated)} stands in its place`;
    const form = entryForm(entry);
    if ((await sha256Hex(form)) !== hash) return 'its bytes do not match its hash';
    if (!text.startsWith(`${form.slice(0, -1)},"hash":`)) return 'its bytes are not its canonical form';
    const unsealed = await sealProblem(entry, sealed);
    if (unsealed) return unsealed;
    if (entry['prev'] !== this.head) return this.linkProblem(position, stated !== undefined);
    return this.numbering.check(position, entry) || this.accept(position, entry, hash);
  }

  private linkProblem(position: number, positioned: boolean): string {
    if (position === 1) return 'is not the first entry: export as an administrator from the start';
    const rest = positioned ? '' : '; an export without positions is one tenant\'s: export as an administrator';
    return `does not follow entry ${position - 1}, whose hash it does not carry${rest}`;
  }

  private accept(position: number, entry: JsonObject, hash: string): string {
    if (entry['action'] === 'ledger.recovered') {
      return `the ledger was found changed here: ${canonical(entry['details']!).slice(0, 500)}`;
    }
    const published = this.heads.get(position);
    if (published !== undefined && published !== hash) return 'was published with another hash';
    if (this.kept.has(position)) this.held += 1;
    this.head = hash;
    this.at = Number(entry['at']);
    return '';
  }
}

function hasMembers(entry: JsonObject): boolean {
  const names = Object.keys(entry);
  return names.length === MEMBERS.length && MEMBERS.every((name) => entry[name] !== undefined) &&
    isObject(entry['details']) && typeof entry['seq'] === 'number';
}

export async function sealProblem(entry: JsonObject, sealed: Json | undefined): Promise<string> {
  if (sealed === undefined) return '';
  if (!isObject(sealed)) return 'is not a line of the log';
  const details = entry['details'] as JsonObject;
  for (const [name, given] of Object.entries(sealed)) {
    const recorded = details[name];
    const known = isObject(given) && typeof given['salt'] === 'string' && given['value'] !== undefined &&
      isObject(recorded) && recorded['sealed'] === (await sealOf(given['salt'], given['value']));
    if (!known) return `its sealed ${quoted(name)} is another`;
  }
  return '';
}
