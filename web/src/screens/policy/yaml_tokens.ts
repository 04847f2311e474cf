// SPDX-License-Identifier: Apache-2.0
// Colours for YAML, line by line. A whole grammar would be a tenth of the page's size, and colours need none.
import type { StreamParser, StringStream } from '@codemirror/language';

interface State {
  /** The indentation of the member whose block text (`>` or `|`) follows; -1 outside. */
  block: number;
  /** The column of the last member. */
  key: number;
}

const KEY = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[A-Za-z0-9_.*-]+)(?=\s*:(?:\s|$))/;
const TEXT = /^(?:"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)/;
const CONSTANT = /^(?:true|false|null|~|-?\d+(?:\.\d+)?)(?=[\s,\]}]|$)/;
const BLOCK = /^[>|][+-]?\d?(?=\s*(?:#.*)?$)/;
const MARK = /^[:-](?=\s|$)/;
const WORD = /^[^\s,[\]{}]+/;

function inBlock(stream: StringStream, state: State): boolean {
  if (state.block < 0) return false;
  if (stream.sol() && stream.string.trim() !== '' && stream.indentation() <= state.block) state.block = -1;
  return state.block >= 0;
}

export const yamlTokens: StreamParser<State> = {
  name: 'yaml',
  startState: () => ({ block: -1, key: 0 }),
  copyState: (state) => ({ ...state }),
  token(stream, state) {
    if (inBlock(stream, state)) {
      stream.skipToEnd();
      return 'string';
    }
    if (stream.eatSpace()) return null;
    const before = stream.pos === 0 ? ' ' : stream.string[stream.pos - 1]!;
    if (stream.peek() === '#' && /\s/.test(before)) {
      stream.skipToEnd();
      return 'comment';
    }
    const column = stream.column();
    if (stream.match(KEY)) {
      state.key = column;
      return 'propertyName';
    }
    if (stream.match(MARK)) return 'punctuation';
    if (stream.match(BLOCK)) {
      state.block = state.key;
      return 'keyword';
    }
    if (stream.match(CONSTANT)) return 'number';
    if (stream.match(TEXT) || stream.match(WORD)) return 'string';
    stream.next();
    return 'punctuation';
  },
  languageData: { commentTokens: { line: '#' } },
};
