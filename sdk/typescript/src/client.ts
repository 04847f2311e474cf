// SPDX-License-Identifier: Apache-2.0
// Client: requests to a server, with retries; the streams and downloads that continue after a break.

import { resolve, type Target } from "./config.js";
import * as errors from "./errors.js";
import { Parser, type ServerEvent } from "./sse.js";
import type * as types from "./types.js";

export const VERSION = "0.1.0";
const MOST_PAGE = 200;
const SILENCE = 60; // seconds; heartbeats come far more often
const PATIENCE = 60; // seconds in which a stream that makes no progress is opened again
const NO_PROGRESS = 5; // attempts of a download

export interface ClientOptions {
  // https://HOST or http://HOST:PORT; default: CLOISTER_URL, then the server of this account.
  url?: string;
  // Default: CLOISTER_API_KEY, then the key of the server of this account.
  apiKey?: string;
  // The state directory of the server of this account.
  state?: string;
  // Seconds for the answer to a request, beyond the time that the request itself asks for.
  timeout?: number;
  // The most further attempts of a request, and the seconds within which they begin.
  retries?: number;
  retrySeconds?: number;
  // In place of the global fetch, such as for a proxy.
  fetch?: typeof fetch;
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Request {
  query?: Query;
  headers?: Record<string, string>;
  // A value, or a function that gives the content again for each attempt.
  content?: BodyInit | (() => BodyInit);
  // Sending it twice has the effect of sending it once; default: by the method.
  safe?: boolean;
  // For the head of the answer.
  seconds?: number;
}

export function name(text: string): string {
  return encodeURIComponent(text);
}

export function sleep(seconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, seconds * 1000));
}

