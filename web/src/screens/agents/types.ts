// SPDX-License-Identifier: Apache-2.0
// Bodies of the routes below /v1/agents, as spec/openapi.yaml has them.

export const OPERATIONS = [
  'file_read', 'file_write', 'file_create', 'file_delete', 'network', 'command_execution', 'quality_gate', 'workflow',
] as const;
export type Operation = (typeof OPERATIONS)[number];

export const LIMITS = [
  ['memory_mb', 'Memory', 'MiB', 'Of all running work, including sessions.'],
  ['cpu_percent', 'Processor', '%', 'Of one processor, for all running work together.'],
  ['time_seconds', 'Time of one run', 's', 'A longer time is refused.'],
  ['disk_mb', 'Disk of one run', 'MiB', 'A larger value is reduced.'],
  ['file_mb', 'Size of one file', 'MiB', 'A larger value is reduced.'],
  ['concurrent', 'Runs and sessions at once', '', 'Further ones are refused.'],
  ['requests_per_minute', 'Network requests', '/min', 'New connections and HTTP requests of all sandboxes together.'],
] as const;
export type LimitName = (typeof LIMITS)[number][0];
export type AgentLimits = Partial<Record<LimitName, number | null>>;

export interface ParameterRestriction {
  command: string;
  allowed_flags?: string[];
  forbidden_flags?: string[];
  allowed_paths?: string[];
}

export const RULE_LISTS = ['allowed_commands', 'forbidden_commands', 'forbidden_paths', 'dangerous_patterns'] as const;
export type RuleList = (typeof RULE_LISTS)[number];

export interface AgentEscalation {
  auto_approve_safe?: boolean | null;
  require_human_approval?: string[] | null;
  timeout_seconds?: number | null;
  fallback_action?: 'deny' | 'allow_read_only' | null;
  notification_channels?: string[] | null;
}

export interface EffectiveRules {
  description: string;
  allowed_commands: string[];
  forbidden_commands: string[];
  dangerous_patterns: string[];
  parameter_restrictions: (ParameterRestriction & { why: string })[];
  forbidden_paths: { path: string; access: 'all' | 'write'; why: string }[];
  file_operations: string[];
  network_access: 'denied' | 'internal_only' | 'allowed_with_monitoring' | 'allowed';
  limits: Record<LimitName, number | null>;
  auto_approve_safe: boolean;
  require_human_approval: string[];
  fallback_action: string;
  warnings: string[];
}

export interface AgentSandbox extends Record<RuleList, string[]> {
  tenant: string;
  agent: string;
  level: string;
  parameter_restrictions: ParameterRestriction[];
  granted_operations: Operation[];
  revoked_operations: Operation[];
  whitelist_mode: boolean;
  nested: boolean;
  limits: AgentLimits;
  escalation: AgentEscalation;
  temporary_permissions: { operation: string; pattern: string; expires_at: string; escalation_id: string }[];
  created_by: string;
  created_at: string;
  last_modified: string;
  violation_count: number;
  version: number;
  effective: EffectiveRules | null;
}

/** The body of sandbox:update and of sandbox:dry-run. */
export interface AgentUpdate {
  level?: string;
  add?: Partial<Record<RuleList, string[]>> & { parameter_restrictions?: ParameterRestriction[] };
  remove?: Partial<Record<RuleList | 'parameter_restrictions', string[]>>;
  grant?: Operation[];
  revoke?: Operation[];
  whitelist_mode?: boolean;
  nested?: boolean;
  limits?: AgentLimits;
  escalation?: AgentEscalation;
}

export interface Violation {
  id: string;
  at: string;
  agent: string;
  tenant: string;
  level: string;
  operation: string;
  what: string;
  outcome: string;
  rule: string | null;
  reason: string;
  words: string | null;
  subject: string | null;
}

export interface Gauge {
  used: number;
  limit: number | null;
  percent: number | null;
  warning: boolean;
  reserved?: number;
}

export interface AgentUsage {
  agent: string;
  level: string;
  at: string;
  running: Gauge;
  memory_mb: Gauge;
  cpu_percent: Gauge;
  time_seconds: Gauge;
}

export interface AgentStats {
  agent: string;
  tenant: string;
  level: string;
  executions: Record<string, number>;
  executions_total: number;
  sessions: number;
  running: number;
  violations: number;
  last_violation_at: string | null;
}

export interface DryRunDecision {
  decision: 'allow' | 'approve' | 'deny';
  /** The rules of the agent's sandbox, the policy, or the table of safe operations. */
  by: 'agent' | 'policy' | 'safe_operations';
  rule: string | null;
}

type Counts = Record<DryRunDecision['decision'], number>;

/** The answer of sandbox:dry-run. */
export interface AgentDryRun {
  agent: string;
  tenant: string;
  level: string;
  engine: string;
  replayed: number;
  changed: number;
  not_replayable: number;
  not_replayable_why: Record<string, number>;
  before: Counts;
  after: Counts;
  groups: { count: number; rule: string | null; from: DryRunDecision; to: DryRunDecision; decision_changes: boolean; reason: string; examples: string[] }[];
}
