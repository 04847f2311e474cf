// SPDX-License-Identifier: Apache-2.0
// An ended execution with its results and artifacts, and the way there: following its events to its end. Everything that a
// program made comes from a sandbox: treat output, file names, HTML and SVG as hostile.

import { fromBase64 } from "./body.js";
import { joined, name, newKey, type Client } from "./client.js";
import * as errors from "./errors.js";
import type * as types from "./types.js";
import { seconds, type Duration } from "./units.js";

export type OnOutput = (text: string) => unknown;
export const WAIT = 30; // seconds that a request may wait for a short program
const TERMINAL = new Set(["completed", "failed", "timed_out", "cancelled", "denied"]);
// The last line of a traceback: `ValueError: text`, `module.Error: text`, or `KeyboardInterrupt`.
const RAISED = /^(?:Uncaught )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration))(?:: (.*))?$/;

export function isTerminal(status: string): boolean {
  return TERMINAL.has(status);
}

// One displayed value in several forms: `data` is from mime type to data, images are base64.
export class Result {
  constructor(readonly data: Record<string, unknown>) {}

  #text(mime: string): string | null {
    const value = this.data[mime];
    return typeof value === "string" ? value : null;
  }

  get text(): string | null {
    return this.#text("text/plain");
  }

  get html(): string | null {
    return this.#text("text/html");
  }

  get markdown(): string | null {
    return this.#text("text/markdown");
  }

  get svg(): string | null {
    return this.#text("image/svg+xml");
  }

  get latex(): string | null {
    return this.#text("text/latex");
  }

  get json(): unknown {
    return this.data["application/json"];
  }

  get png(): Uint8Array | null {
    const text = this.#text("image/png");
    return text === null ? null : fromBase64(text);
  }

  get jpeg(): Uint8Array | null {
    const text = this.#text("image/jpeg");
    return text === null ? null : fromBase64(text);
  }

  // The mime types.
  formats(): string[] {
    return Object.keys(this.data);
  }
}

// Why a program did not succeed: the exception of its code, or the service's error with its `code`.
export interface ExecutionError {
  name: string;
  value: string;
  // The output of the interpreter about the exception.
  traceback: string;
  // Such as "TIMEOUT"; null if the program ended by itself.
  code: string | null;
  // Facts about a limit: limit, value, used, unit.
  details: Record<string, unknown>;
}

// A file that a program left behind.
export class Artifact {
  readonly id: string;
  readonly path: string;
  readonly size: number;
  readonly contentType: string;
  readonly sha256: string;

  constructor(private readonly client: Client, record: types.Artifact) {
    this.id = record.id;
    this.path = record.path;
    this.size = record.size;
    this.contentType = record.content_type;
    this.sha256 = record.sha256;
  }

  // The content, in pieces.
  chunks(): AsyncGenerator<Uint8Array, void, void> {
    return this.client.download(`/v1/artifacts/${name(this.id)}/content`);
  }

  // The whole content.
  async bytes(): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for await (const piece of this.chunks()) parts.push(piece);
    return joined(parts);
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  async delete(): Promise<void> {
    await this.client.call("DELETE", `/v1/artifacts/${name(this.id)}`);
  }
}

// The kept bytes of a stream.
export function outputOf(record: types.Execution, stream: "stdout" | "stderr"): Uint8Array {
  return record[`${stream}_encoding`] === "base64" ? fromBase64(record[stream]) : new TextEncoder().encode(record[stream]);
}

// An ended program.
export class Execution {
  readonly raw: types.Execution;
  readonly id: string;
  readonly status: types.Status;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutTruncated: boolean;
  readonly stderrTruncated: boolean;
  readonly results: Result[];
  readonly artifacts: Artifact[];
  readonly error: ExecutionError | null;
  readonly sandboxId: string | null;

  constructor(client: Client, record: types.Execution) {
    this.raw = record;
    this.id = record.id;
    this.status = record.status;
    this.exitCode = record.exit_code;
    this.signal = record.signal;
    this.stdoutBytes = outputOf(record, "stdout");
    this.stderrBytes = outputOf(record, "stderr");
    this.stdout = new TextDecoder().decode(this.stdoutBytes);
    this.stderr = new TextDecoder().decode(this.stderrBytes);
    this.stdoutTruncated = record.stdout_truncated;
    this.stderrTruncated = record.stderr_truncated;
    this.results = (record.results ?? []).map((data) => new Result(data as Record<string, unknown>));
    this.artifacts = record.artifacts.map((artifact) => new Artifact(client, artifact));
    this.error = errorOf(record, this.stderr);
    this.sandboxId = record.session_id;
  }

  // Whether the program ended by itself with exit code 0.
  get ok(): boolean {
    return this.status === "completed" && this.exitCode === 0;
  }

  // The text of the last displayed value; null without one.
  get text(): string | null {
    return [...this.results].reverse().find((result) => result.text !== null)?.text ?? null;
  }

  get usage(): types.ResourceUsage {
    return this.raw.resource_usage;
  }

  get network(): types.NetworkUse {
    return this.raw.network;
  }

  get provenance(): types.Provenance {
    return this.raw.provenance;
  }

  // Itself after a success; else throws ProgramFailed, or its Timeout or LimitExceeded.
  check(): this {
    if (this.ok) return this;
    const error = this.error;
    const message = `${this.id}: ${error?.name}${error?.value ? `: ${error.value}` : ""}`;
    const facts = { code: error?.code ?? null, details: error?.details ?? {}, execution: this };
    if (error?.code === "TIMEOUT") throw new errors.Timeout(message, facts);
    if (error?.code === "RESOURCE_LIMIT_EXCEEDED") throw new errors.LimitExceeded(message, facts);
    throw new errors.ProgramFailed(message, facts);
  }
}

