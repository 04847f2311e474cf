# SPDX-License-Identifier: Apache-2.0
"""Shared by all Python tests: a server of its own, an HTTP client, the command line, leakcheck.

    with harness.Server() as server:
        done = server.run("print(1)")                     # POST /v1/executions?wait=30
        assert done["stdout"] == "1\n"
        with harness.leakcheck(server):                   # nothing may be left behind
            server.run("import os; os.fork()")

Environment: CLOISTER_BIN (default build/release/bin), CLOISTER_LONG=1 for the long counts.
Tests that call leakcheck look at all that they can see of the machine: tests/run.py gives each suite a jail, and in it
a machine of its own (tests/jail.py).
"""

import collections.abc
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import inert
from installation import install  # noqa: F401
from leaks import UID_FIRST, Snapshot, assert_clean, leakcheck  # noqa: F401
from processes import alive, children, descendants, memory_of, program_of  # noqa: F401

REPO = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CLOISTER_BIN", REPO / "build" / "release" / "bin")).resolve()
LONG = os.environ.get("CLOISTER_LONG") == "1"
ROOT = os.geteuid() == 0
SLOW = os.environ.get("CLOISTER_SLOW") == "1"  # a guest in software emulation
SANITIZED = os.environ.get("CLOISTER_SANITIZER", "")  # "asan" or "tsan": everything is slower
ANSWER_SECONDS = 300 if SANITIZED else 90  # for the answer to a request
PATIENCE = 10 if SLOW else 3 if SANITIZED else 2  # the factor by which a busy machine may be slower than an idle machine
# The ordinary user of the rootless tests, when root starts them. Each suite has another user (tests/suite_run.py): the
# kernel counts processes by user, across all suites that run at once.
USER_ID = int(os.environ.get("CLOISTER_TEST_USER", "54321"))


