// SPDX-License-Identifier: Apache-2.0
// Sandbox: a sandbox that outlives one program. run(): a sandbox for one program.

import { given, program, settings, type ProgramOptions, type SettingOptions } from "./body.js";
import { Client, name, newKey, sleep, type ClientOptions } from "./client.js";
import { Commands } from "./commands.js";
import * as errors from "./errors.js";
import { runToEnd, type Execution, type FollowOptions } from "./execution.js";
import { Files } from "./files.js";
import { Memory } from "./memory.js";
import type * as types from "./types.js";
import { seconds, type Duration } from "./units.js";

// A client, or the options of one.
export interface ServerOptions extends Pick<ClientOptions, "url" | "apiKey"> {
  client?: Client;
}

export interface SandboxOptions extends SettingOptions, ServerOptions {
  // Of runCode(); default: python.
  language?: string;
  // Stands for the id: Sandbox.connect(name). Unique among the sandboxes of your agent.
  name?: string;
  // How long the sandbox lives, in all and without a running program.
  ttl?: Duration;
  idleTtl?: Duration;
  // Where its programs start.
  cwd?: string;
  // Begin with the files of a snapshot.
  snapshot?: string | SnapshotInfo;
  // What may be done in it.
  capabilities?: types.Capability[];
  // Its programs may have sandboxes of their own within it.
  nested?: boolean;
  // Wait while a person has to approve, in place of throwing Blocked.
  waitApproval?: boolean;
}

export interface RunCodeOptions extends FollowOptions, ProgramOptions {
  // Default: the sandbox's.
  language?: string;
  // Another interpreter beside the usual one, by a name of your choice, or "none".
  kernel?: string;
  // Wall time of the code.
  timeout?: Duration;
  // args, env and cwd make it a program of its own, without the variables of earlier code.
  env?: Record<string, string>;
  cwd?: string;
  // In a sandbox of its own that has the workspace alone.
  fresh?: boolean;
}

export interface RunOptions extends SettingOptions, ProgramOptions, FollowOptions, ServerOptions {
  // Default: python.
  language?: string;
}

export type SandboxInfo = types.Session;
export type SnapshotInfo = types.Snapshot;

// A link to a server in a sandbox. Whoever has the URL reaches this port, until `expiresAt`.
export interface PortLink {
  url: string;
  port: number;
  token: string;
  expiresAt: string;
}

function clientOf(options: ServerOptions): Client {
  if (options.client) return options.client;
  return new Client({ ...(options.url === undefined ? {} : { url: options.url }), ...(options.apiKey === undefined ? {} : { apiKey: options.apiKey }) });
}

function snapshotId(snapshot: string | SnapshotInfo | undefined): string | undefined {
  return typeof snapshot === "object" ? snapshot.id : snapshot;
}

// A sandbox of its own for files, programs, interpreters and servers, until kill(), or until its time is over.
export class Sandbox {
  // Programs: commands.run("ls -l").
  readonly commands: Commands;
  // Files of the workspace: files.write("a.txt", "text").
  readonly files: Files;
  // JSON values under keys, kept by the service and out of reach of the sandbox's programs.
  readonly memory: Memory;
  readonly #path: string;

  private constructor(readonly client: Client, readonly id: string) {
    this.#path = `/v1/sessions/${name(id)}`;
    this.commands = new Commands(client, id);
    this.files = new Files(client, id);
    this.memory = new Memory(client, id);
  }

  // A running sandbox.
  static create(options: SandboxOptions = {}): Promise<Sandbox> {
    const body = {
      language: options.language ?? "python", ...settings(options),
      ...given({ name: options.name, cwd: options.cwd, capabilities: options.capabilities, nested: options.nested, from_snapshot: snapshotId(options.snapshot),
        ttl_seconds: options.ttl === undefined ? undefined : seconds("ttl", options.ttl),
        idle_ttl_seconds: options.idleTtl === undefined ? undefined : seconds("idleTtl", options.idleTtl) }),
    };
    return Sandbox.#make(clientOf(options), body, options.waitApproval ?? false);
  }