export function newKey(): string {
  const bytes = new Uint8Array(16);
  const random = (globalThis as { crypto?: Crypto }).crypto; // not in Node.js 18
  if (random) random.getRandomValues(bytes);
  else bytes.forEach((_, at) => (bytes[at] = Math.floor(Math.random() * 256)));
  return `js-${Date.now().toString(36)}-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function targetOf(path: string, query: Query = {}): string {
  const words = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const text = words.map(([key, value]) => `${name(key)}=${name(String(value))}`).join("&");
  return text ? `${path}?${text}` : path;
}

// An answer whose body is read with a bound on the silence between its pieces.
export class Answer {
  readonly status: number;
  readonly headers: Headers;
  #reader: ReadableStreamDefaultReader<Uint8Array> | null;
  #abort: AbortController;

  constructor(response: Response, abort: AbortController) {
    this.status = response.status;
    this.headers = response.headers;
    this.#reader = response.body ? (response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>) : null;
    this.#abort = abort;
  }

  // Some bytes; null at the end. Throws Broken, also when nothing comes in `seconds`.
  async next(seconds: number = SILENCE): Promise<Uint8Array | null> {
    if (!this.#reader) return null;
    let slow = false;
    const timer = setTimeout(() => {
      slow = true;
      this.#abort.abort();
    }, Math.min(seconds, SILENCE) * 1000);
    try {
      const { done, value } = await this.#reader.read();
      return done ? null : value;
    } catch (error) {
      throw new Broken(slow ? "no answer in time" : why(error), true, slow);
    } finally {
      clearTimeout(timer);
    }
  }

  async bytes(): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for (let piece = await this.next(); piece !== null; piece = await this.next()) parts.push(piece);
    return joined(parts);
  }

  async close(): Promise<void> {
    const reader = this.#reader;
    this.#reader = null;
    if (reader) await reader.cancel().catch(() => undefined);
  }
}

export function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const SAFE: readonly string[] = ["GET", "HEAD", "PUT", "DELETE"]; // sending one twice has the effect of sending it once

// No answer, or half of one. `sent`: the server may have carried out the request. `slow`: it had time enough.
export class Broken extends Error {
  constructor(message: string, readonly sent: boolean, readonly slow = false) {
    super(message);
  }
}

function causeOf(error: unknown): { code?: string; message?: string } {
  const cause = (error as { cause?: { code?: string; message?: string; errors?: { code?: string }[] } })?.cause;
  return cause?.code === undefined && cause?.errors?.[0] ? cause.errors[0] : (cause ?? {});
}

function why(error: unknown): string {
  const cause = causeOf(error);
  return [(error as Error)?.message ?? String(error), cause.message || cause.code].filter(Boolean).join(": ");
}

// A server, and how to speak to it. One client serves any number of sandboxes.
export class Client {
  readonly #options: ClientOptions;
  #target: Promise<Target> | null = null;

  constructor(options: ClientOptions = {}) {
    this.#options = options;
  }

  #resolved(): Promise<Target> {
    this.#target ??= resolve(this.#options.url, this.#options.apiKey, this.#options.state);
    return this.#target;
  }

  // The URL before every path.
  async url(): Promise<string> {
    return (await this.#resolved()).url;
  }

  // A URL of an answer, which may be relative to the server.
  async absolute(url: string): Promise<string> {
    const base = await this.url();
    return url.startsWith("/") ? base + url : new URL(url, `${base}/`).href;
  }

  // The answer to a request, after the attempts of the client. Throws the error of a refusal.
  async open(method: string, path: string, request: Request = {}): Promise<Answer> {
    const safe = request.safe ?? SAFE.includes(method);
    const end = Date.now() + (this.#options.retrySeconds ?? 30) * 1000;
    let left = this.#options.retries ?? 4;
    for (let pause = 0.2; ; pause = Math.min(pause * 2, 5)) {
      let error: errors.CloisterError;
      let sent = true;
      try {
        const answer = await this.#once(method, targetOf(path, request.query), request);
        if (answer.status < 300 || answer.status === 304) return answer;
        error = errors.fromAnswer(answer.status, answer.headers, new TextDecoder().decode(await answer.bytes()));
      } catch (broken) {
        if (!(broken instanceof Broken)) throw broken;
        const message = `asking ${await this.url()}: ${broken.message}`;
        error = broken.slow ? new errors.Timeout(message, { retryable: true }) : new errors.Unavailable(message, { retryable: true });
        sent = broken.sent;
      }
      const refused = (error.status === 429 || error.status === 503) && error.retryable; // the server has done nothing
      const unclear = error.status === null || [408, 502, 504].includes(error.status);
      const wait = error.retryAfter !== null ? error.retryAfter + Math.random() / 4 : pause * (0.5 + Math.random() / 2);
      if (left-- <= 0 || !(refused || (unclear && (safe || !sent))) || Date.now() + wait * 1000 > end) throw error;
      await sleep(wait);
    }
  }

  async #once(method: string, target: string, request: Request): Promise<Answer> {
    const { url, apiKey } = await this.#resolved();
    const abort = new AbortController();
    const seconds = request.seconds ?? this.#options.timeout ?? 60;
    let slow = false;
    const timer = setTimeout(() => {
      slow = true;
      abort.abort();
    }, seconds * 1000);
    const body = typeof request.content === "function" ? request.content() : request.content;
    const headers: Record<string, string> = { Accept: "application/json", ...request.headers };
    if (apiKey) headers.Authorization = `Bearer ${apiKey}`;
    const init: RequestInit & { duplex?: string } = { method, headers, signal: abort.signal, redirect: "manual" };
    if (body !== undefined) init.body = body;
    if (body instanceof ReadableStream) init.duplex = "half";
    try {
      return new Answer(await (this.#options.fetch ?? fetch)(url + target, init), abort);
    } catch (error) {
      const unsent = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(causeOf(error).code ?? "");
      throw new Broken(slow ? `no answer in ${seconds} s` : why(error), !unsent, slow);
    } finally {
      clearTimeout(timer);
    }
  }

  // The JSON value of an answer; {} without one. `key`: of idempotency, so that all attempts have one effect.
  async call<T>(method: string, path: string, body?: unknown, more: { query?: Query; key?: string; safe?: boolean; wait?: number } = {}): Promise<T> {
    const headers: Record<string, string> = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (more.key !== undefined) headers["Idempotency-Key"] = more.key;
    const request: Request = { headers, seconds: (this.#options.timeout ?? 60) + (more.wait ?? 0) };
    if (more.query) request.query = more.query;
    if (body !== undefined) request.content = JSON.stringify(body);
    request.safe = more.key !== undefined || (more.safe ?? SAFE.includes(method));
    for (let left = this.#options.retries ?? 4; ; left -= 1) {
      const answer = await this.open(method, path, request);
      try {
        return await this.json<T>(answer);
      } catch (error) {
        if (!(error instanceof errors.Unavailable) || !request.safe || left <= 0) throw error; // else it broke off in its body
      }
      await sleep(0.2);
    }
  }

  async json<T>(answer: Answer): Promise<T> {
    try {
      const text = new TextDecoder().decode(await answer.bytes());
      return (text ? JSON.parse(text) : {}) as T;
    } catch (error) {
      throw new errors.Unavailable(`asking ${await this.url()}: ${(error as Error).message}`);
    }
  }

  // At most `limit` items of a list, newest first.
  async pages<T>(path: string, member: string, limit: number, query: Query): Promise<T[]> {
    const items: T[] = [];
    for (let cursor: string | null = null; items.length < limit; ) {
      const page: Record<string, unknown> = await this.call("GET", path, undefined,
        { query: { ...query, limit: Math.min(limit - items.length, MOST_PAGE), cursor } });
      items.push(...(page[member] as T[]));
      cursor = page.next_cursor as string | null;
      if (!cursor) break;
    }
    return items.slice(0, limit);
  }

  events(path: string, query: Query = {}): Events {
    return new Events(this, path, query);
  }

  // The bytes of a file or an artifact. A broken download continues where it broke, if the content is the same.
  async *download(path: string, query: Query = {}): AsyncGenerator<Uint8Array, void, void> {
    let [done, tag, left] = [0, "", NO_PROGRESS];
    for (;;) {
      const headers: Record<string, string> = { Accept: "*/*", ...(done > 0 ? { Range: `bytes=${done}-`, "If-Range": tag } : {}) };
      const answer = await this.open("GET", path, { query, headers });
      try {
        if (done > 0 && answer.status !== 206) {
          throw new errors.Conflict(`reading ${path}: the content changed during the transfer`, { remedy: "read it again" });
        }
        tag = answer.headers.get("etag") ?? "";
        for (let piece = await answer.next(); piece !== null; piece = await answer.next()) {
          done += piece.length;
          left = NO_PROGRESS;
          yield piece;
        }
        return;
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        left -= 1;
        if (left === 0 || (done > 0 && !tag)) throw new errors.Unavailable(`reading ${path}: ${error.message}`);
        await sleep(0.1);
      } finally {
        await answer.close();
      }
    }
  }

  // Ends an execution; one that has ended stays as it is.
  async cancel(executionId: string): Promise<void> {
    await this.call("DELETE", `/v1/executions/${name(executionId)}`);
  }

  // Who the key is, and what it may do.
  whoami(): Promise<types.Whoami> {
    return this.call("GET", "/v1/whoami");
  }

  // The languages of the server.
  async languages(): Promise<types.Language[]> {
    return (await this.call<{ languages: types.Language[] }>("GET", "/v1/languages")).languages;
  }
}

// Events of a stream, without heartbeats. After a break the stream continues behind the last event.
export class Events implements AsyncIterableIterator<ServerEvent> {
  #answer: Answer | null = null;
  #parser = new Parser();
  #ready: ServerEvent[] = [];
  #last = "";
  #moved = Date.now();
  #begun = false;
  #over = false;

  constructor(private readonly client: Client, private readonly path: string, private readonly query: Query) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<ServerEvent, undefined>> {
    const value = await this.read();
    return value ? { done: false, value } : { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<ServerEvent, undefined>> {
    await this.close();
    return { done: true, value: undefined };
  }

  async close(): Promise<void> {
    this.#over = true;
    const answer = this.#answer;
    this.#answer = null;
    if (answer) await answer.close();
  }

  // The next event; null after the end of the stream. Throws Timeout at the deadline, a time of Date.now().
  async read(deadline: number = Infinity): Promise<ServerEvent | null> {
    while (!this.#over || this.#ready.length > 0) {
      const event = this.#ready.shift();
      if (event) {
        this.#last = event.id || this.#last;
        if (event.type !== "heartbeat") return event;
        continue;
      }
      const left = (deadline - Date.now()) / 1000;
      if (left <= 0) throw new errors.Timeout(`following ${this.path}: the time is over`, { remedy: "wait longer, or again" });
      try {
        await this.#more(left);
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        const answer = this.#answer;
        this.#answer = null;
        if (answer) await answer.close();
        if (error.slow && left < SILENCE) continue; // the deadline
        if (Date.now() - this.#moved > PATIENCE * 1000) throw new errors.Unavailable(`following ${this.path}: ${error.message}`);
        await sleep(0.1);
      }
    }
    return null;
  }

  // Reads a piece of the stream, which it opens if needed.
  async #more(left: number): Promise<void> {
    if (!this.#answer) {
      const headers: Record<string, string> = { Accept: "text/event-stream", ...(this.#last ? { "Last-Event-ID": this.#last } : {}) };
      try {
        this.#answer = await this.client.open("GET", this.path, { query: this.query, headers });
      } catch (error) {
        const away = error instanceof errors.Unavailable || error instanceof errors.Timeout;
        throw away && this.#begun ? new Broken(error.message, false) : error; // the server restarts, perhaps
      }
      this.#begun = true;
      this.#parser = new Parser();
    }
    if (this.#answer.status === 204) return this.close();
    const piece = await this.#answer.next(left);
    if (piece === null) throw new Broken("the server ended the stream", true);
    this.#moved = Date.now();
    this.#ready.push(...this.#parser.feed(piece));
  }
}
