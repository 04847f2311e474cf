// SPDX-License-Identifier: Apache-2.0
// The bodies of requests, from the options of the SDK. An option that is left out is left to the server.

import { InvalidRequest } from "./errors.js";
import type * as types from "./types.js";
import { cpuMillis, mebibytes, seconds, sizeBytes, type Cores, type Duration, type Size } from "./units.js";

export type Content = string | Uint8Array;
// A tier's name, a list of destinations, or the whole policy.
export type Network = "none" | "restricted" | "internal" | "api" | "full" | types.NetworkEntry[] | types.NetworkPolicy;

// Limits of a sandbox and of its programs.
export interface LimitOptions {
  // Wall time of a program, and processor time.
  timeout?: Duration;
  cpuTime?: Duration;
  cpu?: Cores;
  // Sizes such as "512MB"; a number is MiB.
  memory?: Size;
  disk?: Size;
  fileSize?: Size;
  // Bytes kept of each stream of output.
  output?: Size;
  // Processes and threads.
  pids?: number;
  openFiles?: number;
  inodes?: number;
}

export interface SettingOptions extends LimitOptions {
  network?: Network;
  env?: Record<string, string>;
  metadata?: Record<string, string>;
  // Packages.
  deps?: string[];
  runtime?: string;
  image?: string;
  // How strictly it is handled.
  tier?: "Auto" | "Assisted" | "HumanApprove" | "ManualOnly";
}

// What belongs to one program.
export interface ProgramOptions {
  args?: string[];
  // All of its input.
  input?: Content;
  // From a path in /workspace to the content.
  files?: Record<string, Content>;
  // Globs of files to keep.
  artifacts?: string[];
  // The escalation that was approved for exactly this program.
  approval?: string;
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// Text as it is, bytes that are no text in base64.
export function putBytes(body: Record<string, unknown>, member: string, content: Content): void {
  if (typeof content === "string") {
    body[member] = content;
    return;
  }
  try {
    body[member] = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    body[member] = toBase64(content);
    body.encoding = "base64";
  }
}

export function networkPolicy(network: Network): types.NetworkPolicy {
  if (typeof network === "string") return { tier: network };
  return Array.isArray(network) ? { tier: "restricted", allow: network } : network;
}

// The members of `values` that are given.
export function given(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

export function settings(options: SettingOptions): Record<string, unknown> {
  const made = <T, R>(member: string, value: T | undefined, convert: (member: string, value: T) => R): R | undefined =>
    value === undefined ? undefined : convert(member, value);
  return given({
    timeout_seconds: made("timeout", options.timeout, seconds), cpu_seconds: made("cpuTime", options.cpuTime, seconds),
    cpu_millis: made("cpu", options.cpu, cpuMillis), memory_mb: made("memory", options.memory, mebibytes),
    disk_mb: made("disk", options.disk, mebibytes), file_size_mb: made("fileSize", options.fileSize, mebibytes),
    max_output_bytes: made("output", options.output, (member, value) => sizeBytes(member, value, 1)),
    pids: options.pids, open_files: options.openFiles, inodes: options.inodes,
    network_policy: options.network === undefined ? undefined : networkPolicy(options.network),
    env: options.env, metadata: options.metadata, deps: options.deps, runtime: options.runtime, image: options.image, tier: options.tier,
  });
}

export function program(options: ProgramOptions): Record<string, unknown> {
  const body = given({ args: options.args, artifacts: options.artifacts, approval: options.approval });
  if (options.input !== undefined && options.input.length > 0) putBytes(body, "input", options.input);
  if (options.files) {
    body.files = Object.entries(options.files).map(([path, content]) => {
      const file: Record<string, unknown> = { path: needsName(path) };
      putBytes(file, "content", content);
      return file;
    });
  }
  return body;
}

const OTHER_ROOTS = ["/home/user", "/tmp"];

// A path in the workspace, from one that is relative to the workspace or begins with /workspace. "" is the workspace. An absolute path in
// another root stays absolute.
export function workspacePath(path: string): string {
  const absolute = path.startsWith("/");
  const parts: string[] = [];
  let outside = false;
  for (const part of path.split("/")) {
    if (part === "..") outside ||= parts.pop() === undefined;
    else if (part !== "" && part !== ".") parts.push(part);
  }
  const whole = "/" + parts.join("/");
  if (absolute && !outside && OTHER_ROOTS.some((root) => whole === root || whole.startsWith(root + "/"))) return whole;
  if (absolute) outside ||= parts.shift() !== "workspace";
  if (outside) {
    throw new InvalidRequest(`path: ${JSON.stringify(path)} is outside of /workspace`,
      { field: "path", remedy: "files are those of /workspace, /home/user and /tmp; use commands.run() for other places" });
  }
  return parts.join("/");
}

// A path in the workspace that is not the workspace itself.
export function needsName(path: string): string {
  const inner = workspacePath(path);
  if (inner && !OTHER_ROOTS.includes(inner)) return inner;
  throw new InvalidRequest(`path: ${JSON.stringify(path)} names no file`, { field: "path", remedy: "give a path below /workspace" });
}
