# SPDX-License-Identifier: Apache-2.0
# Generated from _async/execution.py by tools/sdk_sync.py: do not edit.
"""An ended execution with its artifacts, and the way there: following its events to its end."""

from __future__ import annotations

import codecs
import os
import pathlib
import time
from typing import Any, Iterator, Awaitable, Callable, Dict, List, Mapping, Optional, Union

from .. import errors, results
from .._units import Duration, seconds
from .._wire_sync import call
from ..results import TERMINAL
from .client import Client, name, new_key

OnOutput = Union[Callable[[str], Any], Callable[[str], Awaitable[Any]]]
WAIT = 30  # seconds that a request may wait for a short program


class Artifact:
    """A file that a program left behind, or an upload."""

    def __init__(self, client: Client, record: Mapping[str, Any]) -> None:
        self._client = client
        self.id: str = record["id"]
        self.path: str = record["path"]
        self.size: int = record["size"]
        self.content_type: str = record["content_type"]
        self.sha256: str = record["sha256"]
        self.truncated: bool = bool(record.get("truncated"))

    def chunks(self) -> Iterator[bytes]:
        """The content, in pieces."""
        return self._client.download(f"/v1/artifacts/{name(self.id)}/content")

    def read(self) -> bytes:
        """The whole content."""
        parts: List[bytes] = []
        for piece in self.chunks():
            parts.append(piece)
        return b"".join(parts)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> pathlib.Path:
        """Writes the content into a file, which appears with its last byte. A directory takes the artifact's own name."""
        target = pathlib.Path(path)
        return save(self.chunks(), target / pathlib.PurePosixPath(self.path).name if target.is_dir() else target)

    def delete(self) -> None:
        self._client.call("DELETE", f"/v1/artifacts/{name(self.id)}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={self.path!r}, size={self.size})"


def save(chunks: Iterator[bytes], target: pathlib.Path) -> pathlib.Path:
    """Writes a download beside `target`, then gives it the name."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "xb") as file:
            for piece in chunks:
                file.write(piece)
        os.replace(part, target)
    finally:
        if part.exists():
            part.unlink()
    return target


class Execution(results.ExecutionFields):
    """An ended program: stdout, stderr, exit_code, results, text, error, artifacts, usage and more."""

    def __init__(self, client: Client, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self.artifacts: List[Artifact] = [Artifact(client, artifact) for artifact in record["artifacts"]]

    def check(self) -> Execution:
        """Itself after a success; else raises ProgramFailed, or its Timeout or LimitExceeded."""
        failure = self.failure()
        if failure is not None:
            raise failure
        return self


class _Output:
    """One stream of output: each byte goes to the callback once, also after breaks."""

    def __init__(self, callback: Optional[OnOutput]) -> None:
        self._callback, self.offset = callback, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, offset: int, data: bytes, final: bool = False) -> None:
        data = data[max(0, self.offset - offset):]
        if data:
            self.offset = max(self.offset, offset) + len(data)
        text = self._decoder.decode(data, final) if self._callback is not None else ""
        if text and self._callback is not None:
            call(self._callback, text)


class Follower:
    """Follows one execution. wait() may be called again after a Timeout: output goes on where it was."""

    def __init__(self, client: Client, execution_id: str, on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput],
                 wait_approval: bool = False) -> None:
        self._client, self.id, self._wait_approval = client, execution_id, wait_approval
        self._streams = {"stdout": _Output(on_stdout), "stderr": _Output(on_stderr)}
        self._wants_output = on_stdout is not None or on_stderr is not None

    def record(self) -> Dict[str, Any]:
        """The execution in its present state."""
        return self._client.call("GET", f"/v1/executions/{name(self.id)}")

    def wait(self, timeout: Optional[Duration] = None) -> Dict[str, Any]:
        """The record of the ended execution. Raises Blocked, PermissionDenied or Timeout."""
        deadline = None if timeout is None else time.monotonic() + seconds("timeout", timeout)
        self._to_end(deadline)
        record = self.record()
        if self._wants_output:
            self._rest(record)
        return ended(record)

    def _to_end(self, deadline: Optional[float]) -> None:
        with self._client.events(f"/v1/executions/{name(self.id)}/events") as events:
            while True:
                event = events.next(deadline)
                if event is None:
                    return
                if event.type in self._streams:
                    self._streams[event.type].take(event.data["offset"], results.decoded(
                        {"data": event.data["data"], "data_encoding": "base64"}, "data"))
                elif event.type == "status":
                    if event.data["status"] in TERMINAL:
                        return
                    if event.data["status"] == "blocked" and not self._wait_approval:
                        raise errors.from_record(event.data, execution_id=self.id)

    def _rest(self, record: Mapping[str, Any]) -> None:
        """Output beyond the kept bytes is in an artifact."""
        for stream, output in self._streams.items():
            artifact = record.get(f"{stream}_artifact")
            if artifact and output.offset < record[f"{stream}_bytes"]:
                offset = 0
                for piece in self._client.download(f"/v1/artifacts/{name(artifact)}/content"):
                    output.take(offset, piece)
                    offset += len(piece)
            output.take(output.offset, b"", True)


def ended(record: Dict[str, Any]) -> Dict[str, Any]:
    """The record, unless the execution was refused or has not ended."""
    if record["status"] in ("denied", "blocked"):
        raise errors.from_record(record, **({"execution_id": record["id"]} if record["status"] == "blocked" else {}))
    if record["status"] not in TERMINAL:
        raise errors.Unavailable(f"following {record['id']}: the server sends no more, and it is {record['status']}")
    return record


def run_to_end(client: Client, path: str, body: Mapping[str, Any], on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput],
                     wait_approval: bool) -> Execution:
    """Starts a program and waits for its end. If this call is given up, the program is ended too."""
    quiet, key, execution_id = on_stdout is None and on_stderr is None, new_key(), ""
    try:
        record = client.call("POST", path, body, query={"wait": WAIT} if quiet else None, key=key, wait=WAIT if quiet else 0)
        execution_id = record["id"]
        if record["status"] in TERMINAL and quiet:
            return Execution(client, ended(record))
        follower = Follower(client, execution_id, on_stdout, on_stderr, wait_approval)
        return Execution(client, follower.wait())
    except errors.CloisterError:
        raise
    except BaseException:  # a callback failed, or the caller was interrupted
        try:
            if not execution_id:  # the same key gives the same execution
                execution_id = (client.call("POST", path, body, key=key))["id"]
            client.cancel(execution_id)
        except errors.CloisterError:
            pass
        raise
