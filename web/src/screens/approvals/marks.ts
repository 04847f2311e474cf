// SPDX-License-Identifier: Apache-2.0
// A text in pieces, some of them marked. Positions of the service are in bytes of UTF-8.

export interface Mark {
  begin: number;
  end: number;
  title: string;
}

export interface Piece {
  text: string;
  /** The titles of the marks that cover it. */
  titles: string[];
}

/** Cuts a text at the bounds of the marks, which may overlap. */
export function pieces(text: string, marks: Mark[]): Piece[] {
  const raw = new TextEncoder().encode(text);
  const inside = marks.filter((mark) => mark.begin >= 0 && mark.end > mark.begin && mark.end <= raw.length);
  const cuts = [...new Set([0, raw.length, ...inside.flatMap((mark) => [mark.begin, mark.end])])].sort((a, b) => a - b);
  const out: Piece[] = [];
  for (let index = 0; index + 1 < cuts.length; index += 1) {
    const [begin, end] = [cuts[index] ?? 0, cuts[index + 1] ?? 0];
    const piece = new TextDecoder().decode(raw.subarray(begin, end));
    out.push({ text: piece, titles: inside.filter((mark) => mark.begin <= begin && mark.end >= end).map((mark) => mark.title) });
  }
  return out;
}
