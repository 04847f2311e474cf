# SPDX-License-Identifier: Apache-2.0
"""Shared by the hostile suites: a server for a module, a run with a hostile program, and the checks that follow
every test (nothing left behind, canaries untouched, server alive)."""
import base64
import json
import os
import pathlib
import secrets
import socket
import sys
import threading
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness  # noqa: E402

# From the release build, even for a sanitized server: these programs are not ours to sanitize.
PROGRAMS = harness.BIN.parent.parent / "release" / "hostile"
# The whole suite runs once more as an ordinary user.
AS_USER = os.environ.get("CLOISTER_AS_USER") == "1"
# A further run of the suite in sandboxes made by a zygote, where a copy becomes the program.
WARM = os.environ.get("CLOISTER_WARM") == "1"
# A further run of the suite in each runtime with a kernel of its own, if available.
RUNTIME = os.environ.get("CLOISTER_RUNTIME", "process")
GVISOR, MICROVM = RUNTIME == "gvisor", RUNTIME == "microvm"
# And in sandboxes within a session's in such a runtime.
NESTED = os.environ.get("CLOISTER_NESTED") == "1"
IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
# Nested directories: deeper than the longest path, so that no path leads to the last.
DEEP = 20_000 if harness.LONG else 3_000
NEEDED = {"gvisor": pathlib.Path("/usr/bin/runsc"), "microvm": IMAGE / "root.squashfs"}
EMULATED = f"microvm:\n  image: {IMAGE}\n  accelerator: tcg\n  emulate: true\n"
WARM_POOL = "pool:\n  ready: 4\n  idle_ms: 500\n" + harness.CALM  # gone when leaks are counted
# A copy has more modules than python3 imports. Precedes programs for copies only, which then do nothing elsewhere.
NO_COPY = "not a copy of a zygote"
MUST_BE_A_COPY = f"import sys; assert 'statistics' in sys.modules, {NO_COPY!r}\n"
IN_A_COPY = """
import base64, os, signal, sys, zlib
with open({name!r}, "wb") as file:
    file.write(zlib.decompress(base64.b85decode({content!r})))
os.chmod({name!r}, 0o700)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.execv({path!r}, {argv!r})
"""
CANARY_ENV = "CANARY_" + secrets.token_hex(16)


class Canaries:
    """A secret file, a secret in the server's environment, and listeners on the host."""

    def __init__(self, directory):
        self.file = pathlib.Path(directory) / "CANARY"
        self.secret = secrets.token_hex(32)
        self.file.write_text(self.secret)
        self.file.chmod(0o600)
        self.before = self._stat()
        self.hits = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _stat(self):
        at = self.file.stat()
        return at.st_ino, at.st_uid, at.st_mode, at.st_mtime_ns, at.st_size

    def _accept(self):
        while True:
            try:
                connection, peer = self.listener.accept()
            except OSError:
                return
            self.hits.append(peer)
            connection.close()

    def problems(self):
        found = []
        if self._stat() != self.before or self.file.read_text() != self.secret:
            found.append("the canary file was changed")
        if self.hits:
            found.append(f"the canary port was reached from {self.hits}")
        return found

    def close(self):
        self.listener.close()


def for_copies(request):
    """Nothing but Python code, as required for copies of a zygote."""
    more = ("args", "env", "files", "input", "command", "session_id")
    return request.get("language") == "python" and not any(request.get(member) for member in more)


