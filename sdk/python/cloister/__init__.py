# SPDX-License-Identifier: Apache-2.0
"""Cloister: run code that is not trusted in sandboxes.

    from cloister import Sandbox

    with Sandbox() as sandbox:
        print(sandbox.run_code("1 + 1").text)

Sandbox, run() and Client block; AsyncSandbox, async_run() and AsyncClient do the same for asyncio. docs/howto/sdk-python.md
has examples of everything.
"""

from . import errors, types
from ._async.client import VERSION as __version__
from ._async.client import AsyncClient
from ._async.commands import AsyncCommand, AsyncCommands
from ._async.execution import AsyncArtifact, AsyncExecution
from ._async.files import AsyncFiles, AsyncWatch
from ._async.runs import async_run
from ._async.sandbox import AsyncSandbox
from ._async.sandbox import delete_snapshot as async_delete_snapshot
from ._async.sandbox import list_snapshots as async_list_snapshots
from ._sync.client import Client
from ._sync.commands import Command, Commands
from ._sync.execution import Artifact, Execution
from ._sync.files import Files, Watch
from ._sync.runs import run
from ._sync.sandbox import Sandbox, delete_snapshot, list_snapshots
from .errors import (AuthenticationError, Blocked, CloisterError, ConfigurationError, Conflict, InvalidRequest, LimitExceeded,
                     NotFound, OutOfSpace, PermissionDenied, ProgramFailed, RateLimited, ServerError, Timeout, TooLarge, Unavailable)
from .results import ExecutionError, FileEvent, FileInfo, PortLink, Result, SandboxInfo, SnapshotInfo

__all__ = [
    "Artifact", "AsyncArtifact", "AsyncClient", "AsyncCommand", "AsyncCommands", "AsyncExecution", "AsyncFiles", "AsyncSandbox",
    "AsyncWatch", "AuthenticationError", "Blocked", "Client", "CloisterError", "Command", "Commands", "ConfigurationError", "Conflict",
    "Execution", "ExecutionError", "FileEvent", "FileInfo", "Files", "InvalidRequest", "LimitExceeded", "NotFound", "OutOfSpace",
    "PermissionDenied", "PortLink", "ProgramFailed", "RateLimited", "Result", "Sandbox", "SandboxInfo", "ServerError", "SnapshotInfo",
    "Timeout", "TooLarge", "Unavailable", "Watch", "__version__", "async_delete_snapshot", "async_list_snapshots", "async_run",
    "delete_snapshot", "errors", "list_snapshots", "run", "types"]
