// SPDX-License-Identifier: Apache-2.0
// What a terminal may send to its program.

export const MAX_PASTE = 1024 * 1024;
const PIECE = 32 * 1024;

/** A pasted text cannot end its own bracket, and begins no sequence: ESC and CSI are shown as a symbol. */
// eslint-disable-next-line no-control-regex
export const cleanPaste = (text: string): string => text.replace(/[\u001b\u009b]/g, '\u241b');

/** Input in messages of a bounded size. A pair of surrogates stays together. */
export function inputPieces(text: string): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(text.length, start + PIECE);
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? '')) end -= 1;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}

/**
 * Old output asks its questions again when it is written again, and the terminal's answers would be typed into the
 * program that runs now. Output is old if it was there when the connection was made, and nothing is sent while the
 * terminal takes old output in.
 */
export class Replay {
  /** Bytes of the stream that were there at the connection; all are old until this is known. */
  private until = Number.POSITIVE_INFINITY;
  private writing = 0;

  connected(): void {
    this.until = Number.POSITIVE_INFINITY;
  }

  /** The service says how many bytes there were. */
  caughtUpAt(bytes: number): void {
    this.until = bytes;
  }

  /** Output that begins at this byte is written now. → what to call when the terminal has taken it in. */
  writes(offset: number): () => void {
    if (offset >= this.until) return () => undefined;
    this.writing += 1;
    return () => {
      this.writing -= 1;
    };
  }

  /** Whether the terminal's data is the person's, or an answer that the running program waits for. */
  get sends(): boolean {
    return this.writing === 0;
  }
}
