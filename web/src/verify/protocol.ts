// SPDX-License-Identifier: Apache-2.0
// The messages between a page and the worker that verifies the log.

export interface VerifyStart {
  kind: 'start';
  /** Absolute address of GET /v1/audit/export. */
  exportUrl: string;
  /** base64 of the audit key. */
  publicKey: string;
  /** A checkpoint file that the person kept; null without one. */
  heads: { name: string; text: string } | null;
  /** Entries that the page has seen already, by position: an export that ends before them is too short. */
  seen: { seq: number; hash: string }[];
}

// `held`: checkpoints of the file that agree; null without a file.
export type VerifyMessage =
  | { kind: 'progress'; entries: number; bytes: number; at: number }
  | { kind: 'ok'; entries: number; bytes: number; head: string; held: number | null }
  | { kind: 'broken'; position: number; problem: string; entries: number }
  | { kind: 'failed'; problem: string; entries: number };
