# SPDX-License-Identifier: Apache-2.0
"""The values of the API, as JSON has them. Generated from spec/openapi.yaml by tools/sdk_types.py: do not edit."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

# The execution of the same session that caused this execution.
ParentOrNull = Union[str, None]

# Number of calls above; an execution over `session.max_call_depth` is denied.
CallDepth = int

# `command_execution` runs any program or code, which can change the session's files too.
Capability = Literal["command_execution", "file_delete", "file_read", "file_write", "network"]

# The members of a request that are not about one program.
class Settings(TypedDict, total=False):
    language: Union[str, None]
    env: Union[Dict[str, str], None]
    deps: Union[List[str], None]
    timeout_seconds: Union[float, None]
    cpu_seconds: Union[float, None]
    cpu_millis: Union[int, None]
    memory_mb: Union[int, None]
    disk_mb: Union[int, None]
    file_size_mb: Union[int, None]
    inodes: Union[int, None]
    pids: Union[int, None]
    open_files: Union[int, None]
    max_output_bytes: Union[int, None]
    network_policy: Union[NetworkPolicy, None]
    secrets: Union[List[SecretUse], None]
    runtime: Union[str, None]
    image: Union[str, None]
    tier: Literal["Auto", "Assisted", "HumanApprove", "ManualOnly", None]
    metadata: Union[Dict[str, str], None]

# `code`, in the request's `language`, or `command`.
class Program(TypedDict, total=False):
    approval: Union[str, None]
    code: Union[str, None]
    command: Union[str, List[str], None]
    input: Union[str, None]
    encoding: Encoding
    args: Union[List[str], None]
    files: Union[List[File], None]
    deps_from: Literal["script", "files", None]
    artifacts: Union[List[str], None]

# `language` with `code`, or `command`.
class RunRequest(Settings, Program):
    pass

# A secret for a program.
_SecretUse = TypedDict("_SecretUse", {
    "name": "SecretName",
    "as": 'Literal["env", "file", "broker"]',
})
_SecretUseOptional = TypedDict("_SecretUseOptional", {
    "variable": "str",
    "path": "str",
    "host": "str",
    "port": "Union[int, None]",
    "header": "str",
    "format": "str",
    "methods": "List[str]",
    "paths": "List[str]",
}, total=False)

class SecretUse(_SecretUse, _SecretUseOptional):
    pass

SecretName = str

# The network of a sandbox, which policy may only narrow.
class NetworkPolicy(TypedDict, total=False):
    tier: Literal["none", "restricted", "internal", "api", "full", None]
    allow: Union[List[NetworkEntry], None]
    on_denied: Literal["deny", "escalate", "ask", None]

class _NetworkEntryObject(TypedDict):
    name: str
    ports: List[int]

class NetworkEntryObject(_NetworkEntryObject, total=False):
    protocol: Literal["tls", "http", "tcp"]
    methods: List[str]
    paths: List[str]

# Destinations.
NetworkEntry = Union[str, NetworkEntryObject]

class SessionRequestIdle(TypedDict, total=False):
    pause_after_seconds: Union[float, None]

# Limits of processes, memory, disk and processors are of the sandbox; `timeout_seconds`, `cpu_seconds` and
# `max_output_bytes` are defaults of its programs.
class SessionRequest(Settings, total=False):
    name: Union[str, None]
    cwd: Union[str, None]
    ttl_seconds: Union[float, None]
    idle_ttl_seconds: Union[float, None]
    idle: Union[SessionRequestIdle, None]
    nested: Union[bool, None]
    capabilities: Union[List[Capability], None]
    from_snapshot: Union[str, None]

class Renewal(TypedDict, total=False):
    ttl_seconds: Union[float, None]
    idle_ttl_seconds: Union[float, None]

class SessionMove(TypedDict, total=False):
    runtime: Union[str, None]
    tier: Literal["Auto", "Assisted", "HumanApprove", "ManualOnly", None]
    end_programs: Union[bool, None]

# A run request for a program in a session.
class ExecRequest(Settings, Program, total=False):
    cwd: Union[str, None]
    parent_id: ParentOrNull
    keep_input: Union[bool, None]
    background: Union[bool, None]
    nested: Union[bool, None]
    sandbox: Literal["fresh", "session", None]
    kernel: Union[str, None]
    tty: Union[TerminalSize, None]

# Size in characters.
class TerminalSize(TypedDict, total=False):
    cols: Union[int, None]
    rows: Union[int, None]

class ProgramInput(TypedDict, total=False):
    data: Union[str, None]
    encoding: Encoding
    eof: Union[bool, None]

Encoding = Literal["utf8", "base64", None]

class _File(TypedDict):
    path: str
    content: str

class File(_File, total=False):
    encoding: Encoding
    executable: Union[bool, None]

# The plan:
Plan = Dict[str, Any]

# `completed`:
Status = Literal["queued", "running", "blocked", "completed", "failed", "timed_out", "cancelled", "denied"]

class _ExecutionFields(TypedDict):
    id: str
    status: Status
    exit_code: Union[int, None]
    signal: Union[str, None]
    stdout_truncated: bool
    stderr_truncated: bool
    stdout_bytes: int
    stderr_bytes: int
    artifacts: List[Artifact]
    resource_usage: ResourceUsage
    provenance: Provenance
    network: NetworkUse
    error: Union[None, Error]
    principal: Principal
    session_id: Union[str, None]
    parent_id: ParentOrNull
    depth: CallDepth
    language: Union[str, None]
    metadata: Dict[str, str]
    limits: Union[None, Limits]
    created_at: Time
    started_at: TimeOrNull
    finished_at: TimeOrNull

class ExecutionFields(_ExecutionFields, total=False):
    stdout_artifact: str
    stderr_artifact: str
    stdout_artifact_truncated: bool
    stderr_artifact_truncated: bool
    compile: Compile
    cell: Cell
    results: List[CellResult]
    results_truncated: bool
    results_left_out: List[LeftOut]

class _Execution(ExecutionFields):
    stdout: str
    stderr: str

# One run, from acceptance to its terminal state.
class Execution(_Execution, total=False):
    stdout_encoding: Literal["base64"]
    stderr_encoding: Literal["base64"]

# An execution without its output.
class ExecutionSummary(ExecutionFields):
    pass

# One value in several forms, from mime type to data; images are base64.
CellResult = Dict[str, Any]

# A part of a result over a bound.
class LeftOut(TypedDict):
    result: Union[int, None]
    type: str
    bytes: int
    kept_bytes: int

class _Cell(TypedDict):
    kernel: str
    number: int
    state_lost: bool

class Cell(_Cell, total=False):
    state_lost_when: Literal["before", "with"]
    state_lost_reason: Union[str, None]

class Kernel(TypedDict):
    name: str
    language: str
    status: Literal["not_started", "idle", "busy"]
    cells: int
    number: int
    started_at: TimeOrNull

SessionStatus = Literal["creating", "blocked", "running", "paused", "ended"]

class SessionIdle(TypedDict, total=False):
    pause_after_seconds: float

class SessionProvenance(TypedDict):
    runtime: Union[str, None]
    node: Union[str, None]
    image: Union[str, None]
    image_digest: Union[str, None]
    policy_id: Union[str, None]
    permit_id: Union[str, None]
    weakened: List[str]

class _Session(TypedDict):
    id: str
    name: Union[str, None]
    status: SessionStatus
    language: Union[str, None]
    limits: Limits
    env: Dict[str, Union[str, None]]
    cwd: str
    network_policy: NetworkPolicy
    nested: bool
    from_snapshot: Union[str, None]
    capabilities: Union[List[Capability], None]
    metadata: Dict[str, str]
    ttl_seconds: float
    idle_ttl_seconds: float
    executions_running: int
    resource_usage: SessionUsage
    provenance: SessionProvenance
    principal: Principal
    error: Union[None, Error]
    end_reason: Union[None, Error]
    created_at: Time
    last_used_at: TimeOrNull
    expires_at: TimeOrNull
    ended_at: TimeOrNull

# A sandbox that outlives one program, from its creation to its end.
class Session(_Session, total=False):
    deps: List[str]
    idle: SessionIdle

class _FileEntry(TypedDict):
    path: str
    type: Literal["file", "directory", "link", "other"]
    size: int
    mode: str
    modified_at: Union[str, None]

class FileEntry(_FileEntry, total=False):
    escaped: Literal[True]

# The data of the events of `files:watch`, except `end` and `heartbeat`.
_FileChange = TypedDict("_FileChange", {
    "path": "str",
})
_FileChangeOptional = TypedDict("_FileChangeOptional", {
    "from": "str",
    "directory": "bool",
}, total=False)

class FileChange(_FileChange, _FileChangeOptional):
    pass

# The data of an `execution` event.
class SessionExecution(TypedDict):
    id: str
    status: Status

# Names and units as in requests.
class Limits(TypedDict):
    timeout_seconds: float
    cpu_seconds: float
    cpu_millis: int
    memory_mb: int
    disk_mb: int
    file_size_mb: int
    inodes: int
    pids: int
    open_files: int
    max_output_bytes: int

class Principal(TypedDict):
    tenant: str
    app: str
    agent: str
    user: str

class _Compile(TypedDict):
    exit_code: int
    wall_ms: int
    stdout: str
    stderr: str

# The compile step, for languages with one.
class Compile(_Compile, total=False):
    stdout_encoding: Literal["base64"]
    stderr_encoding: Literal["base64"]

class _Artifact(TypedDict):
    id: str
    path: str
    size: int
    content_type: str
    sha256: Sha256

class Artifact(_Artifact, total=False):
    truncated: ArtifactTruncated
    full_size: ArtifactFullSize

# The artifact was cut at a limit, such as a program's output at `run.output_artifact_bytes`.
ArtifactTruncated = Literal[True]

# The full size in bytes of a truncated artifact.
ArtifactFullSize = int

class EscalationSimilar(TypedDict):
    id: str
    subject: str
    execution_id: Union[str, None]
    decided_at: str

class EscalationLifts(TypedDict):
    operation: str
    target: str

class EscalationDecisions(TypedDict):
    decision: Literal["approve", "deny"]
    principal: Principal
    credential: Union[str, None]
    automatic: bool
    revoked: bool
    reason: Union[str, None]
    at: Time

class _Escalation(TypedDict):
    id: str
    status: Literal["pending", "approved", "denied", "expired", "used"]
    operation: str
    subject: str
    reason: str
    display: str
    requester: Principal
    execution_id: Union[str, None]
    session_id: Union[str, None]
    waiting: int
    digest: Union[str, None]
    lifts: List[EscalationLifts]
    rule: Union[str, None]
    program: Union[str, None]
    required_roles: List[str]
    quorum: int
    approvals: int
    decisions: List[EscalationDecisions]
    created_at: Time
    expires_at: Time
    decided_at: Union[Time, None]
    grant_seconds: int
    grant_expires_at: Union[Time, None]
    ended_at: Union[Time, None]
    ended_reason: Union[str, None]

class Escalation(_Escalation, total=False):
    similar: Union[EscalationSimilar, None]

class EscalationRecord(Escalation):
    pass

# A value of a session's memory, without the value.
class MemoryItem(TypedDict):
    key: str
    size: int
    created_at: Time
    updated_at: Time

class SnapshotMemory(TypedDict):
    runtime: str
    image: str
    limits: Limits

# The files of a session's workspace at one moment, or also all processes of its sandbox.
class Snapshot(TypedDict):
    id: str
    session_id: str
    name: Union[str, None]
    metadata: Dict[str, str]
    entries: int
    size: int
    chunks: int
    added_bytes: int
    sha256: Sha256
    created_at: Time
    expires_at: Union[Time, None]
    memory: Union[SnapshotMemory, None]

class _StoredArtifact(TypedDict):
    id: str
    path: str
    size: int
    content_type: str
    sha256: Sha256
    execution_id: Union[str, None]
    created_at: Time
    expires_at: Union[Time, None]

class StoredArtifact(_StoredArtifact, total=False):
    truncated: ArtifactTruncated
    full_size: ArtifactFullSize

UploadName = str

# The total use of a session's sandbox so far, of all programs, interpreters and background programs.
class SessionUsage(TypedDict):
    cpu_ms: int
    max_rss_bytes: int
    memory_bytes: int
    io_read_bytes: int
    io_write_bytes: int
    processes: Union[int, None]
    disk_limit_bytes: DiskLimit

# Size of /workspace, /home/user, /tmp and /dev/shm together.
DiskLimit = int

class NetworkUseDenied(TypedDict):
    host: str
    port: int
    transport: Literal["tcp", "udp", "dns", "icmp", "other"]
    rule: Union[str, None]
    reason: str
    remedy: str
    count: int

# What the program did with the network.
class NetworkUse(TypedDict):
    connections: int
    bytes_in: int
    bytes_out: int
    denied: List[NetworkUseDenied]
    denied_left_out: int
    hint: Union[str, None]

# The use of an execution.
class ResourceUsage(TypedDict):
    wall_ms: int
    cpu_ms: int
    max_rss_bytes: int
    io_read_bytes: int
    io_write_bytes: int
    processes: Union[int, None]
    open_files: Union[int, None]
    disk_limit_bytes: DiskLimit

class ProvenanceLayers(TypedDict):
    place: str
    digest: str
    sbom_sha256: Sha256

class _Provenance(TypedDict):
    runtime: Union[str, None]
    node: Union[str, None]
    image: Union[str, None]
    image_digest: Union[str, None]
    policy_id: Union[str, None]
    permit_id: Union[str, None]
    code_sha256: Sha256OrNull
    output_sha256: Sha256OrNull
    stdout_sha256: Sha256OrNull
    stderr_sha256: Sha256OrNull
    weakened: List[str]

# The place of the execution, and its weaker points.
class Provenance(_Provenance, total=False):
    nested: bool
    sandbox: Literal["fresh"]
    layers: List[ProvenanceLayers]

class Error(TypedDict):
    type: Literal["TIMEOUT", "RESOURCE_LIMIT_EXCEEDED", "PERMISSION_DENIED", "APPROVAL_REQUIRED", "QUOTA_EXCEEDED", "INVALID_REQUEST", "NOT_FOUND", "SANDBOX_STARTUP_FAILED", "RUNNER_LOST", "NODE_LOST", "SERVER_RESTART", "CANCELLED", "OUTPUT_LIMIT", "INTERNAL"]
    message: str
    details: Dict[str, Any]
    retryable: bool

class Problem(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    error: Error

# The data of a `stdout` or `stderr` event.
class Output(TypedDict):
    offset: int
    data: str

class Heartbeat(TypedDict):
    time: Time

Position = str

# docs/IDENTITY.md has the permissions of each role.
Role = Literal["viewer", "agent", "operator", "approver", "tenant-admin", "admin", "metrics"]

# At most one of agent, approver and tenant-admin; admin stands alone.
Roles = List["Role"]

# The key is valid from these addresses only; by default, from anywhere.
Networks = List[str]

class Whoami(TypedDict):
    tenant: str
    app: str
    agent: str
    user: str
    roles: Roles
    permissions: List[str]
    credential: str
    networks: Networks
    expires_at: TimeOrNull

class Language(TypedDict):
    name: str
    title: str
    aliases: List[str]
    extensions: List[str]
    compiled: bool
    usable: bool
    install: str

Sha256 = str

Sha256OrNull = Union[str, None]

Time = str

TimeOrNull = Union[str, None]
