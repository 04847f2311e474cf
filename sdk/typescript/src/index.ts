// SPDX-License-Identifier: Apache-2.0
// Cloister: run code that is not trusted in sandboxes. docs/howto/sdk-typescript.md has examples of everything.

export type { Content, LimitOptions, Network, ProgramOptions, SettingOptions } from "./body.js";
export { Client, Events, VERSION, type ClientOptions } from "./client.js";
export { Command, Commands, type CommandOptions, type StartOptions } from "./commands.js";
export { AuthenticationError, Blocked, CloisterError, ConfigurationError, Conflict, InvalidRequest, LimitExceeded, NotFound, OutOfSpace,
  PermissionDenied, ProgramFailed, RateLimited, ServerError, Timeout, TooLarge, Unavailable } from "./errors.js";
export { Artifact, Execution, Result, type ExecutionError, type FollowOptions, type OnOutput } from "./execution.js";
export { Files, Watch, type FileData, type FileEvent, type FileInfo } from "./files.js";
export { Memory } from "./memory.js";
export { deleteSnapshot, listSnapshots, run, runCommand, Sandbox, type PortLink, type RunCodeOptions, type RunOptions, type SandboxInfo,
  type SandboxOptions, type ServerOptions, type SnapshotInfo } from "./sandbox.js";
export type { ServerEvent } from "./sse.js";
export type * as types from "./types.js";
export type { Cores, Duration, Size } from "./units.js";
