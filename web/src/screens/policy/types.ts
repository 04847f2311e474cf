// SPDX-License-Identifier: Apache-2.0
// Bodies of the routes below /v1/policies, as spec/openapi.yaml has them.

export interface PolicyVersion {
  version: number;
  name: string;
  sha256: string;
  origin: 'start' | 'api';
  applied_at: string;
  applied_by: { tenant: string; app: string; agent: string; user: string; key: string };
  note: string;
  restores: number | null;
  in_force: boolean;
}

export type PolicyDocument = PolicyVersion & { document: string };

export type Effect = 'allow' | 'deny' | 'approve';

export interface PolicyCheck {
  valid: boolean;
  error: string | null;
  warnings: string[];
  rules: { name: string; effect: Effect; why: string }[];
  sha256: string | null;
}

export interface Outcome {
  decision: Effect;
  rule: string | null;
  tier: string | null;
  runtime: string | null;
  network: unknown[] | null;
}

export interface PolicyExplanation extends Outcome {
  reason: string;
  engine: string;
  remedy: string | null;
  image: string | null;
  approval: { roles: string[]; quorum: number; ttl_seconds: number } | null;
  policy_id: string;
  limits: Record<string, number>;
  risk: {
    score: number;
    arithmetic: string;
    terms: { factor: string; what: string; points: number }[];
    tiers: { tier: string; runtime: string; approval: boolean; from_score: number | null }[];
  };
  rules: { name: string; effect: Effect; why: string; matches: boolean; decides: boolean; because: string | null }[];
}

export interface PolicyTestReport {
  policy_id: string;
  passed: number;
  failed: number;
  cases: { name: string; passed: boolean; problems: string[]; came: Outcome & { reason: string } }[];
}

export interface PolicyDiff {
  from: string;
  to: string;
  same: boolean;
  added: string[];
  removed: string[];
  changed: { name: string; from: string; to: string }[];
  reordered: boolean;
  settings_changed: boolean;
  replay: {
    requests: number;
    unreadable: number;
    groups: { rule: string | null; from: Outcome; to: Outcome; decision_changes: boolean; reason: string; count: number; examples: string[] }[];
  };
}
