// SPDX-License-Identifier: Apache-2.0
// The public REST API. Paths are written as spec/openapi.yaml writes them: '/v1/executions'.
import { EventParser, type ServerEvent } from './sse';
import { attendance } from './attendance';
import { ANOTHER_PERSON, currentCsrf, onSignedOut, renewCsrf } from './session';

export type { ServerEvent } from './sse';
export type Query = Record<string, string | number | boolean | null | undefined>;

/** The labels of a form's fields, by the members of the request that the fields make: 'limits.memory_mb'. */
export type Labels = Readonly<Record<string, string>>;

/** An answer that is an error, or no answer. `message` is a sentence for people, and `remedy` says the next step. */
export class ApiError extends Error {
  constructor(
    /** 0: there was no answer. */
    readonly status: number,
    message: string,
    readonly type: string,
    readonly details: Record<string, unknown> = {},
    readonly retryable: boolean = false,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = 'ApiError';
  }

  /** The member of the request that is wrong. */
  get field(): string | null {
    return typeof this.details['field'] === 'string' ? this.details['field'] : null;
  }

  /** In the words of a form: the label of the wrong field stands before the service's text. */
  labelled(labels: Labels): ApiError {
    const field = this.field ?? '';
    const names = Object.keys(labels).filter((one) => field === one || field.startsWith(`${one}.`) || field.startsWith(`${one}[`));
    const label = labels[names.sort((a, b) => b.length - a.length)[0] ?? ''];
    if (label === undefined) return this;
    return new ApiError(this.status, `${label}: ${this.message}`, this.type, { ...this.details, label }, this.retryable, this.retryAfter);
  }

  get remedy(): string {
    if (typeof this.details['remedy'] === 'string') return this.details['remedy'];
    if (typeof this.details['label'] === 'string') return `Change \u201c${this.details['label']}\u201d.`;
    if (this.field) return `Change ${this.field}.`;
    switch (this.status) {
      case 0: return 'Check that the service runs and that this computer reaches it, then try again.';
      case 401: return 'Sign in again.';
      case 403: return /another tenant/.test(this.message) ? 'Sign in as a person of that tenant: an administrator sees other tenants, and does not work in them.' : 'Ask an administrator for a role with this permission.';
      case 404: return 'It may have been deleted, or belong to another tenant or agent. Check the id.';
      case 409: return 'Load the page again to see the present state.';
      case 412: return 'Somebody else changed it meanwhile. Load it again, and apply your change to the present version.';
      case 429: return this.retryAfter ? `Try again in ${this.retryAfter} s.` : 'Try again in a moment.';
      case 503: return this.retryAfter ? `Try again in ${this.retryAfter} s.` : 'Look at Home for what is missing, then try again.';
      default: return this.retryable ? 'Try again.' : 'Look at the service\u2019s log for the cause.';
    }
  }
}

// A browser resolves `.` and `..`, also escaped, before it sends a request: a name would choose another route.
const FOLDED = /^(\.|%2e){0,2}$/i;

function checkSegments(segments: string[], whole: string): void {
  if (!segments.some((segment) => FOLDED.test(segment))) return;
  throw new ApiError(422, `\u201c${whole.slice(0, 200)}\u201d is no path here: a part of the path is empty, \u201c.\u201d or \u201c..\u201d.`, 'invalid_path', {
    remedy: 'Write names with single slashes between them, such as notes/today.txt.',
  });
}

