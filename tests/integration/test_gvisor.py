# SPDX-License-Identifier: Apache-2.0
"""The runtime gvisor through the API and the command line: its programs have another kernel, a session works as
usual, and without the runtime a request is refused."""

import glob
import json
import os
import pathlib
import platform
import signal
import socket
import tempfile
import time
import unittest

import harness
import share_case
import test_images
from agent_case import AgentCase
from api_case import ApiTest, start_server
from session_case import Session

RUNSC = "/usr/bin/runsc"
needs_runsc = unittest.skipUnless(os.path.exists(RUNSC), f"no {RUNSC}: install Debian's from backports")


def setUpModule():
    start_server()


def processes(name):
    """Numbers of the processes whose command line begins with `name`."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read().split(b"\0")[0] == name.encode():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


@needs_runsc
class Gvisor(ApiTest):
    def run_in(self, command, **more):
        body = {"command": ["sh", "-c", command], "runtime": "gvisor", **more}
        return self.call("POST", "/v1/executions?wait=60", body, status=200).json()

    def test_another_kernel(self):
        self.assertIn("gvisor", self.call("GET", "/v1/node", status=200).json()["runtimes"])
        done = self.run_in("cat /proc/version; uname -r; id -u; ls /workspace; grep Cap /proc/self/status")
        self.assertEqual(done["status"], "completed", done)
        self.assertNotIn(platform.release(), done["stdout"])
        self.assertRegex(done["stdout"], "\n1000\n(Cap[A-Z][a-z]{2}:\t0{16}\n){4,5}$")
        self.assertEqual(done["provenance"]["runtime"], "gvisor")
        self.assertTrue(any("processes" in each for each in done["provenance"]["weakened"]))

    def test_python_again_and_again(self):
        for i in range(4):
            done = self.call("POST", "/v1/executions?wait=60", {"language": "python", "code": f"print({i})",
                                                               "runtime": "gvisor"}, status=200).json()
            self.assertEqual((done["stdout"], done["provenance"]["runtime"]), (f"{i}\n", "gvisor"), done)

    def test_a_file_at_its_limit(self):
        met = self.run_code("trap '' XFSZ; head -c 2000000 /dev/zero > big", "bash", runtime="gvisor", file_size_mb=1)
        self.assertNotEqual(met["exit_code"], 0, met)
        self.assertEqual(met["error"]["details"]["limit"], "file_size_mb")

    def test_a_full_workspace(self):
        self.assertNotIn("workspace.disk", self.assertTellsItsWorkspace(runtime="gvisor"), "it has no disks")

    def test_open_files(self):
        self.assertNamesItsOpenFiles(runtime="gvisor")

    def test_a_session_with_files_and_a_kernel(self):
        with Session(self.server, language="python", runtime="gvisor") as session:
            self.assertEqual(session.made["provenance"]["runtime"], "gvisor")
            first = session.call("POST", "/exec?wait=60", {"code": "x = open('/proc/version').read()"}, status=200).json()
            self.assertEqual(first["status"], "completed", first)
            second = session.call("POST", "/exec?wait=60", {"code": "print(x)"}, status=200).json()
            self.assertNotIn(platform.release(), second["stdout"])
            self.assertIn("gvisor", second["provenance"]["runtime"])
            program = session.exec("import os; os.system('true | true')")
            for usage in (second["resource_usage"], program["resource_usage"], session.show()["resource_usage"]):
                self.assertIsNone(usage["processes"], "the host does not see them")
            kernel = session.exec("import os; os.getpid()", kernel=None)["results"][0]["text/plain"]
            session.exec(f"import os; os.kill({kernel}, 9)")
            harness.wait_for("the kernel's end", lambda: "not_started" in session.call("GET", "/kernels").text)
            fresh = session.exec("'x' in globals()", kernel=None)
            self.assertEqual((fresh["results"], fresh["cell"]["state_lost_when"], fresh["cell"]["state_lost_reason"]),
                             ([{"text/plain": "False"}], "before", "it was ended by SIGKILL"), fresh)
        self.assertIsNone(self.run_in("true | true")["resource_usage"]["processes"])

    def test_a_terminal(self):
        with Session(self.server, language="bash", runtime="gvisor") as session:
            def open_one(*command):
                answer = session.post(command=list(command), background=True, tty={"cols": 100, "rows": 30})
                self.assertEqual(answer.status, 202, answer.body[:1000])
                return answer.json()["id"]

            done = session.wait(open_one("sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2 && stty size; exit 7"))
            self.assertEqual(done["exit_code"], 7, done)
            self.assertRegex(done["stdout"], r"\A/dev/pts/\d+\r\n30 100\r\n\Z")
            numbers = session.wait(open_one("seq", "1", "5000"))
            self.assertEqual(numbers["stdout"], "".join(f"{n}\r\n" for n in range(1, 5001)))
            first, second = (open_one("sh", "-c", "echo $0-ready; cat", name) for name in ("one", "two"))
            session.wait_output(first, "one-ready")
            session.wait_output(second, "two-ready")
            session.send(first, b"hello\n")
            session.wait_output(first, "hello\r\nhello\r\n")
            session.send(first, b"\x03")
            self.assertEqual(session.wait(first)["signal"], "SIGINT")
            session.send(second, eof=True)
            ended = session.wait(second)
            self.assertEqual((ended["exit_code"], ended["stdout"]), (0, "two-ready\r\n"), ended)

    def test_an_upload_that_breaks_off_leaves_nothing(self):
        with Session(self.server, language="python", runtime="gvisor") as session:
            look = "import os; print(sorted(os.listdir('/workspace/in')) if os.path.isdir('/workspace/in') else None)"
            with socket.create_connection((self.server.host, self.server.port)) as client:
                client.sendall(f"PUT {session.path}/files/in/file HTTP/1.1\r\nHost: localhost\r\n"
                               f"Authorization: Bearer {self.server.key}\r\n"
                               f"Content-Length: 1000000\r\n\r\n".encode() + b"x" * 500_000)
                harness.wait_for("the upload to begin", lambda: "upload" in session.exec(look)["stdout"], 30)
            harness.wait_for("it to leave nothing", lambda: session.exec(look)["stdout"] == "[]\n", 30)

    def test_configuration_of_the_host_is_not_there(self):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-test-gvisor.")))
        root.chmod(0o755)
        for path in ("/bin/bash", *test_images.libraries("/bin/bash")):
            test_images.put(root, path, "/usr/bin/bash" if path == "/bin/bash" else None)
        (root / "usr/local/etc").mkdir(parents=True)
        (root / "usr/local/etc/token").write_text("hunter2\n")
        with harness.Server(config=f"node:\n  image_root: {root}\n") as server:
            done = server.run(language=None, runtime="gvisor", command=["/usr/bin/bash", "-c",
                              "cd /usr/local/etc && echo * && read -r line < token; echo $line; echo looked"])
            self.assertEqual((done["provenance"]["runtime"], done["stdout"]), ("gvisor", "*\n\nlooked\n"), done)
            self.assertIn("No such file", done["stderr"])

    def test_an_unknown_runtime_is_refused(self):
        answer = self.call("POST", "/v1/executions?wait=5", {"command": ["true"], "runtime": "microvm"})
        self.assertIn("microvm", answer.body.decode() if isinstance(answer.body, bytes) else answer.body)
        self.assertNotIn(b"completed", answer.body if isinstance(answer.body, bytes) else answer.body.encode())

    def test_command_line(self):
        result = self.server.cli("run", "--runtime", "gvisor", "-l", "bash", "-c", "cat /proc/version")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(platform.release(), result.stdout)
        result = self.server.cli("doctor", "--boot")
        self.assertIn("booted in", result.stdout)

    def test_killed_parts_end_the_run_and_leave_nothing(self):
        for part in ("runsc-sandbox", "runsc-gofer", "runsc"):
            with self.subTest(part=part):
                before = set(processes(part))
                made = self.call("POST", "/v1/executions", {"command": ["sleep", "60"], "runtime": "gvisor"}).json()
                until = time.monotonic() + 30
                while time.monotonic() < until:
                    if self.call("GET", f"/v1/executions/{made['id']}").json()["status"] == "running": break
                    time.sleep(0.1)
                time.sleep(1)
                for pid in set(processes(part)) - before:
                    os.kill(pid, signal.SIGKILL)
                self.call("POST", f"/v1/executions/{made['id']}/cancel", {})
                while time.monotonic() < until:
                    done = self.call("GET", f"/v1/executions/{made['id']}").json()
                    if done["status"] not in ("queued", "running"): break
                    time.sleep(0.1)
                self.assertNotIn(done["status"], ("queued", "running", "completed"))


@needs_runsc
class Share(share_case.ShareCase, ApiTest):
    """A sandbox's view of the machine is its share of the node's."""

    def test_of_runs(self):
        for limits in share_case.LIMITS:
            with self.subTest(limits):
                self.assertShows(self.run_code(share_case.PYTHON, runtime="gvisor", **limits), **limits)
                if harness.have_language(self.server, "node"):
                    self.assertShows(self.run_code(share_case.NODE, "node", runtime="gvisor", **limits), **limits)

    def test_of_sessions(self):
        limits = {"cpu_millis": 1000, "memory_mb": 160}
        with Session(self.server, language="python", runtime="gvisor", **limits) as session:
            self.assertShows(session.exec(share_case.PYTHON), **limits)
            self.assertShows(session.exec(share_case.PYTHON, kernel="python"), **limits)
            self.assertFalse(any("processors" in each for each in session.made["provenance"]["weakened"]))

    def test_of_sandboxes_that_stood_ready(self):
        with harness.Server(config=f"gvisor:\n  ready: 2\npool:\n  idle_ms: 60000\n{harness.CALM}") as server:
            for limits in share_case.LIMITS:
                def stood_ready():
                    done = server.run(share_case.PYTHON, runtime="gvisor", **limits)
                    self.assertShows(done, **limits)
                    return json.loads(done["stdout"])["uptime"] > 1.5
                harness.wait_for("one that stood ready", stood_ready, 60, every=3)

    def test_plan(self):
        planned = self.call("POST", "/v1/executions?dry_run=true", {
            "command": ["true"], "runtime": "gvisor", "cpu_millis": 800, "memory_mb": 256}, status=200).json()
        shown = planned["gvisor"]
        self.assertEqual((shown["processors"], shown["memory_bytes"]), (1, 256 << 20), planned)


# A writing program that the filter does not know.
UNREAD = ["fallocate *"]


@needs_runsc
class Levels(AgentCase):
    """The kernel in the sandbox refuses actions forbidden by a level; the filter only sees a Python program."""

    def test_forbidden_paths_and_programs(self):
        asks = (("dd", "run('/usr/bin/dd', '--version')"), ("tac", "run('tac', '/etc/hostname')"),
                ("copy", "read('/usr/bin/dd')"), ("ssl", "read('/etc/ssl/openssl.cnf')"),
                ("around", "read('/proc/self/root/etc/../etc/ssl/openssl.cnf')"),
                ("cat", "run('cat', '/etc/hostname')"), ("write", "write('/workspace/x')"))
        free = self.tries(self.secret(agent="free"), *asks, runtime="gvisor")
        self.assertEqual(set(free.values()), {"ok"}, free)
        self.give("standard", forbidden_paths=["/etc/ssl/*"], forbidden_commands=["tac *"])
        held = self.tries(self.secret(), *asks, runtime="gvisor")
        self.assertEqual({name for name, what in held.items() if what == "ok"}, {"cat", "write"}, held)
        self.assertEqual(self.violations(), [], "the filter saw nothing")

    def test_the_five_levels(self):
        self.levels_are_held(runtime="gvisor")

    def test_a_program_that_reads_for_the_filter_writes_nothing(self):
        self.give("isolated", allowed_commands=UNREAD)
        done = self.run_as(self.secret(), command="fallocate -l 1 /workspace/o3", runtime="gvisor")
        self.assertEqual(done["exit_code"], 1, done)
        self.assertIn("Permission denied", done["stderr"])

    def test_an_approval_opens_the_path_that_it_names(self):
        self.give("isolated", allowed_commands=UNREAD)
        key = self.secret()
        self.approve(key, "file_write", "/workspace/out/*")
        session = self.call("POST", "/v1/sessions", {"language": "bash", "runtime": "gvisor"}, key=key, status=201).json()["id"]
        path = f"/v1/sessions/{session}"

        def lengthen(what):
            done = self.call("POST", f"{path}/exec?wait=60", {"command": f"fallocate -l 3 {what}"}, key=key, status=200).json()
            return done["exit_code"]

        self.assertEqual(self.call("PUT", f"{path}/files/out/brought", b"x", key=key).status, 200)
        self.assertProblem(self.call("PUT", f"{path}/files/other", b"x", key=key), 403, "PERMISSION_DENIED")
        self.assertEqual([lengthen(what) for what in ("out/new", "out/brought", "other", "/tmp/x")], [0, 0, 1, 1])
        self.assertEqual(self.call("GET", f"{path}/files/out/brought", key=key, status=200).body, b"x\0\0")
        for kernel in ({}, {"kernel": "none"}):
            ask = {"code": "fallocate -l 3 out/more || echo no\nfallocate -l 3 other || echo other", **kernel}
            done = self.call("POST", f"{path}/exec?wait=60", ask, key=key, status=200).json()
            self.assertEqual(done["stdout"], "other\n", done)
        self.call("DELETE", path, key=key)


if __name__ == "__main__":
    unittest.main()