class HostileTest(unittest.TestCase):
    """Each test method runs hostile code through `run_code` or `run_program`."""
    CONFIG = WARM_POOL if WARM else EMULATED if MICROVM else None
    IN_COPIES = WARM  # all programs able to run in a copy of a zygote must do so
    server = None
    canaries = None

    @classmethod
    def setUpClass(cls):
        if RUNTIME in NEEDED and not NEEDED[RUNTIME].exists():
            raise unittest.SkipTest(f"no {NEEDED[RUNTIME]}: {RUNTIME} is not on this machine")
        cls.server = harness.Server(cls.CONFIG, env={"CANARY_ENV": CANARY_ENV}, user=AS_USER)
        cls.enterClassContext(cls.server)
        cls.canaries = Canaries(cls.server.state)
        cls.addClassCleanup(cls.canaries.close)
        # The first run pays the cost of the first start; leaks are counted afterwards.
        cls.server.request("POST", "/v1/executions?wait=120",
                           cls.in_runtime({"language": "bash", "code": ":"}), timeout=180)

    def make_nest(self):
        answer = self.server.request("POST", "/v1/sessions", self.in_runtime(
            {"nested": True, "memory_mb": 1024, "pids": 256, "ttl_seconds": 3600, "idle_ttl_seconds": 3600}), timeout=180)
        assert answer.status == 201, answer.body[:2000]
        return f"/v1/sessions/{answer.json()['id']}"

    def setUp(self):
        self.before = harness.Snapshot(self.server)
        self.nest = self.make_nest() if NESTED else None

    def tearDown(self):
        if self.nest is not None:
            self.server.request("DELETE", self.nest, timeout=60)
        harness.assert_clean(self.before, self.server, seconds=30)
        self.assertEqual(self.canaries.problems(), [])
        self.assertEqual(self.server.request("GET", "/healthz").status, 200)

    @staticmethod
    def in_runtime(request):
        """The request, for the runtime under test."""
        return request if RUNTIME == "process" else {"runtime": RUNTIME, **request}

    def run_request(self, request, key=None):
        """Runs to the end; the execution, with its output as bytes beside the text."""
        if not self.IN_COPIES or not for_copies(request):
            return self.run_once(request, key)
        request = {**request, "code": MUST_BE_A_COPY + request["code"]}
        for _ in range(20):  # the zygote may go, or the next sandbox may be older than the zygote
            harness.await_copies(self.server)
            result = self.run_once(request, key)
            if f"AssertionError: {NO_COPY}\n" not in result["stderr"]:
                return result
        raise AssertionError("no run got a copy of a zygote")

    def run_once(self, request, key):
        path, body = "/v1/executions", self.in_runtime(request)
        if self.nest is not None:
            path, body = self.nest + "/exec", {"nested": True, **request}
        answer = self.server.request("POST", path + "?wait=120", body, key=key, timeout=180)
        self.assertEqual(answer.status, 200, answer.body[:2000])
        result = answer.json()
        for stream in ("stdout", "stderr"):
            encoded = result.get(stream + "_encoding") == "base64"
            result[stream + "_bytes"] = (base64.b64decode(result[stream]) if encoded
                                         else result[stream].encode())
        self.assertNotIn(CANARY_ENV.encode(), result["stdout_bytes"] + result["stderr_bytes"])
        self.assertNotIn(self.canaries.secret.encode(), result["stdout_bytes"])
        return result

    def weakened(self, result, *words):
        """True if the result reports, with these words together, a weaker machine."""
        return any(all(word in line for word in words) for line in result["provenance"]["weakened"])

    def run_code(self, language, code, key=None, **request):
        return self.run_request({"language": language, "code": code, "artifacts": [], **request}, key)

    def run_program(self, name, *args, **request):
        """Uploads a program of this folder and runs the program with `args`."""
        if WARM and "input" not in request:
            content = base64.b85encode(zlib.compress((PROGRAMS / name).read_bytes())).decode()
            return self.run_code("python", IN_A_COPY.format(
                name=name, content=content, path="./" + name, argv=["./" + name, *args]), **request)
        content = base64.b64encode((PROGRAMS / name).read_bytes()).decode()
        return self.run_request({
            "command": ["/bin/sh", "-c", 'chmod 700 "$1" && shift && exec "$@"', "sh", name,
                        "./" + name, *args],
            "files": [{"path": name, "content": content, "encoding": "base64"}],
            "artifacts": [], **request})

    def assertEnded(self, result, status, error=None, limit=None):
        told = json.dumps({k: result[k] for k in ("status", "exit_code", "signal", "error", "stdout",
                                                  "stderr")})[:2000]
        self.assertEqual(result["status"], status, told)
        if error is None:
            self.assertIsNone(result["error"], told)
        else:
            self.assertEqual(result["error"]["type"], error, told)
        if limit is not None:
            details = result["error"]["details"]
            self.assertEqual(details["limit"], limit, told)
            self.assertGreater(details["value"], 0, told)
            if details["used"] is None:  # a guess may come without the figure
                self.assertTrue(details.get("probable"), told)
            else:
                self.assertGreater(details["used"], 0, told)

    def assertRefused(self, result, allowed=()):
        """Every line "group name errno" of the output has an errno, save those named in `allowed`."""
        lines = [line.rsplit(" ", 1) for line in result["stdout"].splitlines() if line != "end"]
        worked = [what for what, errno in lines if int(errno) == 0 and what not in allowed]
        self.assertEqual(worked, [])
        self.assertTrue(result["stdout"].endswith("end\n"), "the run did not go on to its end")
        return {what: int(errno) for what, errno in lines}