  // A sandbox for the time of `body`, and the value of `body`.
  static async use<T>(body: (sandbox: Sandbox) => Promise<T>, options: SandboxOptions = {}): Promise<T> {
    const sandbox = await Sandbox.create(options);
    try {
      return await body(sandbox);
    } finally {
      await sandbox.kill();
    }
  }

  static async #make(client: Client, body: unknown, waitApproval: boolean): Promise<Sandbox> {
    let record = await client.call<types.Session>("POST", "/v1/sessions", body, { key: newKey(), wait: 60 });
    if (record.status === "blocked" && !waitApproval) throw errors.fromRecord(record, "sandbox");
    if (record.status === "blocked" || record.status === "creating") {
      for await (const event of client.events(`/v1/sessions/${name(record.id)}/events`)) {
        if (event.type === "status") record = event.data as unknown as types.Session;
        if (record.status === "running" || record.status === "ended") break;
      }
    }
    if (record.status === "running") return new Sandbox(client, record.id);
    const why = record.end_reason ?? record.error;
    throw new errors.Unavailable(`making a sandbox: ${why?.message ?? "it has ended"}`, { code: why?.type ?? null });
  }

  // A sandbox that runs already.
  static async connect(sandboxId: string, options: ServerOptions = {}): Promise<Sandbox> {
    const sandbox = new Sandbox(clientOf(options), sandboxId);
    const info = await sandbox.info();
    if (info.status !== "ended") return sandbox;
    throw new errors.Conflict(`${sandboxId} has ended: ${info.end_reason?.message}`, { remedy: "make another sandbox, or restore a snapshot" });
  }

  // Sandboxes, newest first; status: null also gives those that have ended.
  static list(options: ServerOptions & { status?: types.SessionStatus | null; limit?: number } = {}): Promise<SandboxInfo[]> {
    const status = options.status === undefined ? "running" : options.status;
    return clientOf(options).pages("/v1/sessions", "sessions", options.limit ?? 100, { status });
  }

  // A new sandbox with the files of a snapshot.
  static fromSnapshot(snapshot: string | SnapshotInfo, options: SandboxOptions = {}): Promise<Sandbox> {
    return Sandbox.create({ ...options, snapshot });
  }

  // The sandbox at this moment: status, limits, time left, usage.
  info(): Promise<SandboxInfo> {
    return this.client.call("GET", this.#path);
  }

  async isRunning(): Promise<boolean> {
    return (await this.info()).status === "running";
  }

  // Ends the sandbox, with its programs and files. A sandbox that has ended stays as it is.
  async kill(): Promise<void> {
    try {
      await this.client.call("DELETE", this.#path);
    } catch (error) {
      if (!(error instanceof errors.NotFound)) throw error;
    }
  }

  // Lets it live longer: its time counts from now. Without options the times are as before.
  renew(options: { ttl?: Duration; idleTtl?: Duration } = {}): Promise<SandboxInfo> {
    const body = given({ ttl_seconds: options.ttl === undefined ? undefined : seconds("ttl", options.ttl),
      idle_ttl_seconds: options.idleTtl === undefined ? undefined : seconds("idleTtl", options.idleTtl) });
    return this.client.call("POST", `${this.#path}/renew`, body, { safe: true });
  }

  // Moves it to a stronger runtime, with its files.
  move(options: { runtime?: string; tier?: SettingOptions["tier"]; endPrograms?: boolean } = {}): Promise<SandboxInfo> {
    const body = given({ runtime: options.runtime, tier: options.tier, end_programs: options.endPrograms });
    return this.client.call("POST", `${this.#path}:move`, body, { wait: 120 });
  }

  // Runs code. In Python, JavaScript and bash it finds the variables of earlier code, and its last value is in `results`.
  runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    const body = { code, ...settings(options), ...program(options), ...given({ language: options.language, kernel: options.kernel,
      cwd: options.cwd, sandbox: options.fresh ? "fresh" : undefined }) };
    return runToEnd(this.client, `${this.#path}/exec`, body, options);
  }

  // The interpreters that runCode() has used.
  async kernels(): Promise<types.Kernel[]> {
    return (await this.client.call<{ kernels: types.Kernel[] }>("GET", `${this.#path}/kernels`)).kernels;
  }

  // Ends an interpreter. The next code has a fresh one, without variables.
  async restartKernel(kernel: string): Promise<void> {
    await this.client.call("POST", `${this.#path}/kernels/${name(kernel)}:restart`, {});
  }

  // A link to a server in the sandbox; whoever has its `url` reaches the port. Default: for an hour.
  // `wait`: first wait until something listens on the port; Timeout after that time.
  async port(port: number, options: { expires?: Duration; wait?: Duration } = {}): Promise<PortLink> {
    const body = given({ expires_seconds: options.expires === undefined ? undefined : Math.ceil(seconds("expires", options.expires)) });
    const link = await this.client.call<{ url: string; port: number; token: string; expires_at: string }>(
      "POST", `${this.#path}/ports/${port}/tokens`, body, { safe: true });
    if (options.wait !== undefined) await this.#listening(port, Date.now() + seconds("wait", options.wait) * 1000);
    return { url: await this.client.absolute(link.url), port: link.port, token: link.token, expiresAt: link.expires_at };
  }

  async #listening(port: number, deadline: number): Promise<void> {
    for (;;) {
      try {
        await (await this.client.open("GET", `${this.#path}/ports/${port}/`, { headers: { Accept: "*/*" }, safe: false })).close();
        return;
      } catch (error) {
        if (!(error instanceof errors.CloisterError) || error.status === null) throw error;
        if (error.status !== 404 || error.field !== "url.port") return; // the server in the sandbox answered
        if (Date.now() >= deadline) {
          throw new errors.Timeout(`waiting for port ${port}: ${error.message}`, { remedy: "start the server, or wait longer" });
        }
      }
      await sleep(0.1);
    }
  }

  // Keeps the workspace; with `memory` (runtime gvisor) also all processes. See fromSnapshot().
  snapshot(options: { name?: string; memory?: boolean; metadata?: Record<string, string>; ttl?: Duration } = {}): Promise<SnapshotInfo> {
    const body = given({ name: options.name, memory: options.memory, metadata: options.metadata,
      ttl_seconds: options.ttl === undefined ? undefined : Math.ceil(seconds("ttl", options.ttl)) });
    return this.client.call("POST", `${this.#path}/snapshots`, body, { wait: 300 });
  }

  // Sandboxes that begin with the files of this one, and have its limits, variables, capabilities and times.
  async fork(count = 1): Promise<Sandbox[]> {
    const { language, env, cwd, nested, capabilities, metadata, network_policy, ttl_seconds, idle_ttl_seconds, limits, provenance } = await this.info();
    const taken = await this.snapshot();
    const all = { language, env, cwd, nested, capabilities, metadata, network_policy, ttl_seconds, idle_ttl_seconds, ...limits,
      from_snapshot: taken.id, runtime: provenance.runtime, image: provenance.image };
    const body = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
    const forks: Sandbox[] = [];
    try {
      while (forks.length < count) forks.push(await Sandbox.#make(this.client, body, false));
    } catch (error) {
      for (const fork of forks) await fork.kill();
      throw error;
    } finally {
      await deleteSnapshot(taken, { client: this.client });
    }
    return forks;
  }
}

// Snapshots, newest first.
export function listSnapshots(options: ServerOptions & { limit?: number } = {}): Promise<SnapshotInfo[]> {
  return clientOf(options).pages("/v1/snapshots", "snapshots", options.limit ?? 100, {});
}

// Removes a snapshot.
export async function deleteSnapshot(snapshot: string | SnapshotInfo, options: ServerOptions = {}): Promise<void> {
  await clientOf(options).call("DELETE", `/v1/snapshots/${name(String(snapshotId(snapshot)))}`);
}

// Runs code in a sandbox of its own, and waits for the end.
export function run(code: string, options: RunOptions = {}): Promise<Execution> {
  const body = { code, language: options.language ?? "python", ...settings(options), ...program(options) };
  return runToEnd(clientOf(options), "/v1/executions", body, options);
}

// Runs a command, a string for the shell or a list of arguments, in a sandbox of its own, and waits for the end.
export function runCommand(command: string | string[], options: RunOptions = {}): Promise<Execution> {
  return runToEnd(clientOf(options), "/v1/executions", { command, ...settings(options), ...program(options) }, options);
}
