// SPDX-License-Identifier: Apache-2.0
// Finds where the cursor stands in a YAML text that a person is still typing, so it reads lines and brackets and no
// complete document. Steps of a path are member names, and '[]' for an item of a list.

export interface Place {
  /** The members and lists around the cursor, from the outside. */
  path: string[];
  /** `key`: a member's name is typed here. `value`: its value. */
  kind: 'key' | 'value';
  /** The typed beginning of the word, and its offset in the text. */
  word: string;
  from: number;
  /** Members that the same mapping has already. */
  present: string[];
}

interface Frame {
  indent: number;
  path: string[];
}

const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[A-Za-z0-9_.*-]+)\s*:(?=\s|$)/;
const MAX_LINES = 5000;

function unquoted(text: string): string {
  return /^["']/.test(text) ? text.slice(1, -1) : text;
}

/** Splits `  - - name: x` into the columns of its dashes and the rest with its column. */
function leading(line: string): { dashes: number[]; column: number; rest: string } {
  let column = line.length - line.trimStart().length;
  const dashes: number[] = [];
  let rest = line.slice(column);
  while (/^-(\s|$)/.test(rest)) {
    dashes.push(column);
    const skipped = rest.length - rest.slice(1).trimStart().length;
    column += skipped;
    rest = rest.slice(skipped);
  }
  return { dashes, column, rest };
}

function withoutComment(line: string): string {
  const at = line.search(/(^|\s)#/);
  return at < 0 ? line : line.slice(0, at);
}

/** The stack of open mappings and lists before `line`. */
function framesOf(lines: string[]): Frame[] {
  const stack: Frame[] = [];
  const pathNow = (): string[] => stack.at(-1)?.path ?? [];
  for (const raw of lines.slice(-MAX_LINES)) {
    const line = withoutComment(raw);
    if (line.trim() === '') continue;
    const { dashes, column, rest } = leading(line);
    for (const dash of dashes) {
      popTo(stack, dash, true);
      stack.push({ indent: dash, path: [...pathNow(), '[]'] });
    }
    const key = KEY.exec(rest);
    if (!key) continue;
    popTo(stack, column, false);
    stack.push({ indent: column, path: [...pathNow(), unquoted(key[1]!)] });
  }
  return stack;
}

/** Closes what does not contain a line at `column`. A list may stand at the column of its member. */
function popTo(stack: Frame[], column: number, dash: boolean): void {
  for (let top = stack.at(-1); top; top = stack.at(-1)) {
    const inList = top.path.at(-1) === '[]';
    const keeps = top.indent < column || (top.indent === column && dash && !inList);
    if (keeps) return;
    stack.pop();
  }
}

/** Follows the brackets of a flow collection: steps inside, whether a key is typed, and the open mapping's members. */
function flowOf(text: string): { steps: string[]; kind: 'key' | 'value'; word: string; present: string[] } | null {
  const open: { list: boolean; key: string | null; present: string[] }[] = [];
  let word = '';
  for (const letter of withoutComment(text)) {
    const top = open.at(-1);
    if (letter === '{' || letter === '[') open.push({ list: letter === '[', key: null, present: [] });
    else if (letter === '}' || letter === ']') open.pop();
    else if (letter === ',' && top) top.key = null;
    else if (letter === ':' && top && !top.list && top.key === null) {
      top.key = unquoted(word.trim());
      top.present.push(top.key);
    } else {
      word += letter;
      continue;
    }
    word = '';
  }
  const top = open.at(-1);
  if (!top) return null;
  const steps = open.slice(0, -1).map((each) => (each.list ? '[]' : (each.key ?? '')));
  if (top.list) steps.push('[]');
  else if (top.key !== null) steps.push(top.key);
  return { steps, kind: top.list || top.key !== null ? 'value' : 'key', word: word.trimStart(), present: top.present };
}

/** Names of the members beside the line `index`, at `column`, in the same mapping. */
function siblings(lines: string[], index: number, column: number): string[] {
  const found: string[] = [];
  const scan = (step: number): void => {
    for (let i = index + step; i >= 0 && i < lines.length && Math.abs(i - index) < MAX_LINES; i += step) {
      const line = withoutComment(lines[i]!);
      if (line.trim() === '') continue;
      const { dashes, column: at, rest } = leading(line);
      if (step > 0 && dashes.length > 0 && dashes[0]! < column) return;
      const key = at === column ? KEY.exec(rest) : null;
      if (key) found.push(unquoted(key[1]!));
      if (at < column || (step < 0 && dashes.length > 0 && at <= column)) return;
    }
  };
  scan(-1);
  const own = leading(lines[index]!);
  if (own.dashes.length > 0) found.length = 0;
  scan(1);
  return found;
}

export function placeAt(text: string, cursor: number): Place {
  const before = text.slice(0, cursor).split('\n');
  const line = before.at(-1)!;
  const all = text.split('\n');
  const stack = framesOf(before.slice(0, -1));
  const { dashes, column, rest } = leading(line);
  for (const dash of dashes) {
    popTo(stack, dash, true);
    stack.push({ indent: dash, path: [...(stack.at(-1)?.path ?? []), '[]'] });
  }
  popTo(stack, column, false);
  const outer = stack.at(-1)?.path ?? [];
  const key = KEY.exec(rest);
  if (!key && !/^[[{]/.test(rest)) {
    return { path: outer, kind: 'key', word: rest, from: cursor - rest.length, present: siblings(all, before.length - 1, column) };
  }
  const value = key ? rest.slice(key[0].length).trimStart() : rest;
  const path = key ? [...outer, unquoted(key[1]!)] : outer;
  const flow = flowOf(value);
  if (flow) {
    return { path: [...path, ...flow.steps], kind: flow.kind, word: flow.word, from: cursor - flow.word.length, present: flow.present };
  }
  return { path, kind: 'value', word: value, from: cursor - value.length, present: [] };
}
