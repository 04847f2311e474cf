// SPDX-License-Identifier: Apache-2.0
// Which rows of a long table are in the page.

const OVERSCAN = 12;
const MAX_ROWS = 180;

/** The rows in sight, and a few more; never more than 180. */
export function visibleWindow(top: number, height: number, rowHeight: number, count: number): { first: number; last: number } {
  const first = Math.min(Math.max(0, count - 1), Math.max(0, Math.floor(top / rowHeight) - OVERSCAN));
  const wanted = Math.ceil(height / rowHeight) + 2 * OVERSCAN;
  return { first, last: Math.min(count, first + Math.min(wanted, MAX_ROWS)) };
}
