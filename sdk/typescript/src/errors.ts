// SPDX-License-Identifier: Apache-2.0
// The errors of the SDK. Each is a CloisterError and says what to do. The outcome of a program is no error: the Execution
// has it, and Execution.check() throws ProgramFailed instead.

import type * as types from "./types.js";

export interface ErrorFacts {
  code?: string | null;
  field?: string | null;
  remedy?: string | null;
  requestId?: string | null;
  status?: number | null;
  details?: Record<string, unknown>;
  retryable?: boolean;
  retryAfter?: number | null;
}

// Base of all errors of the SDK.
export class CloisterError extends Error {
  // The type of the error, such as "INVALID_REQUEST".
  readonly code: string;
  // The member of the request that is wrong, if one is.
  readonly field: string | null;
  // What to do about the error.
  readonly remedy: string | null;
  // The name of the request in the server's log.
  readonly requestId: string | null;
  // The HTTP status, if the server answered.
  readonly status: number | null;
  // Further facts, as the API has them.
  readonly details: Record<string, unknown>;
  readonly retryable: boolean;
  // Seconds until another attempt may succeed, if the server said so.
  readonly retryAfter: number | null;

  constructor(message: string, facts: ErrorFacts = {}) {
    const remedy = facts.remedy ?? null;
    super(remedy && !message.includes(remedy) ? `${message}; ${remedy}` : message);
    this.name = new.target.name;
    this.code = facts.code ?? "INTERNAL";
    this.field = facts.field ?? null;
    this.remedy = remedy;
    this.requestId = facts.requestId ?? null;
    this.status = facts.status ?? null;
    this.details = facts.details ?? {};
    this.retryable = facts.retryable ?? false;
    this.retryAfter = facts.retryAfter ?? null;
  }
}

// The facts with defaults for those that are missing.
function filled(facts: ErrorFacts, code: string, remedy: string): ErrorFacts {
  return { ...facts, code: facts.code ?? code, remedy: facts.remedy ?? remedy };
}

// The SDK does not know which server to ask, or cannot use what it was given.
export class ConfigurationError extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "CONFIGURATION", "start a server with `cloister serve`, or set CLOISTER_URL and CLOISTER_API_KEY"));
  }
}

// The server does not know the key.
export class AuthenticationError extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "UNAUTHORIZED", "set CLOISTER_API_KEY, or pass apiKey, to a key that `cloister key create` gave"));
  }
}

// The key may not do this, or the policy refuses the run. `record` is the record of a refused run.
export class PermissionDenied extends CloisterError {
  readonly record: types.ExecutionFields | null;

  constructor(message: string, facts: ErrorFacts & { record?: types.ExecutionFields } = {}) {
    super(message, filled(facts, "PERMISSION_DENIED", "ask an administrator of the service; `cloister policy explain` names the rule"));
    this.record = facts.record ?? null;
  }
}

// A person has to approve first. The request waits at the server, and goes on after the approval.
export class Blocked extends CloisterError {
  // What an approver decides on.
  readonly escalationId: string | null;
  // The waiting run, if a run waits.
  readonly executionId: string | null;
  // The waiting sandbox, if a sandbox waits.
  readonly sandboxId: string | null;

  constructor(message: string, facts: ErrorFacts & { escalationId?: string | null; executionId?: string; sandboxId?: string } = {}) {
    super(message, filled(facts, "APPROVAL_REQUIRED",
      `an approver runs \`cloister escalation approve ${facts.escalationId ?? "ID"}\`; pass waitApproval: true to wait for the approval`));
    this.escalationId = facts.escalationId ?? null;
    this.executionId = facts.executionId ?? null;
    this.sandboxId = facts.sandboxId ?? null;
  }
}

// There is no such object, or it belongs to another tenant or agent.
export class NotFound extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "NOT_FOUND", "check the id or path, and that it belongs to this key's tenant and agent"));
  }
}

// The object is in another state: the sandbox has ended, the program does not run, the name exists.
export class Conflict extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "CONFLICT", "look at the present state with info(), then decide again"));
  }
}

// The request is wrong; `field` names the member.
export class InvalidRequest extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "INVALID_REQUEST", "change the named argument"));
  }
}

// The request or the file is over a bound of the service.
export class TooLarge extends InvalidRequest {}