def wait_for(what, condition, seconds=10.0, every=0.02):
    """Polls until `condition()` is truthy and returns it; fails naming `what`."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(every)


def limit(seconds):
    """The time limit of a program that must print something before its end."""
    return seconds * PATIENCE


# --- HTTP -----------------------------------------------------------------------------------------

@dataclasses.dataclass
class Response:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()


def http_request(host, port, method, path, body=None, headers=None, timeout=90, tls=None):
    """A request on a connection of its own. `body`: bytes, an iterator of bytes sent in chunks, or any JSON value.
    `tls`: an SSLContext, for https."""
    headers = dict(headers or {})
    body = inert.body(body)
    if body is not None and not isinstance(body, (bytes, bytearray, collections.abc.Iterator)):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    if tls is None:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    else:
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=tls)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        lowered = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, lowered, answer.read())
    finally:
        connection.close()


# --- the server -----------------------------------------------------------------------------------


def user_bin():
    """A directory with the programs, readable by USER_ID: BIN, or a copy if the path of BIN is closed."""
    probe = subprocess.run(
        [BIN / "cloister", "version"], user=USER_ID, group=USER_ID, extra_groups=[], env={},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if _may_enter(BIN) else None
    if probe is not None and probe.returncode == 0:
        return BIN
    copy = pathlib.Path(tempfile.gettempdir()) / f"cloister-test-bin.{os.getpid()}"
    if not copy.exists():
        install(BIN, copy)
        import atexit
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
    return copy / "bin"


def _may_enter(path):
    """True if every directory above `path` is open to other users."""
    return all(p.stat().st_mode & 0o001 for p in [path, *path.parents])


# The pool ignores other load on the machine.
CALM = "  spare_memory_percent: 0\n  cpu_pressure_percent: 100\n"
# Few sandboxes are made ahead, and they go soon, so that a test's leftovers stand out.
POOL = "pool:\n  ready: 2\n  idle_ms: 100\n" + CALM
IMAGES = "images:\n  require_verified: true\n"  # so that a result does not depend on its time


def _with_defaults(config):
    return "".join(each for each in (POOL, IMAGES) if each.split()[0] not in config) + config


class Server:
    """`cloister serve` on a state directory and port of its own.

    `user=True` runs it as an ordinary user even when the test is root. `state` keeps a directory of
    the caller's (restart tests). `config` is the text of a YAML file. `tls`: how to reach a server
    that speaks https. `bin`: where other programs than BIN's are. After `with`, the whole process tree is gone, or the test fails.
    """

    def __init__(self, config=None, env=None, user=False, state=None, args=(), ready=True, tls=None, bin=None):
        self.tls, self._bin = tls, bin
        self._config, self._env, self._args, self._ready = _with_defaults(config or ""), dict(env or {}), list(args), ready
        self.as_user = user and ROOT
        self.rootless = user or not ROOT
        self._own_state = state is None
        self.state = pathlib.Path(state) if state else None
        self.process = None
        self.host, self.port, self.key = "127.0.0.1", None, None
        self.log = None

    # - life -

    def __enter__(self):
        if self._own_state:
            self.state = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test."))
            self.state.chmod(0o755)
            if self.as_user:
                os.chown(self.state, USER_ID, USER_ID)
        try:
            self.start()
        except BaseException:
            self.kill()
            self._remove()
            raise
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.stop()
        finally:
            if kind is not None:
                sys.stderr.write(f"--- server log (last lines) ---\n{self.log_tail()}\n")
            text = self.log.read_text(errors="replace") if SANITIZED and self.log else ""
            self._remove()
            # Not leaks of the control plane: its own system call filter forbids the leak check.
            found = re.search(r"^.*(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error: )", text, re.MULTILINE)
            if found:
                raise AssertionError(f"a sanitizer reports of the server:\n{text[found.start():][:8000]}")

    def start(self):
        listen = [] if "--listen" in self._args else ["--listen", "127.0.0.1:0"]
        command = [self.bin / "cloister", "serve", "--state", self.state, *listen, *self._args]
        config = self.state / "test-config.yaml"
        config.write_text(inert.configuration(self._config, self.state))
        config.chmod(0o644)
        command += ["--config", config]
        with contextlib.suppress(FileNotFoundError):
            (self.state / "address").unlink()
        self.log = self.state / "test-server.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self._environment(), start_new_session=True, **self._identity())
        if self._ready:
            self.wait_ready()

    def wait_ready(self, seconds=60 if SANITIZED else 20):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(
                    f"cloister serve ended with {self.process.returncode}:\n{self.log_tail()}")
            return self.read_address() and self._answers_ready()

        try:
            wait_for("the server to be ready", ready, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_tail()}") from None
        self.key = (self.state / "admin.key").read_text().strip()

    def read_address(self):
        with contextlib.suppress(OSError, ValueError):
            address = (self.state / "address").read_text().strip().split("//")[-1]
            host, port = address.rsplit(":", 1)
            self.host, self.port = host, int(port)
            return True
        return False

    def _answers_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return http_request(self.host, self.port, "GET", "/readyz", timeout=5,
                                tls=self.tls).status == 200
        return False

    def stop(self, seconds=20):
        """Ends the server like an operator; fails if any part of it stays."""
        if self.process is None:
            return
        tree = self.pids()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill(tree)
            raise AssertionError(f"cloister serve did not stop in {seconds} s:\n{self.log_tail()}")
        finally:
            self.process = None
        try:
            wait_for("the server's processes to end", lambda: not alive(tree), 10)
        except AssertionError:
            left = [(pid, program_of(pid)) for pid in alive(tree)]
            self.kill(tree)
            raise AssertionError(f"processes left after stop: {left}") from None

    def kill(self, tree=None):
        """kill -9 of all processes started by the server."""
        if self.process is None and tree is None:
            return
        for pid in tree or self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            self.process = None

    def _remove(self):
        if self._own_state and self.state:
            shutil.rmtree(self.state, ignore_errors=True)

    def _identity(self):
        return {"user": USER_ID, "group": USER_ID, "extra_groups": []} if self.as_user else {}

    def _environment(self):
        kept = ("PATH", "LANG", "TERM", "CLOISTER_LOG", "CLOISTER_SHARE", "ASAN_OPTIONS",
                "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", "CLOISTER_SANITIZER")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        env["HOME"] = str(self.state)
        env.update(self._env)
        return env

    @property
    def bin(self):
        return self._bin or (user_bin() if self.as_user else BIN)

    # - looking at it -

    def pids(self):
        return descendants(self.process.pid) if self.process else []

    def pid_of(self, program):
        """The pid of a process of ours, e.g. "cloisterd"."""
        for pid in self.pids():
            if program_of(pid) == program:
                return pid
        raise AssertionError(f"no process {program!r} in {[program_of(p) for p in self.pids()]}")

    def log_tail(self, lines=40):
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    # - using it -

    def request(self, method, path, body=None, headers=None, key=None, timeout=ANSWER_SECONDS):
        """As the admin, or with `key`; `key=False` sends no credential."""
        headers = dict(headers or {})
        if key is not False:
            headers.setdefault("Authorization", f"Bearer {key or self.key}")
        return http_request(self.host, self.port, method, path, body, headers, timeout, self.tls)

    def submit(self, code=None, language="python", wait=30, headers=None, key=None, **request):
        """POST /v1/executions → Response. Other arguments are members of the request."""
        body = {"language": language, **request}
        if code is not None:
            body["code"] = code
        query = f"?wait={wait}" if wait else ""
        return self.request("POST", f"/v1/executions{query}", body, headers, key,
                            timeout=(wait or 0) + 60)

    def run(self, code=None, language="python", wait=60, **request):
        """Runs to the end and returns the finished execution."""
        answer = self.submit(code, language, wait=min(wait, 30), **request)
        if answer.status not in (200, 201, 202):
            raise AssertionError(f"POST /v1/executions: {answer.status} {answer.body[:2000]!r}")
        execution = answer.json()
        return execution if finished(execution) else self.wait_end(execution["id"], wait)

    def get(self, execution_id):
        answer = self.request("GET", f"/v1/executions/{execution_id}")
        assert answer.status == 200, (answer.status, answer.body[:500])
        return answer.json()

    def wait_end(self, execution_id, seconds=60):
        def ended():
            execution = self.get(execution_id)
            return execution if finished(execution) else None

        return wait_for(f"the end of {execution_id}", ended, seconds, every=0.05)

    def wait_status(self, execution_id, status, seconds=20):
        def reached():
            execution = self.get(execution_id)
            if finished(execution) and execution["status"] != status:
                raise AssertionError(f"{execution_id} is {execution['status']}, not {status}")
            return execution if execution["status"] == status else None

        return wait_for(f"{execution_id} to be {status}", reached, seconds)

    def events(self, what, last_event_id=None, timeout=60):
        """Server-Sent Events of an execution, or of a path: yields (event, id, data) to the stream's end."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        path = what if what.startswith("/") else f"/v1/executions/{what}/events"
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, answer.read()[:500])
            yield from _parse_sse(answer)
        finally:
            connection.close()

    def cli(self, *args, input=None, env=None, timeout=90, text=True):
        """Runs the command line against this server → CompletedProcess."""
        merged = {**self._environment(), "CLOISTER_URL": self.url, "CLOISTER_API_KEY": self.key,
                  **(env or {})}
        return subprocess.run([str(a) for a in (self.bin / "cloister", *args)], input=input, env=merged,
                              capture_output=True, text=text, timeout=timeout, **self._identity())

    def metrics(self):
        """/metrics as {name{labels}: value}."""
        answer = self.request("GET", "/metrics")
        assert answer.status == 200, answer.status
        rows = (line.rsplit(" ", 1) for line in answer.text.splitlines()
                if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}


