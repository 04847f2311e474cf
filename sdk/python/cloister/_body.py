# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests, from the arguments of the SDK. An argument that is None is left out: the server has the default."""

from __future__ import annotations

import base64
import posixpath
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _units
from .errors import InvalidRequest
from .types import NetworkEntry, NetworkPolicy

Network = Union[str, Sequence[NetworkEntry], NetworkPolicy]
Content = Union[str, bytes]
CommandLine = Union[str, Sequence[str]]
WORKSPACE = "/workspace"


def put_bytes(body: Dict[str, Any], name: str, content: Content) -> None:
    """Text as it is, bytes that are no text in base64."""
    if isinstance(content, str):
        body[name] = content
        return
    try:
        body[name] = bytes(content).decode("utf-8")
    except UnicodeDecodeError:
        body[name] = base64.b64encode(content).decode("ascii")
        body["encoding"] = "base64"


def network_policy(network: Network) -> Dict[str, Any]:
    """A tier's name, a list of destinations, or the whole policy."""
    if isinstance(network, str):
        return {"tier": network}
    if isinstance(network, Mapping):
        return dict(network)
    return {"tier": "restricted", "allow": list(network)}


def settings(*, timeout: Optional[_units.Duration] = None, cpu_time: Optional[_units.Duration] = None,
             cpu: Optional[_units.Cores] = None, memory: Optional[_units.Size] = None, disk: Optional[_units.Size] = None,
             file_size: Optional[_units.Size] = None, output: Optional[_units.Size] = None,
             network: Optional[Network] = None, ttl: Optional[_units.Duration] = None,
             idle_ttl: Optional[_units.Duration] = None, **plain: Any) -> Dict[str, Any]:
    """The members of a request that have units, and those that are passed as they are."""
    body: Dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    for member, name, time in (("timeout_seconds", "timeout", timeout), ("cpu_seconds", "cpu_time", cpu_time),
                               ("ttl_seconds", "ttl", ttl), ("idle_ttl_seconds", "idle_ttl", idle_ttl)):
        if time is not None:
            body[member] = _units.seconds(name, time)
    for member, name, size in (("memory_mb", "memory", memory), ("disk_mb", "disk", disk), ("file_size_mb", "file_size", file_size)):
        if size is not None:
            body[member] = _units.mebibytes(name, size)
    if cpu is not None:
        body["cpu_millis"] = _units.cpu_millis("cpu", cpu)
    if output is not None:
        body["max_output_bytes"] = _units.size_bytes("output", output, 1)
    if network is not None:
        body["network_policy"] = network_policy(network)
    return body


def program(*, code: Optional[str] = None, command: Optional[CommandLine] = None, input: Optional[Content] = None,
            args: Optional[Sequence[str]] = None, files: Optional[Mapping[str, Content]] = None,
            artifacts: Optional[Sequence[str]] = None) -> Dict[str, Any]:
    """The members of a request that are about one program."""
    body: Dict[str, Any] = {}
    if code is not None:
        body["code"] = code
    if command is not None:
        body["command"] = command if isinstance(command, str) else list(command)
    if input:
        put_bytes(body, "input", input)
    if args:
        body["args"] = list(args)
    if files:
        body["files"] = [_file(path, content) for path, content in files.items()]
    if artifacts is not None:
        body["artifacts"] = list(artifacts)
    return body


def _file(path: str, content: Content) -> Dict[str, Any]:
    file: Dict[str, Any] = {"path": workspace_path(path)}
    put_bytes(file, "content", content)
    return file


def workspace_path(path: str) -> str:
    """A path in the workspace, from one that is relative to the workspace or begins with /workspace. "" is the workspace."""
    normal = posixpath.normpath(path) if path else "."
    if normal == WORKSPACE or normal.startswith(WORKSPACE + "/"):
        normal = normal[len(WORKSPACE) + 1:] or "."
    if normal.startswith("/") or normal.split("/", 1)[0] == "..":
        raise InvalidRequest(f"path: {path!r} is outside of {WORKSPACE}", field="path",
                             remedy="files are those of /workspace, /home/user and /tmp; use commands.run() for other places")
    return "" if normal == "." else normal


OTHER_ROOTS = ("/home/user", "/tmp")


def sandbox_path(path: str) -> str:
    """As workspace_path(); an absolute path in the home directory or in /tmp stays absolute."""
    normal = posixpath.normpath(path) if path else "."
    if any(normal == root or normal.startswith(root + "/") for root in OTHER_ROOTS):
        return normal
    return workspace_path(path)


def needs_name(path: str) -> str:
    """A path of a file: not the workspace, the home directory or /tmp itself."""
    inner = sandbox_path(path)
    if not inner or inner in OTHER_ROOTS:
        raise InvalidRequest(f"path: {path!r} names no file", field="path", remedy=f"give a path below {WORKSPACE}")
    return inner


def words(value: Optional[Sequence[str]]) -> Optional[List[str]]:
    return None if value is None else list(value)
