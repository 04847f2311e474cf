// SPDX-License-Identifier: Apache-2.0
// JSON without loss, as the service hashes it: integers of any size keep their digits, a repeated member and a
// lone surrogate are errors. `canonical` writes the canonical form of docs/AUDIT.md.

/** A number with a fraction or an exponent. Signed records contain none, so it only keeps its text. */
export class Fraction {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | string | number | bigint | Fraction | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

export const MAX_DEPTH = 64;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const LITERAL = /true|false|null/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const LONE_SURROGATE = /\p{Surrogate}/u;
const ESCAPES: Record<string, string> = {
  '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t',
};

export class JsonError extends Error {}

class Parser {
  private at = 0;
  constructor(private readonly text: string) {}

  document(): Json {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) this.wrong();
    return value;
  }

  private wrong(why = 'is no JSON'): never {
    throw new JsonError(`character ${this.at}: ${why}`);
  }

  private take(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) this.wrong();
    this.at += found[0].length;
    return found[0];
  }

  private space(): void {
    this.take(SPACE);
  }

  private value(depth: number): Json {
    if (depth > MAX_DEPTH) this.wrong(`is nested deeper than ${MAX_DEPTH}`);
    this.space();
    const first = this.text[this.at];
    if (first === '{') return this.object(depth);
    if (first === '[') return this.array(depth);
    if (first === '"') return this.string();
    if (first === '-' || (first !== undefined && first >= '0' && first <= '9')) return this.number();
    const word = this.take(LITERAL);
    return word === 'null' ? null : word === 'true';
  }

  private number(): Json {
    const text = this.take(NUMBER);
    if (/[.eE]/.test(text)) return new Fraction(text);
    const value = Number(text);
    return Number.isSafeInteger(value) ? value + 0 : BigInt(text);
  }

  private string(): string {
    this.at += 1;
    let out = '';
    for (;;) {
      out += this.take(PLAIN);
      const next = this.text[this.at++];
      if (next === '"') break;
      if (next !== '\\') this.wrong('ends inside a string, or has a control character there');
      out += this.escape();
    }
    if (LONE_SURROGATE.test(out)) this.wrong('has half a character in a string');
    return out;
  }

  private escape(): string {
    const letter = this.text[this.at++] ?? '';
    if (letter !== 'u') return ESCAPES[letter] ?? this.wrong('has an unknown escape');
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.wrong('has an unknown escape');
    this.at += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }

  private next(close: string): boolean {
    this.space();
    const found = this.text[this.at++];
    if (found !== ',' && found !== close) this.wrong();
    return found === ',';
  }

  private opensEmpty(close: string): boolean {
    this.at += 1;
    this.space();
    if (this.text[this.at] !== close) return false;
    this.at += 1;
    return true;
  }

  private array(depth: number): Json[] {
    const out: Json[] = [];
    if (this.opensEmpty(']')) return out;
    do out.push(this.value(depth + 1));
    while (this.next(']'));
    return out;
  }

  private object(depth: number): JsonObject {
    const out: JsonObject = Object.create(null) as JsonObject;
    if (this.opensEmpty('}')) return out;
    do {
      this.space();
      if (this.text[this.at] !== '"') this.wrong();
      const name = this.string();
      if (name in out) this.wrong('has a member twice');
      this.space();
      if (this.text[this.at++] !== ':') this.wrong();
      out[name] = this.value(depth + 1);
    } while (this.next('}'));
    return out;
  }
}

export function parse(text: string): Json {
  return new Parser(text).document();
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Fraction);
}

/** Orders names by the bytes of their UTF-8, which is the order of their code points. */
export function byBytes(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  for (let i = 0; i < left.length && i < right.length; i++) {
    const difference = left[i]!.codePointAt(0)! - right[i]!.codePointAt(0)!;
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

const SHORT: Record<string, string> = { '"': '\\"', '\\': '\\\\', '\b': '\\b', '\f': '\\f', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

export function quoted(text: string): string {
  const escaped = text.replace(
    /["\\\u0000-\u001f]/g,
    (one) => SHORT[one] ?? '\\u' + one.charCodeAt(0).toString(16).padStart(4, '0'),
  );
  return `"${escaped}"`;
}

export function canonical(value: Json): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return quoted(value);
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (value instanceof Fraction) throw new JsonError(`a signed record has no fraction: ${value.text}`);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const names = Object.keys(value).sort(byBytes);
  return `{${names.map((name) => `${quoted(name)}:${canonical(value[name]!)}`).join(',')}}`;
}