def _parse_sse(stream):
    event, event_id, data = "message", None, []
    for raw in stream:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield event, event_id, json.loads("\n".join(data))
            event, data = "message", []
            continue
        if line.startswith(":"):
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "id":
            event_id = value
        elif name == "data":
            data.append(value)


def finished(execution):
    return execution["status"] in ("completed", "failed", "timed_out", "cancelled", "denied")


def cli(*args, input=None, env=None, timeout=120, text=True, cwd=None):
    """The command line alone: `run` starts a private server → CompletedProcess."""
    with tempfile.TemporaryDirectory(prefix="cloister-home.") as home:
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8",
                "XDG_STATE_HOME": f"{home}/state"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "CLOISTER_SHARE"):
            if name in os.environ:
                base[name] = os.environ[name]
        return subprocess.run([str(a) for a in (BIN / "cloister", *args)], input=input,
                              env={**base, **(env or {})}, capture_output=True, text=text,
                              timeout=timeout, cwd=cwd)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def query(**parameters):
    return urllib.parse.urlencode(parameters)


def await_copies(server):
    """Returns once Python runs get copies of a zygote, which has more modules than python3 imports."""
    for _ in range(100):
        if server.run("import sys; print('statistics' in sys.modules)")["stdout"] == "True\n":
            return
        time.sleep(0.1)
    raise AssertionError("no run got a copy of a zygote")


def have_language(server, name):
    """True if the server's node can run the language; otherwise tests skip with the reason."""
    done = server.submit(":" if name == "bash" else "", language=name)
    return done.status == 200 and (done.json().get("error") or {}).get("type") is None


# --- leakcheck ------------------------------------------------------------------------------------
