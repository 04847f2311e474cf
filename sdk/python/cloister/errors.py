# SPDX-License-Identifier: Apache-2.0
"""The errors of the SDK. Each is a CloisterError and says what to do.

    try:
        sandbox.run_code("…")
    except cloister.Blocked as blocked:
        print(blocked.escalation_id, blocked.remedy)
    except cloister.CloisterError as error:
        print(error.code, error.field, error.remedy, error.request_id)

The outcome of a program is no error: the Execution has it. `Execution.check()`, or `check=True`, raises ProgramFailed instead.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Type

_LONGEST = 4000  # characters of a server's message


class CloisterError(Exception):
    """Base of all errors of the SDK.

    code: the type of the error, such as "INVALID_REQUEST"
    field: the member of the request that is wrong, if one is
    remedy: what to do about the error
    request_id: the name of the request in the server's log
    status: the HTTP status, if the server answered
    details: further facts, as the API has them
    retry_after: seconds until another attempt may succeed, if the server said so
    """

    default_code = "INTERNAL"
    default_remedy: Optional[str] = None

    def __init__(self, message: str, *, code: Optional[str] = None, field: Optional[str] = None, remedy: Optional[str] = None,
                 request_id: Optional[str] = None, status: Optional[int] = None, details: Optional[Mapping[str, Any]] = None,
                 retryable: bool = False, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.field = field
        self.remedy = remedy or self.default_remedy
        self.request_id = request_id
        self.status = status
        self.details: Dict[str, Any] = dict(details or {})
        self.retryable = retryable
        self.retry_after = retry_after

    def __str__(self) -> str:
        text = f"{self.message} (field {self.field})" if self.field and self.field not in self.message else self.message
        text = f"{text}; {self.remedy}" if self.remedy and self.remedy not in text else text
        return f"{text} [{self.request_id}]" if self.request_id else text


class ConfigurationError(CloisterError):
    """The SDK does not know which server to ask, or cannot use what it was given."""

    default_code = "CONFIGURATION"
    default_remedy = "start a server with `cloister serve`, or set CLOISTER_URL and CLOISTER_API_KEY"


class AuthenticationError(CloisterError):
    """The server does not know the key."""

    default_code = "UNAUTHORIZED"
    default_remedy = "set CLOISTER_API_KEY, or pass api_key, to a key that `cloister key create` gave"


class PermissionDenied(CloisterError):
    """The key may not do this, or the policy refuses the run. `record` is the record of a refused run."""

    default_code = "PERMISSION_DENIED"
    default_remedy = "ask an administrator of the service; `cloister policy explain` names the rule"

    def __init__(self, message: str, *, record: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.record = record


class Blocked(CloisterError):
    """A person has to approve first. The request waits at the server, and goes on after the approval.

    escalation_id: what an approver decides on
    execution_id: the waiting run, if a run waits; sandbox_id: the waiting sandbox, if a sandbox waits
    """

    default_code = "APPROVAL_REQUIRED"

    def __init__(self, message: str, *, escalation_id: Optional[str] = None, execution_id: Optional[str] = None,
                 sandbox_id: Optional[str] = None, **more: Any) -> None:
        more.setdefault("remedy", f"an approver runs `cloister escalation approve {escalation_id or 'ID'}`; "
                                  "pass wait_approval=True to wait for the approval")
        super().__init__(message, **more)
        self.escalation_id = escalation_id
        self.execution_id = execution_id
        self.sandbox_id = sandbox_id


class NotFound(CloisterError):
    """There is no such object, or it belongs to another tenant or agent."""

    default_code = "NOT_FOUND"
    default_remedy = "check the id or path, and that it belongs to this key's tenant and agent"


class Conflict(CloisterError):
    """The object is in another state: the sandbox has ended, the program does not run, the name exists."""

    default_code = "CONFLICT"
    default_remedy = "look at the present state with info(), then decide again"


class InvalidRequest(CloisterError):
    """The request is wrong; `field` names the member."""

    default_code = "INVALID_REQUEST"
    default_remedy = "change the named argument"


class TooLarge(InvalidRequest):
    """The request or the file is over a bound of the service."""

    default_remedy = "send less, or use files.write() for the data"


class RateLimited(CloisterError):
    """A quota or a rate is used up, also after the SDK's own attempts. `retry_after` is in seconds."""

    default_code = "QUOTA_EXCEEDED"
    default_remedy = "end sandboxes that are not needed, try again later, or ask for a larger quota"


