// SPDX-License-Identifier: Apache-2.0
// The members of an audit entry, as GET /v1/audit gives them.

export interface AuditEntry {
  seq: number;
  /** In the whole log; for administrators only. */
  position?: number;
  /** Microseconds since 1970. */
  at: number;
  action: string;
  subject: string;
  tenant: string;
  app: string;
  agent: string;
  user: string;
  key: string;
  details: Record<string, unknown>;
  prev: string;
  hash: string;
}

export interface AuditPage {
  entries: AuditEntry[];
  next_after: number | null;
  next_before: number | null;
}
