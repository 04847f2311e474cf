// SPDX-License-Identifier: Apache-2.0
// The values of the API, as JSON has them. Generated from spec/openapi.yaml by tools/sdk_types.py: do not edit.

// The execution of the same session that caused this execution.
export type ParentOrNull = string | null;

// Number of calls above; an execution over `session.max_call_depth` is denied.
export type CallDepth = number;

// `command_execution` runs any program or code, which can change the session's files too.
export type Capability = "command_execution" | "file_delete" | "file_read" | "file_write" | "network";

// The members of a request that are not about one program.
export interface Settings {
  language?: string | null;
  env?: Record<string, string> | null;
  deps?: string[] | null;
  timeout_seconds?: number | null;
  cpu_seconds?: number | null;
  cpu_millis?: number | null;
  memory_mb?: number | null;
  disk_mb?: number | null;
  file_size_mb?: number | null;
  inodes?: number | null;
  pids?: number | null;
  open_files?: number | null;
  max_output_bytes?: number | null;
  network_policy?: NetworkPolicy | null;
  secrets?: SecretUse[] | null;
  runtime?: string | null;
  image?: string | null;
  tier?: "Auto" | "Assisted" | "HumanApprove" | "ManualOnly" | null;
  metadata?: Record<string, string> | null;
}

// `code`, in the request's `language`, or `command`.
export interface Program {
  approval?: string | null;
  code?: string | null;
  command?: string | string[] | null;
  input?: string | null;
  encoding?: Encoding;
  args?: string[] | null;
  files?: File[] | null;
  deps_from?: "script" | "files" | null;
  artifacts?: string[] | null;
}

// `language` with `code`, or `command`.
export interface RunRequest extends Settings, Program {
}

// A secret for a program.
export interface SecretUse {
  name: SecretName;
  as: "env" | "file" | "broker";
  variable?: string;
  path?: string;
  host?: string;
  port?: number | null;
  header?: string;
  format?: string;
  methods?: string[];
  paths?: string[];
}

export type SecretName = string;

// The network of a sandbox, which policy may only narrow.
export interface NetworkPolicy {
  tier?: "none" | "restricted" | "internal" | "api" | "full" | null;
  allow?: NetworkEntry[] | null;
  on_denied?: "deny" | "escalate" | "ask" | null;
}

export interface NetworkEntryObject {
  name: string;
  ports: number[];
  protocol?: "tls" | "http" | "tcp";
  methods?: string[];
  paths?: string[];
}

// Destinations.
export type NetworkEntry = string | NetworkEntryObject;

export interface SessionRequestIdle {
  pause_after_seconds?: number | null;
}

// Limits of processes, memory, disk and processors are of the sandbox; `timeout_seconds`, `cpu_seconds` and
// `max_output_bytes` are defaults of its programs.
export interface SessionRequest extends Settings {
  name?: string | null;
  cwd?: string | null;
  ttl_seconds?: number | null;
  idle_ttl_seconds?: number | null;
  idle?: SessionRequestIdle | null;
  nested?: boolean | null;
  capabilities?: Capability[] | null;
  from_snapshot?: string | null;
}

export interface Renewal {
  ttl_seconds?: number | null;
  idle_ttl_seconds?: number | null;
}

export interface SessionMove {
  runtime?: string | null;
  tier?: "Auto" | "Assisted" | "HumanApprove" | "ManualOnly" | null;
  end_programs?: boolean | null;
}

// A run request for a program in a session.
export interface ExecRequest extends Settings, Program {
  cwd?: string | null;
  parent_id?: ParentOrNull;
  keep_input?: boolean | null;
  background?: boolean | null;
  nested?: boolean | null;
  sandbox?: "fresh" | "session" | null;
  kernel?: string | null;
  tty?: TerminalSize | null;
}

// Size in characters.
export interface TerminalSize {
  cols?: number | null;
  rows?: number | null;
}

export interface ProgramInput {
  data?: string | null;
  encoding?: Encoding;
  eof?: boolean | null;
}

export type Encoding = "utf8" | "base64" | null;

export interface File {
  path: string;
  content: string;
  encoding?: Encoding;
  executable?: boolean | null;
}

// The plan:
export type Plan = Record<string, unknown>;

// `completed`:
export type Status = "queued" | "running" | "blocked" | "completed" | "failed" | "timed_out" | "cancelled" | "denied";

