# SPDX-License-Identifier: Apache-2.0
"""Values of the SDK: results of programs, descriptions of sandboxes, files and snapshots. Nothing here asks the server.

Everything that a program made comes from a sandbox: treat output, file names, HTML and SVG as hostile.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Dict, List, Mapping, Optional

from . import errors, types

TERMINAL = frozenset(("completed", "failed", "timed_out", "cancelled", "denied"))
# The last line of a traceback: `ValueError: text`, `module.Error: text`, or `KeyboardInterrupt`.
_RAISED = re.compile(r"^(?:Uncaught )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration))(?:: (.*))?$")
_KINDS = {"TIMEOUT": errors.Timeout, "RESOURCE_LIMIT_EXCEEDED": errors.LimitExceeded}


class Result:
    """One displayed value in several forms: `data` is from mime type to data, images are base64."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data: Dict[str, Any] = dict(data)

    def _get(self, mime: str) -> Optional[str]:
        value = self.data.get(mime)
        return value if isinstance(value, str) else None

    @property
    def text(self) -> Optional[str]:
        return self._get("text/plain")

    @property
    def html(self) -> Optional[str]:
        return self._get("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._get("text/markdown")

    @property
    def svg(self) -> Optional[str]:
        return self._get("image/svg+xml")

    @property
    def latex(self) -> Optional[str]:
        return self._get("text/latex")

    @property
    def json(self) -> Any:
        return self.data.get("application/json")

    @property
    def png(self) -> Optional[bytes]:
        return self._bytes("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self._bytes("image/jpeg")

    def _bytes(self, mime: str) -> Optional[bytes]:
        text = self._get(mime)
        return None if text is None else base64.b64decode(text)

    def formats(self) -> List[str]:
        """The mime types."""
        return list(self.data)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        """For notebooks: the value is shown as in the sandbox."""
        return dict(self.data)

    def __repr__(self) -> str:
        return f"Result({self.text if self.text is not None else ', '.join(self.data)!r})"


class ExecutionError:
    """Why a program did not succeed.

    name, value: the exception of the code, such as "ValueError" and its text; else the code and message of the service
    traceback: the output of the interpreter about the exception
    code: the type of the service's error, such as "TIMEOUT"; None if the program ended by itself
    details: facts about a limit: limit, value, used, unit
    """

    def __init__(self, name: str, value: str, traceback: str = "", code: Optional[str] = None,
                 details: Optional[Mapping[str, Any]] = None) -> None:
        self.name, self.value, self.traceback, self.code = name, value, traceback, code
        self.details: Dict[str, Any] = dict(details or {})

    @property
    def message(self) -> str:
        return self.value

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" if self.value else self.name

    def __repr__(self) -> str:
        return f"ExecutionError({str(self)!r})"


def decoded(record: Mapping[str, Any], stream: str) -> bytes:
    """The kept bytes of "stdout" or "stderr"."""
    text = record.get(stream) or ""
    return base64.b64decode(text) if record.get(f"{stream}_encoding") == "base64" else text.encode("utf-8")


def error_of(record: Mapping[str, Any], stderr: str) -> Optional[ExecutionError]:
    """The error of an ended execution; None for success."""
    failed = record.get("exit_code") != 0 or record.get("status") != "completed"
    lines = stderr.strip().splitlines()
    error = record.get("error")
    if error:
        return ExecutionError(error["type"], error["message"], stderr if failed else "", error["type"], error.get("details"))
    if not failed:
        return None
    raised = _RAISED.match(lines[-1]) if lines else None
    if raised:
        return ExecutionError(raised[1], raised[2] or "", stderr)
    if record.get("signal"):
        return ExecutionError("Signal", f"ended by {record['signal']}", stderr)
    return ExecutionError("ExitCode", f"exit code {record.get('exit_code')}", stderr)


class ExecutionFields:
    """What both Execution and AsyncExecution have: one program, with all its output that is kept."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.raw: types.Execution = record  # type: ignore[assignment]
        self.id: str = record["id"]
        self.status: str = record["status"]
        self.exit_code: Optional[int] = record["exit_code"]
        self.signal: Optional[str] = record["signal"]
        self.stdout_bytes, self.stderr_bytes = decoded(record, "stdout"), decoded(record, "stderr")
        self.stdout = self.stdout_bytes.decode("utf-8", "replace")
        self.stderr = self.stderr_bytes.decode("utf-8", "replace")
        self.stdout_truncated: bool = record["stdout_truncated"]
        self.stderr_truncated: bool = record["stderr_truncated"]
        self.results: List[Result] = [Result(data) for data in record.get("results", ())]
        self.error = error_of(record, self.stderr)
        self.usage: types.ResourceUsage = record["resource_usage"]
        self.network: types.NetworkUse = record["network"]
        self.provenance: types.Provenance = record["provenance"]
        self.metadata: Dict[str, str] = record["metadata"]
        self.sandbox_id: Optional[str] = record["session_id"]

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.status == "completed" and self.exit_code == 0

    @property
    def text(self) -> Optional[str]:
        """The text of the last displayed value; None without one."""
        return next((result.text for result in reversed(self.results) if result.text is not None), None)

    def failure(self) -> Optional[errors.ProgramFailed]:
        """The error that check() raises; None for a success."""
        if self.ok:
            return None
        error = self.error or ExecutionError("ExitCode", f"exit code {self.exit_code}")
        kind = _KINDS.get(error.code or "", errors.ProgramFailed)
        return kind(f"{self.id}: {error}", code=error.code, details=error.details, execution=self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, status={self.status!r}, exit_code={self.exit_code!r}, text={self.text!r})"


class SandboxInfo:
    """A sandbox at one moment. `raw` has every member of the API's session."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.raw: types.Session = record  # type: ignore[assignment]
        self.id: str = record["id"]
        self.status: types.SessionStatus = record["status"]
        self.language: Optional[str] = record["language"]
        self.limits: types.Limits = record["limits"]
        self.metadata: Dict[str, str] = record["metadata"]
        self.runtime: Optional[str] = record["provenance"]["runtime"]
        self.weakened: List[str] = record["provenance"]["weakened"]
        self.created_at: str = record["created_at"]
        self.expires_at: Optional[str] = record["expires_at"]
        self.ended_at: Optional[str] = record["ended_at"]
        self.running: int = record["executions_running"]

    @property
    def end_reason(self) -> Optional[str]:
        """Why it ended, as text."""
        reason = self.raw["end_reason"]
        return reason["message"] if reason else None

    def __repr__(self) -> str:
        return f"SandboxInfo(id={self.id!r}, status={self.status!r})"


class FileInfo:
    """A file or directory of a workspace. `path` is relative to /workspace."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.path: str = record["path"]
        self.name = self.path.rsplit("/", 1)[-1]
        self.type: str = record["type"]
        self.size: int = record["size"]
        self.mode: str = record["mode"]
        self.modified_at: Optional[str] = record["modified_at"]

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    def __repr__(self) -> str:
        return f"FileInfo(path={self.path!r}, type={self.type!r}, size={self.size})"


class FileEvent:
    """A change: `type` is ready, created, modified, moved, removed, overflow or limit (see spec/openapi.yaml)."""

    def __init__(self, kind: str, record: Mapping[str, Any]) -> None:
        self.type = kind
        self.path: str = record.get("path", "")
        self.old_path: Optional[str] = record.get("from")
        self.is_dir: bool = bool(record.get("directory"))

    def __repr__(self) -> str:
        return f"FileEvent({self.type!r}, {self.path!r})"


class SnapshotInfo:
    """A stored workspace, or with memory a whole sandbox."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.raw: types.Snapshot = record  # type: ignore[assignment]
        self.id: str = record["id"]
        self.sandbox_id: str = record["session_id"]
        self.name: Optional[str] = record["name"]
        self.size: int = record["size"]
        self.metadata: Dict[str, str] = record["metadata"]
        self.created_at: str = record["created_at"]
        self.expires_at: Optional[str] = record["expires_at"]
        self.has_memory: bool = record["memory"] is not None

    def __repr__(self) -> str:
        return f"SnapshotInfo(id={self.id!r}, name={self.name!r})"


class PortLink:
    """A link to a server in a sandbox. Whoever has the URL reaches this port, until `expires_at`."""

    def __init__(self, record: Mapping[str, Any], url: str) -> None:
        self.url = url
        self.port: int = record["port"]
        self.token: str = record["token"]
        self.expires_at: str = record["expires_at"]

    def __repr__(self) -> str:
        return f"PortLink(port={self.port}, expires_at={self.expires_at!r})"  # the URL is a secret