/** The address of an API path, under whatever prefix the page is served. */
export function apiUrl(path: string, query: Query = {}): string {
  checkSegments((path.split('?')[0] ?? '').slice(1).split('/'), path);
  const url = new URL(`..${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, String(value));
  }
  return url.href;
}

export function wsUrl(path: string, query: Query = {}): string {
  return apiUrl(path, query).replace(/^http/, 'ws');
}

/** Segments of a path, escaped: path`/v1/sessions/${id}/files/${name}`. */
export function path(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  return parts.reduce((all, part, index) => all + encodeURIComponent(String(values[index - 1])) + part);
}

/** A file's path: each segment is escaped, the slashes stay. Throws an ApiError for a segment that is empty, `.` or `..`. */
export function filePath(name: string): string {
  checkSegments(name.split('/'), name);
  return name.split('/').map(encodeURIComponent).join('/');
}

export interface RequestOptions {
  query?: Query;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as given. */
  body?: BodyInit;
}

const UNSAFE = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

async function problemOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  const after = Number(response.headers.get('Retry-After'));
  const retryAfter = Number.isFinite(after) && after > 0 ? after : null;
  try {
    const body = JSON.parse(text) as { detail?: unknown; title?: unknown; error?: Record<string, unknown> };
    const error = body.error ?? {};
    const message = [error['message'], body.detail, body.title].find((one) => typeof one === 'string' && one !== '');
    return new ApiError(
      response.status, String(message ?? `The service answered ${response.status}.`), String(error['type'] ?? ''),
      (error['details'] as Record<string, unknown> | undefined) ?? {}, error['retryable'] === true, retryAfter);
  } catch {
    return new ApiError(response.status, `The service answered ${response.status} ${response.statusText}.`.replace(' .', '.'), '', {}, false, retryAfter);
  }
}

/** Sends a request; throws ApiError for an answer of 400 and above, and an AbortError for an abandoned request. */
export async function request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  try {
    return await send(method, path, options);
  } catch (error) {
    const stale = error instanceof ApiError && error.status === 403 && error.field === 'header.X-CSRF-Token';
    const renewed = stale ? await renewCsrf() : 'none';
    if (renewed === 'none') throw error;
    if (renewed === 'other') throw new ApiError(403, ANOTHER_PERSON, '', { remedy: 'Sign in as the person who wants the change.' });
    return send(method, path, options);  // the same person signed in again, in another tab
  }
}

async function send(method: string, path: string, options: RequestOptions): Promise<Response> {
  const csrf = currentCsrf();
  const headers: Record<string, string> = { Accept: 'application/json', ...attendance.headers(), ...options.headers };
  if (UNSAFE.has(method)) headers['X-CSRF-Token'] = csrf;
  let body = options.body;
  if (options.json !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(options.json);
  }
  const url = apiUrl(path, options.query);
  let response: Response;
  try {
    response = await fetch(url, {
      method, headers, credentials: 'same-origin', redirect: 'error', cache: 'no-store',
      ...(body === undefined ? {} : { body }), ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 'The service does not answer.', '', {}, true);
  }
  if (response.ok) return response;
  if (response.status === 401) onSignedOut(csrf);
  throw await problemOf(response);
}

async function asJson<T>(sent: Promise<Response>): Promise<T> {
  const response = await sent;
  const text = await response.text();
  if (text === '') return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new ApiError(response.status, 'The answer is no JSON: something between the browser and the service changed it.', '');
  }
}

export const get = <T>(path: string, options?: RequestOptions): Promise<T> => asJson<T>(request('GET', path, options));
export const post = <T>(path: string, json: unknown = {}, options?: RequestOptions): Promise<T> =>
  asJson<T>(request('POST', path, { ...options, json }));
export const put = <T>(path: string, json: unknown, options?: RequestOptions): Promise<T> =>
  asJson<T>(request('PUT', path, { ...options, json }));
export const del = <T>(path: string, options?: RequestOptions): Promise<T> => asJson<T>(request('DELETE', path, options));

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

/** An error in the words of a form. */
export const labelled = (error: unknown, labels: Labels): unknown => (error instanceof ApiError ? error.labelled(labels) : error);

/** What an error says, in one line with its remedy. */
export function sayError(error: unknown): string {
  if (error instanceof ApiError) return `${error.message} ${error.remedy}`;
  return error instanceof Error ? error.message : String(error);
}

/**
 * Waits until `signal` aborts, the page is shown again, the computer has a network again, or a time has passed: 0.5 s
 * after one failure, then up to 15 s, for 0 failures for ever.
 */
const pause = (failures: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const ended = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', ended);
      removeEventListener('online', ended);
      document.removeEventListener('visibilitychange', shown);
      resolve();
    };
    const shown = (): void => {
      if (!document.hidden) ended();
    };
    const timer = failures > 0 ? setTimeout(ended, Math.min(15_000, 500 * 2 ** Math.min(failures - 1, 5))) : undefined;
    signal.addEventListener('abort', ended);
    addEventListener('online', ended);
    document.addEventListener('visibilitychange', shown);
  });

/** Calls `rest` when the page has been hidden for so long, and `renew` when the computer has a network again. → how to stop. */
function watchPage(restMs: number, rest: () => void, renew: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = (): void => {
    clearTimeout(timer);
    if (document.hidden && restMs < Infinity) timer = setTimeout(rest, restMs);
  };
  changed();
  document.addEventListener('visibilitychange', changed);
  addEventListener('online', renew);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', changed);
    removeEventListener('online', renew);
  };
}

// Three heartbeats of the service.
const SILENCE_MS = 45_000;
// Browsers open six connections to a host over HTTP/1.1, for all tabs together: hidden pages must leave them to others.
const REST_MS = 10_000;

/** One connection of a stream. */
export interface Connection {
  path: string;
  query: Query;
  /** The id of the last event; '' at first. */
  last: string;
  signal: AbortSignal;
  opened(): void;
  heard(events: ServerEvent[]): void;
}

/** → whether the stream has nothing more. Rejects, or gives false, if the connection is lost. */
export type Connect = (connection: Connection) => Promise<boolean>;

export const connectEvents: Connect = async ({ path, query, last, signal, opened, heard }) => {
  const response = await request('GET', path, { query, signal, headers: { Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) } });
  if (response.status === 204 || !response.body) return true;
  opened();
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    heard(parser.push(value));
  }
};

export interface FollowOptions {
  signal: AbortSignal;
  connect?: Connect;
  /** After so long without a byte the connection counts as lost; default: three heartbeats of the service. */
  silenceMs?: number;
  /** A page hidden for so long closes the connection, and connects again when it is shown; Infinity: never. */
  restMs?: number;
  query?: Query;
  lastEventId?: string;
  onEvent(event: ServerEvent): void;
  /** `ended`: the service has nothing more to say. */
  onState?(state: 'connecting' | 'open' | 'waiting' | 'ended', error?: ApiError): void;
}

/**
 * Follows a stream until `signal` aborts or the stream has nothing more (204, or 4xx). After a loss it connects again, from
 * the last id, after 0.5 s, then up to 15 s; after a rest or a change of the network at once.
 */
export async function follow(path: string, options: FollowOptions): Promise<void> {
  const { signal, connect = connectEvents, silenceMs = SILENCE_MS, restMs = REST_MS } = options;
  let last = options.lastEventId ?? '';
  let failures = 0;
  while (!signal.aborted) {
    options.onState?.('connecting');
    let failed: ApiError | undefined;
    const connection = new AbortController();
    const close = (): void => connection.abort();
    let watch: ReturnType<typeof setTimeout> | undefined;
    const alive = (): void => {
      clearTimeout(watch);
      watch = setTimeout(close, silenceMs);
    };
    let left = null as 'to rest' | 'to renew' | null;
    const leave = (why: 'to rest' | 'to renew') => (): void => {
      left = why;
      close();
    };
    const unwatch = watchPage(restMs, leave('to rest'), leave('to renew'));
    signal.addEventListener('abort', close);
    alive();
    const heard = (events: ServerEvent[]): void => {
      alive();
      for (const event of events) {
        failures = 0;
        if (event.id) last = event.id;
        options.onEvent(event);
      }
    };
    try {
      if (await connect({ path, query: options.query ?? {}, last, signal: connection.signal, opened: () => options.onState?.('open'), heard })) {
        options.onState?.('ended');
        return;
      }
    } catch (error) {
      if (signal.aborted) return;
      failed = error instanceof ApiError ? error : new ApiError(0, 'The stream was lost.', '', {}, true);
      if (failed.status >= 400 && failed.status < 500 && failed.status !== 429) {
        options.onState?.('ended', failed);
        return;
      }
    } finally {
      clearTimeout(watch);
      unwatch();
      signal.removeEventListener('abort', close);
      close();
    }
    while (left === 'to rest' && document.hidden && !signal.aborted) await pause(0, signal);
    if (left) continue;
    failures += 1;
    options.onState?.('waiting', failed);
    await pause(failures, signal);
  }
}