function errorOf(record: types.Execution, stderr: string): ExecutionError | null {
  const failed = record.exit_code !== 0 || record.status !== "completed";
  if (record.error) {
    const { type, message, details } = record.error;
    return { name: type, value: message, traceback: failed ? stderr : "", code: type, details: details as Record<string, unknown> };
  }
  if (!failed) return null;
  const raised = RAISED.exec(stderr.trim().split("\n").pop() ?? "");
  const plain = { traceback: stderr, code: null, details: {} };
  if (raised) return { name: raised[1] ?? "", value: raised[2] ?? "", ...plain };
  if (record.signal) return { name: "Signal", value: `ended by ${record.signal}`, ...plain };
  return { name: "ExitCode", value: `exit code ${record.exit_code}`, ...plain };
}

// One stream of output: each byte goes to the callback once, also after breaks.
class Output {
  offset = 0;
  #decoder = new TextDecoder();

  constructor(private readonly callback: OnOutput | undefined) {}

  async take(offset: number, bytes: Uint8Array, last = false): Promise<void> {
    const fresh = bytes.subarray(Math.max(0, this.offset - offset));
    if (fresh.length > 0) this.offset = Math.max(this.offset, offset) + fresh.length;
    const text = this.callback ? this.#decoder.decode(fresh, { stream: !last }) : "";
    if (text && this.callback) await this.callback(text);
  }
}

// Follows one execution. wait() may be called again after a Timeout: output goes on where it was.
export class Follower {
  readonly #streams: Record<"stdout" | "stderr", Output>;
  readonly #wantsOutput: boolean;

  constructor(private readonly client: Client, readonly id: string, onStdout?: OnOutput, onStderr?: OnOutput,
    private readonly waitApproval = false) {
    this.#streams = { stdout: new Output(onStdout), stderr: new Output(onStderr) };
    this.#wantsOutput = Boolean(onStdout ?? onStderr);
  }

  // The execution in its present state.
  record(): Promise<types.Execution> {
    return this.client.call("GET", `/v1/executions/${name(this.id)}`);
  }

  // The record of the ended execution. Throws Blocked, PermissionDenied or Timeout.
  async wait(timeout?: Duration): Promise<types.Execution> {
    await this.#toEnd(timeout === undefined ? Infinity : Date.now() + seconds("timeout", timeout) * 1000);
    const record = await this.record();
    if (this.#wantsOutput) await this.#rest(record);
    return ended(record);
  }

  async #toEnd(deadline: number): Promise<void> {
    const events = this.client.events(`/v1/executions/${name(this.id)}/events`);
    try {
      for (let event = await events.read(deadline); event !== null; event = await events.read(deadline)) {
        if (event.type === "stdout" || event.type === "stderr") {
          const data = event.data as unknown as types.Output;
          await this.#streams[event.type].take(data.offset, fromBase64(data.data));
        } else if (event.type === "status") {
          const status = event.data as unknown as types.ExecutionSummary;
          if (TERMINAL.has(status.status)) return;
          if (status.status === "blocked" && !this.waitApproval) throw errors.fromRecord(status, "execution");
        }
      }
    } finally {
      await events.close();
    }
  }

  // Output beyond the kept bytes is in an artifact.
  async #rest(record: types.Execution): Promise<void> {
    for (const stream of ["stdout", "stderr"] as const) {
      const output = this.#streams[stream];
      const artifact = record[`${stream}_artifact`];
      if (artifact && output.offset < record[`${stream}_bytes`]) {
        let offset = 0;
        for await (const piece of this.client.download(`/v1/artifacts/${name(artifact)}/content`)) {
          await output.take(offset, piece);
          offset += piece.length;
        }
      }
      await output.take(output.offset, new Uint8Array(0), true);
    }
  }
}

// The record, unless the execution was refused or has not ended.
export function ended(record: types.Execution): types.Execution {
  if (record.status === "denied" || record.status === "blocked") throw errors.fromRecord(record, "execution");
  if (TERMINAL.has(record.status)) return record;
  throw new errors.Unavailable(`following ${record.id}: the server sends no more, and it is ${record.status}`);
}

export interface FollowOptions {
  // Called with text as it comes. A promise is awaited.
  onStdout?: OnOutput;
  onStderr?: OnOutput;
  // Throw ProgramFailed unless the exit code is 0.
  check?: boolean;
  // Wait while a person has to approve, in place of throwing Blocked.
  waitApproval?: boolean;
}

// Starts a program and waits for its end. If a callback fails, the program is ended too.
export async function runToEnd(client: Client, path: string, body: unknown, options: FollowOptions): Promise<Execution> {
  const quiet = !options.onStdout && !options.onStderr;
  const record = await client.call<types.Execution>("POST", path, body,
    { key: newKey(), ...(quiet ? { query: { wait: WAIT }, wait: WAIT } : {}) });
  let execution: Execution;
  if (quiet && TERMINAL.has(record.status)) {
    execution = new Execution(client, ended(record));
  } else {
    const follower = new Follower(client, record.id, options.onStdout, options.onStderr, options.waitApproval);
    try {
      execution = new Execution(client, await follower.wait());
    } catch (error) {
      if (!(error instanceof errors.CloisterError)) await client.cancel(record.id).catch(() => undefined);
      throw error;
    }
  }
  return options.check ? execution.check() : execution;
}
