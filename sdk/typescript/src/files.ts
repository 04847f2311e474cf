// SPDX-License-Identifier: Apache-2.0
// sandbox.files: the files of a sandbox's workspace. Paths are relative to /workspace, or begin with it.

import { needsName, workspacePath } from "./body.js";
import { joined, name, type Client, type Events, type Query } from "./client.js";
import * as errors from "./errors.js";
import type * as types from "./types.js";

const MOST_LISTED = 10_000;

// A file or directory of a workspace. `path` is relative to /workspace.
export interface FileInfo {
  path: string;
  name: string;
  type: "file" | "directory" | "link" | "other";
  size: number;
  mode: string;
  modifiedAt: string | null;
}

// A change: `type` is ready, created, modified, moved, removed, overflow or limit (see spec/openapi.yaml).
export interface FileEvent {
  type: string;
  path: string;
  oldPath: string | null;
  isDir: boolean;
}

export type FileData = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

function infoOf(entry: types.FileEntry): FileInfo {
  const { path, type, size, mode } = entry;
  return { path, name: path.slice(path.lastIndexOf("/") + 1), type, size, mode, modifiedAt: entry.modified_at };
}

// Changes of a directory. Ends with the sandbox, or by close().
export class Watch implements AsyncIterableIterator<FileEvent> {
  constructor(private readonly events: Events) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<FileEvent, undefined>> {
    const event = await this.events.read();
    if (event === null || event.type === "end") return this.return();
    const change = event.data as unknown as types.FileChange;
    const value = { type: event.type, path: change.path ?? "", oldPath: change.from ?? null, isDir: change.directory ?? false };
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<FileEvent, undefined>> {
    await this.close();
    return { done: true, value: undefined };
  }

  close(): Promise<void> {
    return this.events.close();
  }
}

// Made by a sandbox, as `sandbox.files`.
export class Files {
  readonly #path: string;

  constructor(private readonly client: Client, sandboxId: string) {
    this.#path = `/v1/sessions/${name(sandboxId)}`;
  }

  #file(path: string): string {
    const inner = needsName(path).split("/").map(name).join("/");
    // Proxies may take one of two slashes away.
    return `${this.#path}/files/${inner.startsWith("/") ? "%2F" + inner.slice(1) : inner}`;
  }

  // The content of a file, in pieces.
  chunks(path: string): AsyncGenerator<Uint8Array, void, void> {
    return this.client.download(this.#file(path));
  }

  // A file as text (UTF-8).
  async read(path: string): Promise<string> {
    const bytes = await this.readBytes(path);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new errors.InvalidRequest(`reading ${JSON.stringify(path)}: the file is not UTF-8`, { field: "path", remedy: "use readBytes()" });
    }
  }

  async readBytes(path: string): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for await (const piece of this.chunks(path)) parts.push(piece);
    return joined(parts);
  }

  // Writes a file, and the missing directories above. The file is replaced with its last byte. `mode`: such as 0o755.
  async write(path: string, data: FileData, options: { mode?: number } = {}): Promise<FileInfo> {
    const query: Query = { mode: options.mode === undefined ? undefined : options.mode.toString(8).padStart(4, "0") };
    const safe = !(data instanceof ReadableStream);
    const answer = await this.client.open("PUT", this.#file(path),
      { query, content: data as BodyInit, safe, seconds: 300, headers: { "Content-Type": "application/octet-stream" } });
    return infoOf(await this.client.json<types.FileEntry>(answer));
  }

  // Writes several files.
  async writeFiles(files: Record<string, FileData>): Promise<FileInfo[]> {
    const written: FileInfo[] = [];
    for (const [path, data] of Object.entries(files)) written.push(await this.write(path, data));
    return written;
  }

  // The content of a directory, down to `depth`.
  async list(path = "", options: { depth?: number; limit?: number } = {}): Promise<FileInfo[]> {
    const query = { path: workspacePath(path) || undefined, depth: options.depth ?? 1, limit: options.limit ?? MOST_LISTED };
    const { entries, left_out } = await this.client.call<{ entries: types.FileEntry[]; left_out: number }>(
      "GET", `${this.#path}/files`, undefined, { query });
    if (left_out > 0 && query.limit >= MOST_LISTED) {
      throw new errors.TooLarge(`listing ${JSON.stringify(path)}: ${left_out} entries are left out`,
        { field: "path", remedy: "list the directories below one by one, or pass a limit" });
    }
    return entries.map(infoOf);
  }

  // One file or directory.
  async info(path: string): Promise<FileInfo> {
    const query = { path: needsName(path), depth: 0 };
    const { entries } = await this.client.call<{ entries: types.FileEntry[] }>("GET", `${this.#path}/files`, undefined, { query });
    if (!entries[0]) throw new errors.NotFound(`${path}: no such file`);
    return infoOf(entries[0]);
  }

  async exists(path: string): Promise<boolean> {
    try {
      await this.info(path);
      return true;
    } catch (error) {
      if (error instanceof errors.NotFound) return false;
      throw error;
    }
  }

  // Makes a directory, and the missing directories above. An existing one is no error.
  async makeDir(path: string): Promise<FileInfo> {
    return infoOf(await this.client.call<types.FileEntry>("POST", `${this.#path}/files:mkdir`, { path: needsName(path) }, { safe: true }));
  }

  // Removes a file, or an empty directory; with `recursive` a directory with all that is in it.
  async remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    const query = { recursive: options.recursive || undefined };
    await (await this.client.open("DELETE", this.#file(path), { query, safe: false })).close();
  }

  // Gives a file or directory another path.
  async rename(from: string, to: string, options: { overwrite?: boolean } = {}): Promise<void> {
    await this.client.call("POST", `${this.#path}/files:move`,
      { from: needsName(from), to: needsName(to), overwrite: options.overwrite ?? false });
  }

  // Follows the changes in a directory. The first event is `ready`: from then on no change is missed silently.
  watch(path = "", options: { recursive?: boolean } = {}): Watch {
    return new Watch(this.client.events(`${this.#path}/files:watch`,
      { path: workspacePath(path) || undefined, recursive: options.recursive || undefined }));
  }

  // A file or directory as a tar archive. Unpack it with care: its names were made in the sandbox.
  async readArchive(path = ""): Promise<Uint8Array> {
    const query = { path: workspacePath(path) || undefined };
    return (await this.client.open("GET", `${this.#path}/archive`, { query, seconds: 300 })).bytes();
  }

  // Unpacks an uncompressed tar archive into a directory; gives the number of entries that were left out.
  async writeArchive(data: FileData, path = ""): Promise<number> {
    const answer = await this.client.open("PUT", `${this.#path}/archive`, { query: { path: workspacePath(path) || undefined },
      content: data as BodyInit, safe: false, seconds: 300, headers: { "Content-Type": "application/x-tar" } });
    return (await this.client.json<{ left_out: number }>(answer)).left_out;
  }
}
