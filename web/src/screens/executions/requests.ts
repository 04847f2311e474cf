// SPDX-License-Identifier: Apache-2.0
// Requests of runs, as JSON and as command lines.
import { ApiError, get, path } from '../../api';
import { quoteShell } from '../../text';

export type RunRequest = Record<string, unknown>;

export interface KeptRequest {
  request: RunRequest;
  /** Members whose values are another person's: the request does not make the run again. */
  withheld: string[];
}

/** The request of a run. Null: it is not kept any more, or the person may not run. */
export async function requestOf(id: string, signal: AbortSignal): Promise<KeptRequest | null> {
  try {
    return await get<KeptRequest>(path`/v1/executions/${id}/request`, { signal });
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

type Words = string[] | null;

const UNITS: Record<string, string> = { timeout_seconds: 's', memory_mb: 'MB', cpu_millis: 'm', disk_mb: 'MB' };
const flag = (name: string) => (value: unknown, member: string): Words =>
  (typeof value === 'string' || typeof value === 'number' ? [name, `${value}${UNITS[member] ?? ''}`] : null);
const each = (name: string) => (value: unknown): Words =>
  (Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.flatMap((one: string) => [name, one]) : null);
const never = (): Words => null;
const elsewhere = (): Words => [];

function envWords(value: unknown): Words {
  const all = Object.entries(value as Record<string, unknown>);
  return all.every(([, one]) => typeof one === 'string') ? all.flatMap(([name, one]) => ['-e', `${name}=${String(one)}`]) : null;
}

/** `--allow` says names with ports: not protocols, methods, paths or ranges of addresses. */
function networkWords(value: unknown): Words {
  const { tier, allow, on_denied: denied, ...others } = value as { tier?: unknown; allow?: unknown; on_denied?: unknown };
  if (Object.values(others).some(said) || (said(tier) && typeof tier !== 'string')) return null;
  const destinations: string[] = [];
  for (const one of said(allow) ? (allow as unknown[]) : []) {
    if (typeof one === 'string') {
      destinations.push(one);
      continue;
    }
    const { name, ports, ...rest } = one as { name?: unknown; ports?: unknown };
    if (typeof name !== 'string' || !Array.isArray(ports) || ports.length === 0 || Object.values(rest).some(said)) return null;
    destinations.push(...ports.map((port) => `${name}:${String(port)}`));
  }
  if ((tier ?? 'none') === 'none' && destinations.length === 0 && !said(denied)) return [];
  return ['--network', String(tier ?? 'none'), ...destinations.flatMap((one) => ['--allow', one]), ...(said(denied) && denied !== 'deny' ? ['--on-denied', String(denied)] : [])];
}

/** Whether a member has a value other than the default of most members. */
export const said = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && value !== false
  && !(Array.isArray(value) && value.length === 0) && !(typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 0);

type Members = Record<string, (value: unknown, member: string) => Words>;

/** The members of the program, which are written at the end. */
const PROGRAM: Members = {
  language: elsewhere, code: elsewhere, command: elsewhere, args: elsewhere, input: elsewhere, session_id: elsewhere,
  encoding: (value) => (value === 'utf8' ? [] : null), files: never, secrets: never, metadata: never, approval: never,
  env: envWords, artifacts: each('--artifacts'), timeout_seconds: flag('--timeout'),
};
const RUN: Members = {
  ...PROGRAM, memory_mb: flag('--memory'), cpu_millis: flag('--cpu'), pids: flag('--pids'), disk_mb: flag('--disk'), runtime: flag('--runtime'),
  image: flag('--image'), tier: flag('--tier'), network_policy: networkWords, deps: each('--dep'), deps_from: flag('--deps-from'),
};
/** The limits of the sandbox and its packages are the session's in any case. */
const EXEC: Members = {
  ...PROGRAM, cwd: flag('--cwd'), kernel: flag('--kernel'), sandbox: (value) => (value === 'session' ? [] : null),
  memory_mb: elsewhere, cpu_millis: elsewhere, pids: elsewhere, disk_mb: elsewhere, file_size_mb: elsewhere, inodes: elsewhere, open_files: elsewhere, deps: elsewhere,
};

function programWords(request: RunRequest): Words {
  const { code, command, language, args } = request;
  const session = said(request['session_id']);
  const rest = said(args) ? ['--', ...(args as unknown[]).map(String)] : [];
  if (typeof code === 'string') return [...(typeof language === 'string' ? ['-l', language] : []), '-c', code, ...rest];
  if (rest.length > 0) return null;
  if (typeof command === 'string') return session ? ['--', 'bash', '-c', command, 'bash'] : ['-l', 'bash', '-c', command];
  if (!Array.isArray(command)) return null;
  const words = command.map(String);
  return session ? ['--', ...words] : ['-l', 'bash', '-c', words.map(quoteShell).join(' ')];
}

/** The program as code in a language, for the form of a new run. */
export function codeOf(request: RunRequest): { language: string; code: string } {
  const { command, language, code } = request;
  if (typeof command === 'string') return { language: 'bash', code: command };
  if (Array.isArray(command)) return { language: 'bash', code: command.map((word) => quoteShell(String(word))).join(' ') };
  return { language: typeof language === 'string' ? language : 'python', code: typeof code === 'string' ? code : '' };
}

/** `cloister run …`; null if the request has members that the command line does not say, such as files. */
export function commandLine(request: RunRequest): string | null {
  const session = said(request['session_id']);
  const words = session ? ['cloister', 'exec', String(request['session_id'])] : ['cloister', 'run'];
  const given = { artifacts: ['**'], ...request };  // the API's default, which is not the command line's
  for (const [member, value] of Object.entries(given)) {
    if (!said(value)) continue;
    const more = (session ? EXEC : RUN)[member]?.(value, member) ?? null;
    if (more === null) return null;
    words.push(...more);
  }
  const program = programWords(request);
  if (program === null) return null;
  words.push(...program);
  const input = typeof request['input'] === 'string' && request['input'] !== '' ? request['input'] : null;
  return (input === null ? '' : `printf %s ${quoteShell(input)} | `) + words.map(quoteShell).join(' ');
}
