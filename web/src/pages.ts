// SPDX-License-Identifier: Apache-2.0
// Pages of a list that are read again, in place of the rows that were read earlier.

/**
 * The old rows that come after a fresh first page. Rows that the page has, or has no more, are not among them; without a
 * further page (`cursor` is null), or without its last row among the old ones, there are none.
 */
export function following<T>(old: T[], page: T[], cursor: string | null, id: (row: T) => string): T[] {
  const last = page.at(-1);
  if (cursor === null || last === undefined) return [];
  const at = old.findIndex((row) => id(row) === id(last));
  if (at < 0) return [];
  const fresh = new Set(page.map(id));
  return old.slice(at + 1).filter((row) => !fresh.has(id(row)));
}

/** A row, and the cursor of the page after it. */
export interface Mark {
  id: string;
  cursor: string;
}

export interface Spliced<T> {
  rows: T[];
  cursor: string | null;
  /** The page to read next; null after the last page at hand. */
  next: Mark | null;
}

/** The rows with a later page read again in its place, after the row of `mark`; null if that row has left the list. */
export function spliced<T>(
  old: { rows: T[]; cursor: string | null }, mark: Mark, page: { rows: T[]; cursor: string | null }, id: (row: T) => string,
): Spliced<T> | null {
  const at = old.rows.findIndex((row) => id(row) === mark.id);
  if (at < 0) return null;
  const before = old.rows.slice(0, at + 1);
  const known = new Set(before.map(id));
  const fresh = page.rows.filter((row) => !known.has(id(row)));
  const rest = following(old.rows.slice(at + 1), fresh, page.cursor, id);
  const last = fresh.at(-1);
  const more = rest.length > 0 && page.cursor !== null && last !== undefined;
  return { rows: [...before, ...fresh, ...rest], cursor: more ? old.cursor : page.cursor, next: more ? { id: id(last), cursor: page.cursor as string } : null };
}
