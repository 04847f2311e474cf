# SPDX-License-Identifier: Apache-2.0
"""sandbox.commands: programs in a sandbox, in the foreground and in the background."""

from __future__ import annotations

import base64
from typing import Any, AsyncIterator, Dict, List, Literal, Mapping, Optional, Union, overload

from .. import _body, results
from .._body import CommandLine, Content
from .._units import Duration
from .client import AsyncClient, name, new_key
from .execution import AsyncExecution, AsyncFollower, OnOutput, run_to_end


class AsyncCommand:
    """A program that was started in the background."""

    def __init__(self, client: AsyncClient, execution_id: str, on_stdout: Optional[OnOutput] = None,
                 on_stderr: Optional[OnOutput] = None) -> None:
        self._client, self.id = client, execution_id
        self._path = f"/v1/executions/{name(execution_id)}"
        self._follower = AsyncFollower(client, execution_id, on_stdout, on_stderr)

    async def status(self) -> str:
        """running, completed, timed_out, cancelled …"""
        return str((await self._follower.record())["status"])

    async def output(self, stream: Literal["stdout", "stderr"] = "stdout") -> str:
        """The output so far."""
        return results.decoded(await self._follower.record(), stream).decode("utf-8", "replace")

    async def wait(self, timeout: Optional[Duration] = None, *, check: bool = False) -> AsyncExecution:
        """Waits for the end; on_stdout and on_stderr are called meanwhile. After `timeout` Timeout is raised, and the program
        continues."""
        execution = AsyncExecution(self._client, await self._follower.wait(timeout))
        return execution.check() if check else execution

    async def kill(self) -> None:
        """Ends the program and all processes that it started."""
        await self._client.cancel(self.id)

    async def signal(self, signal: Union[str, int]) -> None:
        """Sends a signal such as "SIGINT" to the program and its processes."""
        await self._client.call("POST", f"{self._path}:signal", {"signal": signal})

    async def send_stdin(self, data: Content) -> None:
        """More input, for a program started with stdin=True. Waits until the program's sandbox has taken it."""
        body: Dict[str, Any] = {}
        _body.put_bytes(body, "data", data)
        await self._client.call("POST", f"{self._path}/input", body)

    async def close_stdin(self) -> None:
        """The end of the input."""
        await self._client.call("POST", f"{self._path}/input", {"eof": True})

    async def lines(self) -> AsyncIterator[str]:
        """The lines of stdout as they come, to the end of the program."""
        rest, offset = b"", 0
        async with self._client.events(f"{self._path}/events") as events:
            while True:
                event = await events.next()
                if event is None or (event.type == "status" and event.data["status"] in results.TERMINAL):
                    break
                if event.type != "stdout":
                    continue
                data = base64.b64decode(event.data["data"])[max(0, offset - event.data["offset"]):]
                offset += len(data)
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r})"


class AsyncCommands:
    """Made by a sandbox, as `sandbox.commands`."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client, self._sandbox_id = client, sandbox_id
        self._path = f"/v1/sessions/{name(sandbox_id)}/exec"

    @overload
    async def run(self, command: CommandLine, *, background: Literal[False] = False, timeout: Optional[Duration] = None,
                  on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None, env: Optional[Mapping[str, str]] = None,
                  cwd: Optional[str] = None, input: Optional[Content] = None, files: Optional[Mapping[str, Content]] = None,
                  artifacts: Optional[List[str]] = None, stdin: bool = False, fresh: bool = False, check: bool = False,
                  wait_approval: bool = False, approval: Optional[str] = None) -> AsyncExecution: ...

    @overload
    async def run(self, command: CommandLine, *, background: Literal[True], timeout: Optional[Duration] = None,
                  on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None, env: Optional[Mapping[str, str]] = None,
                  cwd: Optional[str] = None, input: Optional[Content] = None, files: Optional[Mapping[str, Content]] = None,
                  artifacts: Optional[List[str]] = None, stdin: bool = False, fresh: bool = False, check: bool = False,
                  wait_approval: bool = False, approval: Optional[str] = None) -> AsyncCommand: ...

    async def run(self, command: CommandLine, *, background: bool = False, timeout: Optional[Duration] = None,
                  on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None, env: Optional[Mapping[str, str]] = None,
                  cwd: Optional[str] = None, input: Optional[Content] = None, files: Optional[Mapping[str, Content]] = None,
                  artifacts: Optional[List[str]] = None, stdin: bool = False, fresh: bool = False, check: bool = False,
                  wait_approval: bool = False, approval: Optional[str] = None) -> Union[AsyncExecution, AsyncCommand]:
        """Runs a command: a string for the shell, or a list of arguments.

        background: answer at once with an AsyncCommand; without a timeout the program lasts as long as the sandbox
        timeout: wall time of the program; on_stdout, on_stderr: called with text as it comes
        input: all of its input; stdin: more input follows, by send_stdin()
        artifacts: globs of changed files to keep; fresh: in a sandbox of its own that has the workspace alone
        check: raise ProgramFailed unless the exit code is 0; wait_approval: wait while a person has to approve
        """
        body = _body.settings(timeout=timeout, env=env, cwd=cwd, keep_input=stdin or None, sandbox="fresh" if fresh else None,
                              approval=approval)
        body.update(_body.program(command=command, input=input, files=files, artifacts=artifacts))
        if background or stdin:
            return await self._start({**body, "background": True}, on_stdout, on_stderr)
        execution = await run_to_end(self._client, self._path, body, on_stdout, on_stderr, wait_approval)
        return execution.check() if check else execution

    async def _start(self, body: Mapping[str, Any], on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput]) -> AsyncCommand:
        record = await self._client.call("POST", self._path, body, key=new_key())
        return AsyncCommand(self._client, record["id"], on_stdout, on_stderr)

    async def start(self, command: CommandLine, *, timeout: Optional[Duration] = None, on_stdout: Optional[OnOutput] = None,
                    on_stderr: Optional[OnOutput] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
                    stdin: bool = True) -> AsyncCommand:
        """Starts a command in the background, ready for input."""
        return await self.run(command, background=True, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr, env=env, cwd=cwd,
                              stdin=stdin)

    def connect(self, execution_id: str, *, on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None) -> AsyncCommand:
        """A program by its id, such as one that another process started."""
        return AsyncCommand(self._client, execution_id, on_stdout, on_stderr)

    async def list(self) -> List[AsyncCommand]:
        """The running programs."""
        records = await self._client.pages("/v1/executions", "executions", 500, {"session_id": self._sandbox_id, "status": "running"})
        return [AsyncCommand(self._client, record["id"]) for record in records]
