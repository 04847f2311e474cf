# SPDX-License-Identifier: Apache-2.0
"""One program in a sandbox that lives no longer than the program."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from .. import _body
from .._body import CommandLine, Content, Network
from .._units import Cores, Duration, Size
from .client import AsyncClient, borrowed
from .execution import AsyncExecution, OnOutput, run_to_end


async def async_run(code: Optional[str] = None, language: str = "python", *, command: Optional[CommandLine] = None,
                    args: Optional[Sequence[str]] = None, input: Optional[Content] = None,
                    files: Optional[Mapping[str, Content]] = None, artifacts: Optional[Sequence[str]] = None,
                    on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None,
                    timeout: Optional[Duration] = None, cpu_time: Optional[Duration] = None, cpu: Optional[Cores] = None,
                    memory: Optional[Size] = None, disk: Optional[Size] = None, file_size: Optional[Size] = None,
                    pids: Optional[int] = None, open_files: Optional[int] = None, inodes: Optional[int] = None,
                    output: Optional[Size] = None, network: Optional[Network] = None, env: Optional[Mapping[str, str]] = None,
                    metadata: Optional[Mapping[str, str]] = None, deps: Optional[Sequence[str]] = None,
                    runtime: Optional[str] = None, image: Optional[str] = None, tier: Optional[str] = None, check: bool = False,
                    wait_approval: bool = False, approval: Optional[str] = None, client: Optional[AsyncClient] = None,
                    url: Optional[str] = None, api_key: Optional[str] = None) -> AsyncExecution:
    """Runs code, or a command, in a sandbox of its own, and waits for the end.

    files: from a path in /workspace to the content; artifacts: globs of files to keep, by default all that it leaves
    The limits are those of a Sandbox, the other arguments those of run_code().
    """
    body = _body.settings(
        language=language if code is not None else None, timeout=timeout, cpu_time=cpu_time, cpu=cpu, memory=memory, disk=disk,
        file_size=file_size, pids=pids, open_files=open_files, inodes=inodes, output=output, network=network,
        env=dict(env) if env else None, metadata=dict(metadata) if metadata else None, deps=_body.words(deps), runtime=runtime,
        image=image, tier=tier, approval=approval)
    body.update(_body.program(code=code, command=command, args=args, input=input, files=files, artifacts=artifacts))
    async with borrowed(client, url, api_key) as asked:
        execution = await run_to_end(asked, "/v1/executions", body, on_stdout, on_stderr, wait_approval)
    return execution.check() if check else execution
