// SPDX-License-Identifier: Apache-2.0
// sandbox.memory: JSON values that outlive the sandbox's programs and the sandbox itself.

import { name, type Client } from "./client.js";
import type * as types from "./types.js";

export class Memory {
  readonly #path: string;

  constructor(private readonly client: Client, sandboxId: string) {
    this.#path = `/v1/sessions/${name(sandboxId)}/memory`;
  }

  // Keeps a value that JSON can express.
  async set(key: string, value: unknown): Promise<void> {
    const content = JSON.stringify(value);
    await (await this.client.open("PUT", `${this.#path}/${name(key)}`, { content, headers: { "Content-Type": "application/json" } })).close();
  }

  // The value. Throws NotFound if there is none.
  async get<T = unknown>(key: string): Promise<T> {
    return this.client.json<T>(await this.client.open("GET", `${this.#path}/${name(key)}`));
  }

  async delete(key: string): Promise<void> {
    await this.client.call("DELETE", `${this.#path}/${name(key)}`);
  }

  // The keys that have a value.
  async keys(): Promise<string[]> {
    return (await this.client.pages<types.MemoryItem>(this.#path, "memory", 10_000, {})).map((item) => item.key);
  }
}
