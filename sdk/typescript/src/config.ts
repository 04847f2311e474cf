// SPDX-License-Identifier: Apache-2.0
// Which server to ask, and with which key: arguments, then CLOISTER_URL and CLOISTER_API_KEY, then in Node.js the server of
// this account, which the command line finds in the same way: `address` and `admin.key` in its state directory. The key of
// a state directory is sent to no address but that of its own server. In a browser the arguments are needed.

import { ConfigurationError } from "./errors.js";

export interface Target {
  // The URL before every path, without a slash at the end.
  url: string;
  apiKey: string | null;
}

interface NodeProcess {
  env: Record<string, string | undefined>;
  versions?: { node?: string };
  geteuid?: () => number;
  kill(pid: number, signal: number): void;
}

const MOST_BYTES = 4096;

function node(): NodeProcess | null {
  const found = (globalThis as { process?: NodeProcess }).process;
  return found?.versions?.node ? found : null;
}

// The URL without a slash at its end. Throws ConfigurationError for anything but http and https.
export function parse(url: string): string {
  let parts: URL | null = null;
  try {
    parts = new URL(url);
  } catch {
    // said below
  }
  if (url.startsWith("unix:")) {
    throw new ConfigurationError(`reading the URL ${JSON.stringify(url)}: fetch cannot reach a Unix socket`,
      { remedy: "let the server listen on 127.0.0.1 too (`listen`), or use the SDK for Python" });
  }
  const plain = parts && ["http:", "https:"].includes(parts.protocol) && !parts.username && !parts.password && !parts.search && !parts.hash;
  if (!parts || !plain) {
    throw new ConfigurationError(`reading the URL ${JSON.stringify(url)}: only scheme, host, port and path are understood`,
      { remedy: "give http://HOST:PORT or https://HOST" });
  }
  return parts.origin + parts.pathname.replace(/\/+$/, "");
}

interface Local {
  url: string;
  apiKey: string | null;
}

// The server of this account; null if none runs.
async function local(process: NodeProcess, state: string | undefined): Promise<Local | null> {
  const library: string = "node:fs/promises"; // not for bundlers
  const { readFile } = (await import(library)) as { readFile(path: string, encoding: string): Promise<string> };
  const home = `${process.env.HOME ?? "/"}/.local/state`;
  const given = process.env.XDG_STATE_HOME;
  const folder = state ?? (process.geteuid?.() === 0 ? "/var/lib/cloister" : `${given?.startsWith("/") ? given : home}/cloister`);
  const line = async (name: string): Promise<string> => {
    try {
      return ((await readFile(`${folder}/${name}`, "utf8")).slice(0, MOST_BYTES).split("\n")[0] ?? "").trim();
    } catch {
      return "";
    }
  };
  const [address, pid] = [await line("address"), Number(await line("lock"))];
  if (!address || !Number.isInteger(pid) || pid <= 0 || !alive(process, pid)) return null;
  if (address.startsWith("unix:")) return null;
  return { url: parse(address.includes("//") ? address : `http://${address}`), apiKey: (await line("admin.key")) || null };
}

function alive(process: NodeProcess, pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === "EPERM";
  }
}

// The server to ask. Throws ConfigurationError if nothing names one.
export async function resolve(url?: string, apiKey?: string, state?: string): Promise<Target> {
  const process = node();
  const named = url ?? (process?.env.CLOISTER_URL || undefined);
  const key = apiKey ?? (process?.env.CLOISTER_API_KEY || undefined);
  if (key !== undefined && !/^[!-~]+$/.test(key)) {
    throw new ConfigurationError("reading the key: it has characters that no key has", { remedy: "give the key alone" });
  }
  if (named !== undefined && key !== undefined) return { url: parse(named), apiKey: key };
  const here = process ? await local(process, state) : null;
  if (named === undefined) {
    if (!here) {
      throw new ConfigurationError(process ? "finding a server: none runs on this account" : "finding a server: no url is given",
        process ? {} : { remedy: "pass url and apiKey" });
    }
    return { url: here.url, apiKey: key ?? here.apiKey };
  }
  const target = parse(named);
  return { url: target, apiKey: here && here.url === target ? here.apiKey : null };
}