export interface ExecutionFields {
  id: string;
  status: Status;
  exit_code: number | null;
  signal: string | null;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  stdout_bytes: number;
  stderr_bytes: number;
  stdout_artifact?: string;
  stderr_artifact?: string;
  stdout_artifact_truncated?: boolean;
  stderr_artifact_truncated?: boolean;
  artifacts: Artifact[];
  resource_usage: ResourceUsage;
  provenance: Provenance;
  network: NetworkUse;
  error: null | Error;
  compile?: Compile;
  cell?: Cell;
  results?: CellResult[];
  results_truncated?: boolean;
  results_left_out?: LeftOut[];
  principal: Principal;
  session_id: string | null;
  parent_id: ParentOrNull;
  depth: CallDepth;
  language: string | null;
  metadata: Record<string, string>;
  limits: null | Limits;
  created_at: Time;
  started_at: TimeOrNull;
  finished_at: TimeOrNull;
}

// One run, from acceptance to its terminal state.
export interface Execution extends ExecutionFields {
  stdout: string;
  stderr: string;
  stdout_encoding?: "base64";
  stderr_encoding?: "base64";
}

// An execution without its output.
export interface ExecutionSummary extends ExecutionFields {
}

// One value in several forms, from mime type to data; images are base64.
export type CellResult = Record<string, unknown>;

// A part of a result over a bound.
export interface LeftOut {
  result: number | null;
  type: string;
  bytes: number;
  kept_bytes: number;
}

export interface Cell {
  kernel: string;
  number: number;
  state_lost: boolean;
  state_lost_when?: "before" | "with";
  state_lost_reason?: string | null;
}

export interface Kernel {
  name: string;
  language: string;
  status: "not_started" | "idle" | "busy";
  cells: number;
  number: number;
  started_at: TimeOrNull;
}

export type SessionStatus = "creating" | "blocked" | "running" | "paused" | "ended";

export interface SessionIdle {
  pause_after_seconds?: number;
}

export interface SessionProvenance {
  runtime: string | null;
  node: string | null;
  image: string | null;
  image_digest: string | null;
  policy_id: string | null;
  permit_id: string | null;
  weakened: string[];
}

// A sandbox that outlives one program, from its creation to its end.
export interface Session {
  id: string;
  name: string | null;
  status: SessionStatus;
  language: string | null;
  limits: Limits;
  env: Record<string, string | null>;
  cwd: string;
  network_policy: NetworkPolicy;
  nested: boolean;
  from_snapshot: string | null;
  deps?: string[];
  capabilities: Capability[] | null;
  metadata: Record<string, string>;
  ttl_seconds: number;
  idle_ttl_seconds: number;
  idle?: SessionIdle;
  executions_running: number;
  resource_usage: SessionUsage;
  provenance: SessionProvenance;
  principal: Principal;
  error: null | Error;
  end_reason: null | Error;
  created_at: Time;
  last_used_at: TimeOrNull;
  expires_at: TimeOrNull;
  ended_at: TimeOrNull;
}

export interface FileEntry {
  path: string;
  escaped?: true;
  type: "file" | "directory" | "link" | "other";
  size: number;
  mode: string;
  modified_at: string | null;
}

// The data of the events of `files:watch`, except `end` and `heartbeat`.
export interface FileChange {
  path: string;
  from?: string;
  directory?: boolean;
}

// The data of an `execution` event.
export interface SessionExecution {
  id: string;
  status: Status;
}

// Names and units as in requests.
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

export interface Principal {
  tenant: string;
  app: string;
  agent: string;
  user: string;
}

// The compile step, for languages with one.
export interface Compile {
  exit_code: number;
  wall_ms: number;
  stdout: string;
  stderr: string;
  stdout_encoding?: "base64";
  stderr_encoding?: "base64";
}

export interface Artifact {
  id: string;
  path: string;
  size: number;
  content_type: string;
  sha256: Sha256;
  truncated?: ArtifactTruncated;
  full_size?: ArtifactFullSize;
}

// The artifact was cut at a limit, such as a program's output at `run.output_artifact_bytes`.
export type ArtifactTruncated = true;

// The full size in bytes of a truncated artifact.
export type ArtifactFullSize = number;

export interface EscalationSimilar {
  id: string;
  subject: string;
  execution_id: string | null;
  decided_at: string;
}

export interface EscalationLifts {
  operation: string;
  target: string;
}

export interface EscalationDecisions {
  decision: "approve" | "deny";
  principal: Principal;
  credential: string | null;
  automatic: boolean;
  revoked: boolean;
  reason: string | null;
  at: Time;
}

export interface Escalation {
  id: string;
  status: "pending" | "approved" | "denied" | "expired" | "used";
  operation: string;
  subject: string;
  reason: string;
  display: string;
  requester: Principal;
  execution_id: string | null;
  session_id: string | null;
  waiting: number;
  similar?: EscalationSimilar | null;
  digest: string | null;
  lifts: EscalationLifts[];
  rule: string | null;
  program: string | null;
  required_roles: string[];
  quorum: number;
  approvals: number;
  decisions: EscalationDecisions[];
  created_at: Time;
  expires_at: Time;
  decided_at: Time | null;
  grant_seconds: number;
  grant_expires_at: Time | null;
  ended_at: Time | null;
  ended_reason: string | null;
}

