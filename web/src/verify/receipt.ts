// SPDX-License-Identifier: Apache-2.0
// Verifies the receipt of an execution, as docs/AUDIT.md ("Receipts") describes it. Asks no server.
import { fromBase64, keyId, sha256Hex, verifySignature } from './crypto';
import { canonical, Fraction, isObject, type Json, type JsonObject, JsonError, parse } from './json';

const FORMAT = 'cloister-execution-receipt v1';
const MAX_BYTES = 4 << 20;
const MAX_NAMED = 10;

export interface FieldProblem {
  pointer: string;
  problem: 'was changed' | 'was removed' | 'was added';
}

export interface ReceiptVerdict {
  ok: boolean;
  /** The first problem in words, or the empty string. */
  problem: string;
  fields: FieldProblem[];
  /** Values that the signature covers. */
  covered: number;
  facts: JsonObject | null;
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function collect(pointer: string, value: Json, out: Map<string, Json>): void {
  if (value instanceof Fraction) throw new JsonError(`${pointer}: has a fraction`);
  if (Array.isArray(value) && value.length > 0) {
    value.forEach((item, index) => collect(`${pointer}/${index}`, item, out));
  } else if (isObject(value) && Object.keys(value).length > 0) {
    for (const name of Object.keys(value)) collect(`${pointer}/${escaped(name)}`, value[name]!, out);
  } else {
    out.set(pointer, value);
  }
}

function fieldDigest(pointer: string, value: Json): Promise<string> {
  return sha256Hex(`cloister receipt field v1\0${pointer}\0${canonical(value)}`);
}

async function compare(facts: JsonObject, fields: JsonObject): Promise<[FieldProblem[], number]> {
  const values = new Map<string, Json>();
  for (const name of Object.keys(facts)) collect(`/${escaped(name)}`, facts[name]!, values);
  const problems: FieldProblem[] = [];
  for (const pointer of Object.keys(fields)) {
    if (!values.has(pointer)) problems.push({ pointer, problem: 'was removed' });
  }
  for (const [pointer, value] of values) {
    const stated = fields[pointer];
    if (stated === undefined) problems.push({ pointer, problem: 'was added' });
    else if (stated !== (await fieldDigest(pointer, value))) problems.push({ pointer, problem: 'was changed' });
  }
  return [problems, values.size];
}

function inWords(problems: FieldProblem[]): string {
  const named = problems.slice(0, MAX_NAMED).map((each) => `${each.pointer}: ${each.problem}`);
  if (problems.length > MAX_NAMED) named.push(`and ${problems.length - MAX_NAMED} more`);
  return named.join('; ');
}

function bad(problem: string, facts: JsonObject | null = null): ReceiptVerdict {
  return { ok: false, problem, fields: [], covered: 0, facts };
}

/** `text` is the receipt as the service sent it, and `publicKey` the base64 of the audit key. */
export async function verifyReceipt(text: string, publicKey: string): Promise<ReceiptVerdict> {
  if (text.length > MAX_BYTES) return bad(`the receipt is larger than ${MAX_BYTES} bytes`);
  try {
    const receipt = parse(text);
    if (!isObject(receipt)) return bad('the receipt is no JSON object');
    return await verifyObject(receipt, fromBase64(publicKey.trim()));
  } catch (error) {
    return bad(error instanceof Error ? error.message : String(error));
  }
}

async function verifyObject(receipt: JsonObject, key: Uint8Array<ArrayBuffer>): Promise<ReceiptVerdict> {
  const { fields, signature } = receipt;
  const facts: JsonObject = Object.create(null) as JsonObject;
  for (const name of Object.keys(receipt)) {
    if (name !== 'fields' && name !== 'signature') facts[name] = receipt[name]!;
  }
  if (!isObject(fields)) return bad('/fields: is missing', facts);
  if (!isObject(signature)) return bad('/signature: is missing', facts);
  if (facts['format'] !== FORMAT) return bad(`/format: is not "${FORMAT}"`, facts);
  if (signature['algorithm'] !== 'ed25519') return bad('/signature/algorithm: is not "ed25519"', facts);
  const id = await keyId(key);
  if (signature['key'] !== id) return bad(`/signature/key: is not the key ${id}`, facts);
  const [problems, covered] = await compare(facts, fields);
  if (problems.length > 0) return { ok: false, problem: inWords(problems), fields: problems, covered, facts };
  const signed = [FORMAT, id, await sha256Hex(canonical(facts)), await sha256Hex(canonical(fields)), ''].join('\n');
  const value = typeof signature['value'] === 'string' ? signature['value'] : '';
  if (!(await verifySignature(key, signed, fromBase64(value)))) {
    return { ...bad('/signature/value: is not the signature of this receipt by this key', facts), covered };
  }
  return { ok: true, problem: '', fields: [], covered, facts };
}
