# SPDX-License-Identifier: Apache-2.0
# Generated from _async/sandbox.py by tools/sdk_sync.py: do not edit.
"""Sandbox: a sandbox that outlives one program."""

from __future__ import annotations

import time
from typing import Any, Dict, Generator, List, Mapping, Optional, Sequence, Union

from .. import _body, _units, errors, types
from .._body import Content, Network
from .._units import Cores, Duration, Size
from .._wire_sync import sleep
from ..results import PortLink, SandboxInfo, SnapshotInfo
from .client import Client, borrowed, name, new_key
from .commands import Commands
from .execution import Execution, OnOutput, run_to_end
from .files import Files
from .memory import Memory


class Sandbox:
    """A sandbox of its own for files, programs, interpreters and servers, until kill(), or until its time is over.

        with Sandbox() as sandbox:
            execution = sandbox.run_code("1 + 1")
            print(execution.text)

    language: of run_code(); timeout: wall time of a program
    ttl, idle_ttl: how long the sandbox lives, in all and without a running program
    memory, disk, file_size: sizes such as "512MB"; cpu: cores; cpu_time: processor time of a program; pids: processes
    network: "restricted", "internal", "api" or "full"; or a list such as ["pypi.org:443"]; or a whole network policy
    env, cwd: of its programs; metadata: texts kept with its record; deps: packages
    runtime: "process", "gvisor" or "microvm"; image: an imported image; tier: how strictly it is handled
    snapshot: begin with the files of a snapshot; capabilities: what may be done in it
    nested: its programs may have sandboxes of their own within it
    wait_approval: wait while a person has to approve, in place of raising Blocked
    client: the server; default: one made from url and api_key
    """

    def __init__(self, language: str = "python", *, name: Optional[str] = None, timeout: Optional[Duration] = None, ttl: Optional[Duration] = None,
                 idle_ttl: Optional[Duration] = None, memory: Optional[Size] = None, disk: Optional[Size] = None,
                 file_size: Optional[Size] = None, cpu: Optional[Cores] = None, cpu_time: Optional[Duration] = None,
                 pids: Optional[int] = None, open_files: Optional[int] = None, inodes: Optional[int] = None,
                 output: Optional[Size] = None, network: Optional[Network] = None, env: Optional[Mapping[str, str]] = None,
                 cwd: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None, deps: Optional[Sequence[str]] = None,
                 runtime: Optional[str] = None, image: Optional[str] = None, tier: Optional[str] = None,
                 snapshot: Optional[Union[str, SnapshotInfo]] = None, capabilities: Optional[Sequence[types.Capability]] = None,
                 nested: Optional[bool] = None, wait_approval: bool = False, client: Optional[Client] = None,
                 url: Optional[str] = None, api_key: Optional[str] = None) -> None:
        self._request = _body.settings(
            language=language, name=name, timeout=timeout, ttl=ttl, idle_ttl=idle_ttl, memory=memory, disk=disk, file_size=file_size, cpu=cpu,
            cpu_time=cpu_time, pids=pids, open_files=open_files, inodes=inodes, output=output, network=network,
            env=dict(env) if env else None, cwd=cwd, metadata=dict(metadata) if metadata else None, deps=_body.words(deps),
            runtime=runtime, image=image, tier=tier, from_snapshot=_snapshot_id(snapshot), capabilities=_body.words(capabilities),
            nested=nested)
        self._wait_approval = wait_approval
        self._own_client = client is None
        self._client = client or Client(url, api_key)
        self._id: Optional[str] = None
        self.start()

    @classmethod
    def create(cls, language: str = "python", **options: Any) -> Sandbox:
        """A running sandbox; `options` as of the class."""
        return cls(language, **options).start()

    def start(self) -> Sandbox:
        """Makes the sandbox, unless it is made already."""
        if self._id is not None:
            return self
        try:
            record = self._client.call("POST", "/v1/sessions", self._request, key=new_key(), wait=60)
            self._id = record["id"]
            self._started(record)
        except BaseException:
            if self._own_client:
                self._client.close()
            raise
        return self

    def _started(self, record: Mapping[str, Any]) -> None:
        if record["status"] in ("blocked", "creating"):
            if record["status"] == "blocked" and not self._wait_approval:
                raise errors.from_record(record, sandbox_id=record["id"])
            with self._client.events(f"{self._path}/events") as events:
                for event in events:
                    if event.type == "status":
                        record = event.data
                        if record["status"] in ("running", "ended"):
                            break
        if record["status"] != "running":
            why = record.get("end_reason") or record.get("error") or {"message": "it has ended", "type": "INTERNAL", "details": {}}
            raise errors.Unavailable(f"making a sandbox: {why['message']}", code=why["type"], details=why["details"])


    # - its life -

    @classmethod
    def connect(cls, sandbox_id: str, *, client: Optional[Client] = None, url: Optional[str] = None,
                      api_key: Optional[str] = None) -> Sandbox:
        """A sandbox that runs already, by its id or its name. `with` ends it too."""
        made = cls._of(client, url, api_key, sandbox_id)
        info = made.info()
        if info.status == "ended":
            raise errors.Conflict(f"{sandbox_id} has ended: {info.end_reason}", remedy="make another sandbox, or restore a snapshot")
        return made

    @classmethod
    def _of(cls, client: Optional[Client], url: Optional[str], api_key: Optional[str], sandbox_id: Optional[str]) -> Sandbox:
        made = cls.__new__(cls)
        made._request, made._wait_approval = {}, False
        made._own_client, made._client = client is None, client or Client(url, api_key)
        made._id = sandbox_id
        return made

    @classmethod
    def list(cls, *, status: Optional[str] = "running", limit: int = 100, client: Optional[Client] = None,
                   url: Optional[str] = None, api_key: Optional[str] = None) -> List[SandboxInfo]:
        """Sandboxes, newest first; status=None also gives those that have ended."""
        with borrowed(client, url, api_key) as asked:
            return [SandboxInfo(record) for record in asked.pages("/v1/sessions", "sessions", limit, {"status": status})]

    @classmethod
    def from_snapshot(cls, snapshot: Union[str, SnapshotInfo], **options: Any) -> Sandbox:
        """A new sandbox with the files of a snapshot; `options` as of the class."""
        return cls(snapshot=snapshot, **options).start()

    def __enter__(self) -> Sandbox:
        return self.start()

    def __exit__(self, *error: Any) -> None:
        self.kill()

    @property
    def id(self) -> str:
        if self._id is None:
            raise errors.Conflict("the sandbox is not made yet", remedy="it: sandbox = Sandbox()")
        return self._id

    @property
    def client(self) -> Client:
        return self._client

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{name(self.id)}"

    def info(self) -> SandboxInfo:
        """The sandbox at this moment: status, limits, time left, usage (`raw`)."""
        return SandboxInfo(self._client.call("GET", self._path))

    def is_running(self) -> bool:
        return (self.info()).status == "running"

    def kill(self) -> None:
        """Ends the sandbox, with its programs and files. A sandbox that has ended stays as it is."""
        try:
            self._client.call("DELETE", self._path)
        except errors.NotFound:
            pass
        finally:
            if self._own_client:
                self._client.close()

    def renew(self, *, ttl: Optional[Duration] = None, idle_ttl: Optional[Duration] = None) -> SandboxInfo:
        """Lets it live longer: its time counts from now. Without arguments the times are as before."""
        return SandboxInfo(self._client.call("POST", f"{self._path}/renew", _body.settings(ttl=ttl, idle_ttl=idle_ttl), safe=True))

    def move(self, *, runtime: Optional[str] = None, tier: Optional[str] = None, end_programs: bool = False) -> SandboxInfo:
        """Moves it to a stronger runtime, with its files."""
        body = _body.settings(runtime=runtime, tier=tier, end_programs=end_programs)
        return SandboxInfo(self._client.call("POST", f"{self._path}:move", body, wait=120))

    # - what it does -

    def run_code(self, code: str, language: Optional[str] = None, *, kernel: Optional[str] = None,
                       timeout: Optional[Duration] = None, on_stdout: Optional[OnOutput] = None,
                       on_stderr: Optional[OnOutput] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
                       args: Optional[Sequence[str]] = None, input: Optional[Content] = None,
                       files: Optional[Mapping[str, Content]] = None, artifacts: Optional[Sequence[str]] = None, fresh: bool = False,
                       check: bool = False, wait_approval: bool = False, approval: Optional[str] = None) -> Execution:
        """Runs code. In Python, JavaScript and bash it finds the variables of earlier code, and its last value is in `results`.

        language: default: the sandbox's; kernel: another interpreter beside the usual one, by a name of your choice, or "none"
        args, env, cwd: make it a program of its own, without the variables of earlier code
        The other arguments are those of commands.run().
        """
        body = _body.settings(language=language, kernel=kernel, timeout=timeout, env=dict(env) if env else None, cwd=cwd,
                              sandbox="fresh" if fresh else None, approval=approval)
        body.update(_body.program(code=code, args=args, input=input, files=files, artifacts=artifacts))
        execution = run_to_end(self._client, f"{self._path}/exec", body, on_stdout, on_stderr, wait_approval)
        return execution.check() if check else execution

    @property
    def commands(self) -> Commands:
        """Programs: commands.run("ls -l")."""
        return Commands(self._client, self.id)

    @property
    def files(self) -> Files:
        """Files of the workspace: files.write("a.txt", "text")."""
        return Files(self._client, self.id)

    @property
    def memory(self) -> Memory:
        """JSON values under keys, kept by the service and out of reach of the sandbox's programs."""
        return Memory(self._client, self.id)

    def kernels(self) -> List[types.Kernel]:
        """The interpreters that run_code() has used."""
        answer = self._client.call("GET", f"{self._path}/kernels")
        return list(answer["kernels"])

    def restart_kernel(self, kernel: str) -> None:
        """Ends an interpreter. The next code has a fresh one, without variables."""
        self._client.call("POST", f"{self._path}/kernels/{name(kernel)}:restart", {})

    def port(self, port: int, *, expires: Optional[Duration] = None, wait: Optional[Duration] = None) -> PortLink:
        """A link to a server in the sandbox; whoever has its `url` reaches the port. Default: for an hour.

        wait: first wait until something listens on the port; Timeout after that time
        """
        body: Dict[str, Any] = {} if expires is None else {"expires_seconds": _units.whole_seconds("expires", expires)}
        record = self._client.call("POST", f"{self._path}/ports/{int(port)}/tokens", body, safe=True)
        if wait is not None:
            self._listening(int(port), time.monotonic() + _units.seconds("wait", wait))
        return PortLink(record, self._client.absolute(record["url"]))

    def _listening(self, port: int, deadline: float) -> None:
        while True:
            try:
                answer = self._client.open("GET", f"{self._path}/ports/{port}/", headers={"Accept": "*/*"}, safe=False)
                answer.close()
                return
            except errors.CloisterError as error:
                if error.status is None:
                    raise
                if error.status != 404 or error.field != "url.port":
                    return  # the server in the sandbox answered
                missing = error
            if time.monotonic() >= deadline:
                raise errors.Timeout(f"waiting for port {port}: {missing.message}", remedy="start the server, or wait longer")
            sleep(0.1)

    def snapshot(self, name: Optional[str] = None, *, memory: bool = False, metadata: Optional[Mapping[str, str]] = None,
                       ttl: Optional[Duration] = None) -> SnapshotInfo:
        """Keeps the workspace; with `memory` (runtime gvisor) also all processes. See from_snapshot()."""
        body: Dict[str, Any] = {"name": name, "memory": memory, "metadata": dict(metadata) if metadata else None,
                                "ttl_seconds": None if ttl is None else _units.whole_seconds("ttl", ttl)}
        body = {key: value for key, value in body.items() if value is not None}
        return SnapshotInfo(self._client.call("POST", f"{self._path}/snapshots", body, wait=300))

    def fork(self, count: int = 1) -> List[Sandbox]:
        """Sandboxes that begin with the files of this one, and have its limits, variables, capabilities and times."""
        record: Dict[str, Any] = dict((self.info()).raw)
        taken = self.snapshot()
        request: Dict[str, Any] = {key: value for key, value in record.items() if key in _FORKED}
        request.update({**record["limits"], "from_snapshot": taken.id, "runtime": record["provenance"]["runtime"],
                        "image": record["provenance"]["image"]})
        forks: List[Sandbox] = []
        try:
            for _ in range(count):
                made = Sandbox._of(self._client, None, None, None)
                made._request = {key: value for key, value in request.items() if value is not None}
                forks.append(made.start())
        except BaseException:
            for fork in forks:
                fork.kill()
            raise
        finally:
            delete_snapshot(taken, client=self._client)
        return forks

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self._id!r})"


# The members of a session that its forks have too, beside its limits.
_FORKED = frozenset(("language", "env", "cwd", "nested", "capabilities", "metadata", "ttl_seconds", "idle_ttl_seconds", "network_policy"))


def _snapshot_id(snapshot: Optional[Union[str, SnapshotInfo]]) -> Optional[str]:
    return snapshot.id if isinstance(snapshot, SnapshotInfo) else snapshot


def list_snapshots(*, limit: int = 100, client: Optional[Client] = None) -> List[SnapshotInfo]:
    """Snapshots, newest first."""
    with borrowed(client) as asked:
        return [SnapshotInfo(record) for record in asked.pages("/v1/snapshots", "snapshots", limit, {})]


def delete_snapshot(snapshot: Union[str, SnapshotInfo], *, client: Optional[Client] = None) -> None:
    """Removes a snapshot."""
    with borrowed(client) as asked:
        asked.call("DELETE", f"/v1/snapshots/{name(str(_snapshot_id(snapshot)))}")
