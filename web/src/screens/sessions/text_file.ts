// SPDX-License-Identifier: Apache-2.0
// Texts and names of files, between a session and the editor.

/** What ends the lines of a text. Null: several things, which a text area cannot keep. */
export function lineEnd(text: string): '\n' | '\r\n' | null {
  if (!text.includes('\r')) return '\n';
  return /\r(?!\n)|(?<!\r)\n/.test(text) ? null : '\r\n';
}

/** Why a path is none of a file below the root, or null. The browser itself would resolve `..`, and ask for another route. */
export function wrongPath(name: string, root: string): string | null {
  return name.split('/').some((part) => part === '' || part === '.' || part === '..')
    ? `Paths stay below ${root}, without “.”, “..”, and empty names.` : null;
}
