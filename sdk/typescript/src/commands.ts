// SPDX-License-Identifier: Apache-2.0
// sandbox.commands: programs in a sandbox, in the foreground and in the background.

import { fromBase64, given, program, putBytes, settings, type Content, type ProgramOptions } from "./body.js";
import { joined, name, newKey, type Client } from "./client.js";
import { Execution, Follower, isTerminal, outputOf, runToEnd, type FollowOptions, type OnOutput } from "./execution.js";
import type * as types from "./types.js";
import type { Duration } from "./units.js";

export interface CommandOptions extends FollowOptions, Omit<ProgramOptions, "args"> {
  // Wall time of the program.
  timeout?: Duration;
  env?: Record<string, string>;
  cwd?: string;
  // In a sandbox of its own that has the workspace alone.
  fresh?: boolean;
}

export interface StartOptions extends Omit<CommandOptions, "check" | "waitApproval"> {
  // More input follows, by sendStdin().
  stdin?: boolean;
}

// A program that was started in the background.
export class Command {
  readonly #path: string;
  readonly #follower: Follower;

  constructor(private readonly client: Client, readonly id: string, onStdout?: OnOutput, onStderr?: OnOutput) {
    this.#path = `/v1/executions/${name(id)}`;
    this.#follower = new Follower(client, id, onStdout, onStderr);
  }

  // running, completed, timed_out, cancelled …
  async status(): Promise<types.Status> {
    return (await this.#follower.record()).status;
  }

  // The output so far.
  async output(stream: "stdout" | "stderr" = "stdout"): Promise<string> {
    return new TextDecoder().decode(outputOf(await this.#follower.record(), stream));
  }

  // Waits for the end; onStdout and onStderr are called meanwhile. After `timeout` Timeout is thrown, and the program continues.
  async wait(options: { timeout?: Duration; check?: boolean } = {}): Promise<Execution> {
    const execution = new Execution(this.client, await this.#follower.wait(options.timeout));
    return options.check ? execution.check() : execution;
  }

  // Ends the program and all processes that it started.
  kill(): Promise<void> {
    return this.client.cancel(this.id);
  }

  // Sends a signal such as "SIGINT" to the program and its processes.
  async signal(signal: string | number): Promise<void> {
    await this.client.call("POST", `${this.#path}:signal`, { signal });
  }

  // More input, for a program started with stdin. Waits until the program's sandbox has taken it.
  async sendStdin(data: Content): Promise<void> {
    const body: Record<string, unknown> = {};
    putBytes(body, "data", data);
    await this.client.call("POST", `${this.#path}/input`, body);
  }

  // The end of the input.
  async closeStdin(): Promise<void> {
    await this.client.call("POST", `${this.#path}/input`, { eof: true });
  }

  // The lines of stdout as they come, to the end of the program.
  async *lines(): AsyncGenerator<string, void, void> {
    const events = this.client.events(`${this.#path}/events`);
    let rest: Uint8Array = new Uint8Array(0);
    let offset = 0;
    try {
      for await (const event of events) {
        if (event.type === "status" && isTerminal(String(event.data.status))) break;
        if (event.type !== "stdout") continue;
        const output = event.data as unknown as types.Output;
        const fresh = fromBase64(output.data).subarray(Math.max(0, offset - output.offset));
        offset += fresh.length;
        rest = joined([rest, fresh]);
        for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10)) {
          yield new TextDecoder().decode(rest.subarray(0, at));
          rest = rest.subarray(at + 1);
        }
      }
    } finally {
      await events.close();
    }
    if (rest.length > 0) yield new TextDecoder().decode(rest);
  }
}

// Made by a sandbox, as `sandbox.commands`.
export class Commands {
  readonly #path: string;

  constructor(private readonly client: Client, private readonly sandboxId: string) {
    this.#path = `/v1/sessions/${name(sandboxId)}/exec`;
  }

  // Runs a command, a string for the shell or a list of arguments, and waits for its end.
  run(command: string | string[], options: CommandOptions = {}): Promise<Execution> {
    return runToEnd(this.client, this.#path, bodyOf(command, options), options);
  }

  // Starts a command in the background. Without a timeout the program lasts as long as the sandbox.
  async start(command: string | string[], options: StartOptions = {}): Promise<Command> {
    const body = { ...bodyOf(command, options), background: true, ...(options.stdin ? { keep_input: true } : {}) };
    const record = await this.client.call<types.Execution>("POST", this.#path, body, { key: newKey() });
    return new Command(this.client, record.id, options.onStdout, options.onStderr);
  }

  // A program by its id, such as one that another process started.
  connect(executionId: string, options: { onStdout?: OnOutput; onStderr?: OnOutput } = {}): Command {
    return new Command(this.client, executionId, options.onStdout, options.onStderr);
  }

  // The running programs.
  async list(): Promise<Command[]> {
    const query = { session_id: this.sandboxId, status: "running" };
    const records = await this.client.pages<types.ExecutionSummary>("/v1/executions", "executions", 500, query);
    return records.map((record) => new Command(this.client, record.id));
  }
}

function bodyOf(command: string | string[], options: CommandOptions): Record<string, unknown> {
  return { command, ...settings(options), ...program(options), ...given({ cwd: options.cwd, sandbox: options.fresh ? "fresh" : undefined }) };
}