// A quota or a rate is used up, also after the SDK's own attempts.
export class RateLimited extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "QUOTA_EXCEEDED", "end sandboxes that are not needed, try again later, or ask for a larger quota"));
  }
}

// The server cannot be reached, or a part of it is not ready, also after the SDK's own attempts.
export class Unavailable extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "UNAVAILABLE", "check that the server runs (`cloister doctor`) and try again in a moment"));
  }
}

// The disk of the server is full.
export class OutOfSpace extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "OUT_OF_SPACE", "free space in the server's state directory"));
  }
}

// The server failed; its log has the request id.
export class ServerError extends CloisterError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, filled(facts, "INTERNAL", "look into the server's log for the request id"));
  }
}

// Thrown by check(): the program did not succeed. `execution` has its output.
export class ProgramFailed<E = unknown> extends CloisterError {
  readonly execution: E | null;

  constructor(message: string, facts: ErrorFacts & { execution?: E } = {}) {
    super(message, filled(facts, "PROGRAM_FAILED", "look at execution.stderr"));
    this.execution = facts.execution ?? null;
  }
}

// A time ran out: of the program, thrown by check(), or of a wait of the SDK, whose `execution` is null.
export class Timeout<E = unknown> extends ProgramFailed<E> {
  constructor(message: string, facts: ErrorFacts & { execution?: E } = {}) {
    super(message, { ...facts, ...filled(facts, "TIMEOUT", "allow more time with timeout") });
  }
}

// Thrown by check(): the program met a limit. `details` has the limit, its value and the use.
export class LimitExceeded<E = unknown> extends ProgramFailed<E> {
  constructor(message: string, facts: ErrorFacts & { execution?: E } = {}) {
    super(message, { ...facts, ...filled(facts, "RESOURCE_LIMIT_EXCEEDED", "raise the limit that details names") });
  }
}

const BY_STATUS: Record<number, new (message: string, facts?: ErrorFacts) => CloisterError> = {
  401: AuthenticationError, 403: PermissionDenied, 404: NotFound, 408: Unavailable, 409: Conflict, 413: TooLarge,
  429: RateLimited, 502: Unavailable, 503: Unavailable, 504: Unavailable, 507: OutOfSpace,
};

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

// The error of a refusal: an answer with a problem document, or of something between us and the server.
export function fromAnswer(status: number, headers: Headers, body: string): CloisterError {
  let problem: Record<string, unknown> = {};
  try {
    problem = objectOf(JSON.parse(body));
  } catch {
    // not of the service
  }
  const error = objectOf(problem.error);
  const details = objectOf(error.details);
  const message = (textOf(error.message) ?? textOf(problem.detail) ?? textOf(problem.title) ?? `HTTP status ${status}`).slice(0, 4000);
  const Kind = BY_STATUS[status] ?? (status >= 500 ? ServerError : InvalidRequest);
  const after = headers.get("retry-after");
  const code = textOf(error.type);
  const vague = (code === "INVALID_REQUEST" || code === "INTERNAL") && status in BY_STATUS && status !== 413;
  const facts: ErrorFacts = {
    code: vague ? null : code, field: textOf(details.field), remedy: textOf(details.remedy), status, details,
    requestId: headers.get("x-request-id"), retryAfter: after && /^\d{1,7}$/.test(after) ? Number(after) : null,
    retryable: typeof error.retryable === "boolean" ? error.retryable : [408, 429, 502, 503, 504].includes(status),
  };
  if (code === "APPROVAL_REQUIRED") return new Blocked(message, { ...facts, escalationId: textOf(details.escalation_id) });
  return new Kind(message, facts);
}

// The error of an execution or a session that was refused or waits for an approval.
export function fromRecord(record: { id: string; status: string; error: types.Error | null }, waiting: "execution" | "sandbox"): CloisterError {
  const details = objectOf(record.error?.details);
  const message = record.error?.message ?? `${record.id} is ${record.status}`;
  const facts: ErrorFacts = { code: record.error?.type ?? null, field: textOf(details.field), remedy: textOf(details.remedy), details };
  if (record.status === "blocked") {
    const escalationId = textOf(details.escalation_id);
    return new Blocked(message, { ...facts, escalationId, ...(waiting === "execution" ? { executionId: record.id } : { sandboxId: record.id }) });
  }
  return new PermissionDenied(message, { ...facts, record: record as types.ExecutionFields });
}