class Unavailable(CloisterError):
    """The server cannot be reached, or a part of it is not ready, also after the SDK's own attempts."""

    default_code = "UNAVAILABLE"
    default_remedy = "check that the server runs (`cloister doctor`) and try again in a moment"


class OutOfSpace(CloisterError):
    """The disk of the server is full."""

    default_code = "OUT_OF_SPACE"
    default_remedy = "free space in the server's state directory"


class ServerError(CloisterError):
    """The server failed; its log has the request id."""

    default_remedy = "look into the server's log for the request id"


class ProgramFailed(CloisterError):
    """Raised by check(): the program did not succeed. `execution` has its output."""

    default_code = "PROGRAM_FAILED"
    default_remedy = "look at execution.stderr"

    def __init__(self, message: str, *, execution: Any = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.execution = execution


class Timeout(ProgramFailed):
    """A time ran out: of the program, raised by check(), or of a wait of the SDK, whose `execution` is None."""

    default_code = "TIMEOUT"
    default_remedy = "allow more time with timeout"


class LimitExceeded(ProgramFailed):
    """Raised by check(): the program met a limit. `details` has the limit, its value and the use."""

    default_code = "RESOURCE_LIMIT_EXCEEDED"
    default_remedy = "raise the limit that details names"


_BY_STATUS: Dict[int, Type[CloisterError]] = {
    401: AuthenticationError, 403: PermissionDenied, 404: NotFound, 408: Unavailable, 409: Conflict, 413: TooLarge,
    429: RateLimited, 502: Unavailable, 503: Unavailable, 504: Unavailable, 507: OutOfSpace}


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> CloisterError:
    """The error of a refusal: an answer with a problem document, or of something between us and the server."""
    try:
        problem = json.loads(body.decode("utf-8", "replace")) if body else {}
    except ValueError:
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    error = problem.get("error") if isinstance(problem.get("error"), dict) else {}
    details = error.get("details") if isinstance(error.get("details"), dict) else {}
    message = str(error.get("message") or problem.get("detail") or problem.get("title") or f"HTTP status {status}")[:_LONGEST]
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else InvalidRequest)
    code, more = error.get("type"), {}
    if code == "APPROVAL_REQUIRED":
        kind, more = Blocked, {"escalation_id": details.get("escalation_id")}
    elif code in ("INVALID_REQUEST", "INTERNAL") and kind.default_code not in ("INVALID_REQUEST", "INTERNAL"):
        code = None  # the status says more
    return kind(message, code=code, field=details.get("field"), remedy=details.get("remedy"), status=status, details=details,
                request_id=headers.get("x-request-id"), retry_after=_seconds(headers.get("retry-after")),
                retryable=bool(error.get("retryable", status in (408, 429, 502, 503, 504))), **more)


def from_record(record: Mapping[str, Any], **more: Any) -> CloisterError:
    """The error of an execution that was refused or waits for an approval."""
    error = record.get("error") or {}
    details = error.get("details") or {}
    message = str(error.get("message") or f"{record.get('id')} is {record.get('status')}")
    if record.get("status") == "blocked":
        return Blocked(message, code=error.get("type"), details=details, escalation_id=details.get("escalation_id"), **more)
    return PermissionDenied(message, code=error.get("type"), field=details.get("field"), remedy=details.get("remedy"),
                            details=details, record=record)


def _seconds(text: Optional[str]) -> Optional[float]:
    """Retry-After in seconds; a date in that header is not understood."""
    return float(text) if text and text.isdigit() and len(text) < 8 else None
