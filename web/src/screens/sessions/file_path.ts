// SPDX-License-Identifier: Apache-2.0
// Paths of a session's files. The service escapes a path that has control characters, characters that change the direction of
// text, or bytes outside UTF-8 (FileEntry in spec/openapi.yaml); its requests take the path itself.
import { visible } from '../../text';
import { bytesText } from '../approvals/bytes';

export interface FilePath {
  /** As requests name it; null: it is not UTF-8, and no request can name it. */
  path: string | null;
  /** For people, on one line. */
  shown: string;
}

function unescaped(text: string): Uint8Array {
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const isEscape = text[at] === '%';
    bytes.push(isEscape ? Number.parseInt(text.slice(at + 1, at + 3), 16) : text.charCodeAt(at));
    if (isEscape) at += 2;
  }
  return new Uint8Array(bytes);
}

export function filePathOf(entry: { path: string; escaped?: true }): FilePath {
  if (!entry.escaped) return { path: entry.path, shown: visible(entry.path) };
  const bytes = unescaped(entry.path);
  const shown = visible(bytesText(bytes));
  try {
    return { path: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), shown };
  } catch {
    return { path: null, shown };
  }
}

/** Whether a text field can hold the path: browsers take line ends out, and a person does not see the rest. */
export const isTypable = (path: string): boolean => visible(path) === path;
