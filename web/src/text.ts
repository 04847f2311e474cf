// SPDX-License-Identifier: Apache-2.0
// Texts of sandboxes, clients and destinations, for people. All of them are hostile.

// Control characters, characters without width, and characters that change the direction of text.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

const code = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;

/** One line in which each hidden character is an escape. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => (character === '\n' ? '\u21b5' : character === '\t' ? '\u21e5' : code(character)));
}

/** Several lines: as `visible`, but new lines and tabs stay. */
export function visibleLines(text: string): string {
  return text.replace(HIDDEN, (character) => (character === '\n' || character === '\t' ? character : code(character)));
}

// CSI, OSC and other sequences of terminals, in output that is shown as text.
// eslint-disable-next-line no-control-regex
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;

// A sequence without its end, at the end of a piece of output. The bounds keep text that only looks like one.
// eslint-disable-next-line no-control-regex
const UNFINISHED = /\u001b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\u0007\u001b]{0,4096}\u001b?|[ -/]{0,8})?$/;
const MAX_CARRIED = 4096;

/** Output of a program as text: without colours, with its hidden characters as escapes. */
export function outputText(text: string): string {
  return visibleLines(text.replace(UNFINISHED, '').replace(SEQUENCES, '').replace(/\r+\n/g, '\n').replace(/^.*\r(?!$)/gm, '').replace(/\r+$/, ''));
}

/** Where the end of a piece begins that the following piece goes on with: an unfinished sequence, or a `line`, which may be overwritten. */
export function unfinishedAt(text: string, line: boolean): number {
  const begin = line ? text.lastIndexOf('\n') + 1 : text.length;
  if (text.length - begin <= MAX_CARRIED && begin < text.length) return begin;
  const end = UNFINISHED.exec(text)?.index ?? text.length;
  return text[end - 1] === '\r' ? end - 1 : end;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(count: number): string {
  if (!Number.isFinite(count)) return '\u2013';
  let unit = 0;
  let value = count;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function number(count: number): string {
  return count.toLocaleString('en-GB');
}

export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return '\u2013';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const two = (value: number): string => String(value).padStart(2, '0');

export function timeText(at: Date, utc: boolean): string {
  if (utc) return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function ago(at: Date, now: number): string {
  const seconds = Math.round((now - at.getTime()) / 1000);
  const future = seconds < 0;
  const size = Math.abs(seconds);
  let text = `${size} s`;
  if (size >= 172_800) text = `${Math.floor(size / 86_400)} d`;
  else if (size >= 7200) text = `${Math.floor(size / 3600)} h`;
  else if (size >= 90) text = `${Math.round(size / 60)} min`;
  return future ? `in ${text}` : `${text} ago`;
}

const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/;

// Also the quote, for shells that look for `!` before they read `\'`, and `!` itself.
const escapeShell = (character: string): string =>
  (character === '\n' ? '\\n' : character === '\t' ? '\\t' : character === '\\' ? '\\\\'
    : [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join(''));

/**
 * A word of a shell, on one line. A terminal acts on control characters in a pasted text even between quotes: a word with
 * hidden characters is written as $'…' with escapes (bash, zsh, ksh, POSIX.1-2024).
 */
export function quoteShell(word: string): string {
  if (PLAIN.test(word)) return word;
  if (word.search(HIDDEN) < 0) return `'${word.replace(/'/g, `'\\''`)}'`;
  return `$'${word.replace(/[\\'!]/g, escapeShell).replace(HIDDEN, escapeShell)}'`;
}

/** Bytes from base64, or null. */
export function fromBase64(text: string): Uint8Array | null {
  try {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let index = 0; index < raw.length; index += 1) out[index] = raw.charCodeAt(index);
    return out;
  } catch {
    return null;
  }
}

export function toBase64(data: Uint8Array): string {
  let raw = '';
  for (let start = 0; start < data.length; start += 0x8000) raw += String.fromCharCode(...data.subarray(start, start + 0x8000));
  return btoa(raw);
}