export interface EscalationRecord extends Escalation {
}

// A value of a session's memory, without the value.
export interface MemoryItem {
  key: string;
  size: number;
  created_at: Time;
  updated_at: Time;
}

export interface SnapshotMemory {
  runtime: string;
  image: string;
  limits: Limits;
}

// The files of a session's workspace at one moment, or also all processes of its sandbox.
export interface Snapshot {
  id: string;
  session_id: string;
  name: string | null;
  metadata: Record<string, string>;
  entries: number;
  size: number;
  chunks: number;
  added_bytes: number;
  sha256: Sha256;
  created_at: Time;
  expires_at: Time | null;
  memory: SnapshotMemory | null;
}

export interface StoredArtifact {
  id: string;
  path: string;
  size: number;
  content_type: string;
  sha256: Sha256;
  truncated?: ArtifactTruncated;
  full_size?: ArtifactFullSize;
  execution_id: string | null;
  created_at: Time;
  expires_at: Time | null;
}

export type UploadName = string;

// The total use of a session's sandbox so far, of all programs, interpreters and background programs.
export interface SessionUsage {
  cpu_ms: number;
  max_rss_bytes: number;
  memory_bytes: number;
  io_read_bytes: number;
  io_write_bytes: number;
  processes: number | null;
  disk_limit_bytes: DiskLimit;
}

// Size of /workspace, /home/user, /tmp and /dev/shm together.
export type DiskLimit = number;

export interface NetworkUseDenied {
  host: string;
  port: number;
  transport: "tcp" | "udp" | "dns" | "icmp" | "other";
  rule: string | null;
  reason: string;
  remedy: string;
  count: number;
}

// What the program did with the network.
export interface NetworkUse {
  connections: number;
  bytes_in: number;
  bytes_out: number;
  denied: NetworkUseDenied[];
  denied_left_out: number;
  hint: string | null;
}

// The use of an execution.
export interface ResourceUsage {
  wall_ms: number;
  cpu_ms: number;
  max_rss_bytes: number;
  io_read_bytes: number;
  io_write_bytes: number;
  processes: number | null;
  open_files: number | null;
  disk_limit_bytes: DiskLimit;
}

export interface ProvenanceLayers {
  place: string;
  digest: string;
  sbom_sha256: Sha256;
}

// The place of the execution, and its weaker points.
export interface Provenance {
  runtime: string | null;
  node: string | null;
  image: string | null;
  image_digest: string | null;
  policy_id: string | null;
  permit_id: string | null;
  code_sha256: Sha256OrNull;
  output_sha256: Sha256OrNull;
  stdout_sha256: Sha256OrNull;
  stderr_sha256: Sha256OrNull;
  weakened: string[];
  nested?: boolean;
  sandbox?: "fresh";
  layers?: ProvenanceLayers[];
}

export interface Error {
  type: "TIMEOUT" | "RESOURCE_LIMIT_EXCEEDED" | "PERMISSION_DENIED" | "APPROVAL_REQUIRED" | "QUOTA_EXCEEDED" | "INVALID_REQUEST" | "NOT_FOUND" | "SANDBOX_STARTUP_FAILED" | "RUNNER_LOST" | "NODE_LOST" | "SERVER_RESTART" | "CANCELLED" | "OUTPUT_LIMIT" | "INTERNAL";
  message: string;
  details: Record<string, unknown>;
  retryable: boolean;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  error: Error;
}

// The data of a `stdout` or `stderr` event.
export interface Output {
  offset: number;
  data: string;
}

export interface Heartbeat {
  time: Time;
}

export type Position = string;

// docs/IDENTITY.md has the permissions of each role.
export type Role = "viewer" | "agent" | "operator" | "approver" | "tenant-admin" | "admin" | "metrics";

// At most one of agent, approver and tenant-admin; admin stands alone.
export type Roles = Role[];

// The key is valid from these addresses only; by default, from anywhere.
export type Networks = string[];

export interface Whoami {
  tenant: string;
  app: string;
  agent: string;
  user: string;
  roles: Roles;
  permissions: string[];
  credential: string;
  networks: Networks;
  expires_at: TimeOrNull;
}

export interface Language {
  name: string;
  title: string;
  aliases: string[];
  extensions: string[];
  compiled: boolean;
  usable: boolean;
  install: string;
}

export type Sha256 = string;

export type Sha256OrNull = string | null;

export type Time = string;

export type TimeOrNull = string | null;
