// SPDX-License-Identifier: Apache-2.0
// Members of the API's answers that screens show, as in spec/openapi.yaml.

export interface Owner {
  tenant: string;
  app: string;
  agent: string;
  user: string;
}

export interface ApiProblem {
  type: string;
  message: string;
  details: Record<string, unknown>;
  retryable: boolean;
}

export type RunStatus = 'queued' | 'running' | 'blocked' | 'completed' | 'failed' | 'timed_out' | 'cancelled' | 'denied';
export const RUN_STATUSES: readonly RunStatus[] = ['queued', 'running', 'blocked', 'completed', 'failed', 'timed_out', 'cancelled', 'denied'];
export const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'timed_out', 'cancelled', 'denied']);

export interface Usage {
  wall_ms: number;
  cpu_ms: number;
  max_rss_bytes: number;
  io_read_bytes: number;
  io_write_bytes: number;
  processes: number | null;
  open_files: number | null;
  disk_limit_bytes: number | null;
}

export interface ArtifactRef {
  id: string;
  path: string;
  size: number;
  content_type: string;
  sha256: string;
  truncated?: boolean;
  full_size?: number;
}

export interface Denied {
  host: string;
  port: number;
  transport: string;
  rule: string | null;
  reason: string;
  remedy: string;
  count: number;
}

export interface Limits {
  timeout_seconds: number;
  cpu_seconds: number;
  cpu_millis: number;
  memory_mb: number;
  disk_mb: number;
  file_size_mb: number;
  inodes: number;
  pids: number;
  open_files: number;
  max_output_bytes: number;
}

export interface Execution {
  id: string;
  status: RunStatus;
  exit_code: number | null;
  signal: string | null;
  stdout?: string;
  stderr?: string;
  stdout_encoding?: 'base64';
  stderr_encoding?: 'base64';
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  stdout_bytes: number;
  stderr_bytes: number;
  stdout_artifact?: string;
  stderr_artifact?: string;
  artifacts: ArtifactRef[];
  resource_usage: Usage;
  provenance: {
    runtime: string | null;
    node: string | null;
    image: string | null;
    image_digest: string | null;
    policy_id: string | null;
    permit_id: string | null;
    code_sha256: string | null;
    output_sha256: string | null;
    stdout_sha256: string | null;
    stderr_sha256: string | null;
    weakened: string[];
    nested?: boolean;
    sandbox?: string;
    layers?: { place: string; digest: string; sbom_sha256: string }[];
  };
  network: { connections: number; bytes_in: number; bytes_out: number; denied: Denied[]; denied_left_out: number; hint: string | null };
  error: ApiProblem | null;
  compile?: { exit_code: number; wall_ms: number; stdout: string; stderr: string; stdout_encoding?: string; stderr_encoding?: string };
  cell?: { kernel: string; number: number; state_lost: boolean; state_lost_when?: string; state_lost_reason?: string | null };
  results?: Record<string, unknown>[];
  results_truncated?: boolean;
  results_left_out?: { result: number | null; type: string; bytes: number; kept_bytes: number }[];
  principal: Owner;
  session_id: string | null;
  parent_id: string | null;
  depth: number;
  language: string | null;
  metadata: Record<string, string>;
  /** In force; null before the start. */
  limits: Limits | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

export interface Session {
  id: string;
  name: string | null;
  status: 'creating' | 'blocked' | 'running' | 'paused' | 'ended';
  language: string | null;
  limits: Limits;
  env: Record<string, string | null>;
  cwd: string;
  network_policy: { tier?: string; allow?: unknown[] };
  nested: boolean;
  from_snapshot: string | null;
  deps?: string[];
  capabilities: string[] | null;
  metadata: Record<string, string>;
  ttl_seconds: number;
  idle_ttl_seconds: number;
  executions_running: number;
  resource_usage: {
    cpu_ms: number; max_rss_bytes: number; memory_bytes: number; io_read_bytes: number; io_write_bytes: number;
    processes: number | null; disk_limit_bytes: number | null;
  };
  provenance: { runtime: string | null; node: string | null; image: string | null; image_digest: string | null; policy_id: string | null; permit_id: string | null; weakened: string[] };
  principal: Owner;
  error: ApiProblem | null;
  end_reason: ApiProblem | null;
  created_at: string;
  last_used_at: string | null;
  expires_at: string | null;
  ended_at: string | null;
}

export interface Escalation {
  id: string;
  status: 'pending' | 'approved' | 'denied' | 'expired' | 'used';
  operation: string;
  subject: string;
  reason: string;
  display: string;
  requester: Owner;
  execution_id: string | null;
  session_id: string | null;
  waiting: number;
  digest: string | null;
  lifts: { operation: string; target: string }[];
  rule: string | null;
  program: string | null;
  required_roles: string[];
  quorum: number;
  approvals: number;
  decisions: { decision: 'approve' | 'deny'; principal: Owner; credential: string | null; automatic: boolean; revoked: boolean; reason: string | null; at: string }[];
  created_at: string;
  expires_at: string;
  decided_at: string | null;
  grant_seconds: number;
  grant_expires_at: string | null;
  ended_at: string | null;
  ended_reason: string | null;
  similar?: { id: string; subject: string; execution_id: string | null; decided_at: string } | null;
}

export interface Finding {
  area: string;
  name: string;
  state: 'ok' | 'reduced' | 'missing';
  detail: string;
  remedy: string;
}

export interface Snapshot {
  id: string;
  session_id: string;
  name: string | null;
  metadata: Record<string, string>;
  entries: number;
  size: number;
  chunks: number;
  added_bytes: number;
  sha256: string;
  created_at: string;
  expires_at: string | null;
  memory: { runtime: string; image: string; limits: Limits } | null;
}

/** Who it is, in the words that a person knows: user, agent, or tenant. */
export const ownerName = (owner: Owner): string => owner.user || owner.agent || owner.app || owner.tenant;
