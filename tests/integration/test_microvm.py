# SPDX-License-Identifier: Apache-2.0
"""The runtime microvm through the API and the command line, in emulated machines: another kernel, reported limits,
sessions, its image named, and no leftovers of a killed machine."""

import hashlib
import os
import pathlib
import platform
import signal
import time
import unittest

import harness
import share_case
from agent_case import AgentCase
from api_case import ApiTest, CONFIG
from kvm_case import QEMU, machines
from machine import memory_limits
from session_case import Session

IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
LACKS = (f"no {QEMU}" if not os.path.exists(QEMU) else
         "no image: CLOISTER_MICROVM names none" if not (IMAGE / "root.squashfs").exists() else "")
needs_image = unittest.skipIf(LACKS, LACKS)
SECONDS = 120  # for a run in an emulated machine, beside other suites
EMULATED = f"{CONFIG}microvm:\n  image: {IMAGE}\n  accelerator: tcg\n  emulate: true\n"
OVERHEAD = "  overhead_mb: 200\n"


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG if LACKS else EMULATED + OVERHEAD)
    unittest.enterModuleContext(ApiTest.server)


@needs_image
class Microvm(share_case.ShareCase, ApiTest):
    def run_in(self, command, **more):
        body = {"command": ["sh", "-c", command], "runtime": "microvm", "timeout_seconds": SECONDS, **more}
        return self.call("POST", "/v1/executions?wait=60", body, status=200).json()

    def test_another_kernel_and_nobody_in_it(self):
        self.assertIn("microvm", self.call("GET", "/v1/node", status=200).json()["runtimes"])
        done = self.run_in("uname -r; id -u; grep -E 'CapEff|CapBnd|Seccomp:|NoNewPrivs' /proc/self/status; "
                           "ls -A /workspace /sys; touch /x /usr/x; echo x > /tmp/x && cat /tmp/x; "
                           "test ! -e /dev/kvm || echo a device")
        self.assertEqual(done["status"], "completed", done)
        self.assertNotIn(platform.release(), done["stdout"])
        self.assertRegex(done["stdout"], r"-cloud-amd64\n1000\nCapEff:\t0{16}\nCapBnd:\t0{16}\n"
                                         r"NoNewPrivs:\t1\nSeccomp:\t2\n/sys:\n\n/workspace:\nx\n$")
        self.assertEqual(done["stderr"].count("Read-only file system"), 2, done["stderr"])
        provenance = done["provenance"]
        digest = hashlib.sha256((IMAGE / "root.squashfs").read_bytes()).hexdigest()
        self.assertEqual((provenance["runtime"], provenance["image_digest"]), ("microvm", f"sha256:{digest}"))
        self.assertTrue(any("emulated" in each for each in provenance["weakened"]), provenance)

    def test_python_with_input_and_a_file_that_stays(self):
        code = "import sys; open('out.txt', 'w').write(input()); sys.exit(3)"
        done = self.call("POST", "/v1/executions?wait=60", {"language": "python", "code": code, "input": "hi\n",
                                                           "runtime": "microvm", "timeout_seconds": SECONDS}, status=200).json()
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 3), done)
        self.assertEqual([each["path"] for each in done["artifacts"]], ["out.txt"])

    def test_the_machine_is_its_share(self):
        for limits in share_case.LIMITS:
            done = self.run_code(share_case.PYTHON, runtime="microvm", timeout_seconds=SECONDS, **limits)
            self.assertShows(done, but=("_SC_PHYS_PAGES",), **limits)

    def test_what_limits_killed_and_refused_is_told(self):
        done = self.run_in("exec python3 -c 'x = bytearray(300 << 20)'", memory_mb=128)
        self.assertEqual((done["status"], done["error"]["type"], done["error"]["details"]["limit"]),
                         ("failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb"), done)
        done = self.run_in("for i in $(seq 40); do sleep 5 & done; kill $(jobs -p)", pids=16)
        self.assertEqual((done["error"]["type"], done["error"]["details"]["limit"]),
                         ("RESOURCE_LIMIT_EXCEEDED", "pids"), done)
        done = self.run_in("sleep 60", timeout_seconds=2)
        self.assertEqual(done["status"], "timed_out", done)

    def test_a_full_workspace(self):
        message = self.assertTellsItsWorkspace(runtime="microvm", timeout_seconds=SECONDS)
        self.assertNotIn("workspace.disk", message, "it has no disks")

    def test_open_files(self):
        self.assertNamesItsOpenFiles(runtime="microvm", timeout_seconds=SECONDS)

    def test_a_session_with_files_and_a_kernel(self):
        with Session(self.server, language="python", runtime="microvm") as session:
            self.assertEqual(session.made["provenance"]["runtime"], "microvm")
            self.assertIn(session.made["limits"]["memory_mb"] + 200, memory_limits(self.server))
            for code, printed in (("x = 40", ""), ("print(x + 2)", "42\n")):
                done = session.call("POST", "/exec?wait=60", {"code": code}, status=200).json()
                self.assertEqual((done["status"], done["stdout"]), ("completed", printed), done)
            session.call("PUT", "/files/in/a.txt", b"over", status=200)
            self.assertEqual(session.exec("print(open('/workspace/in/a.txt').read())")["stdout"], "over\n")

    def test_a_machine_that_is_killed_ends_its_run_and_leaves_nothing(self):
        with Session(self.server, language="bash", runtime="microvm") as session:
            made = session.call("POST", "/exec", {"command": ["sleep", "60"]}, status=201).json()
            self.server.wait_status(made["id"], "running")
            (machine,) = machines(self.server)
            # A guest that breaks out would have the rights of a program in an ordinary sandbox.
            status = pathlib.Path(f"/proc/{machine}/status").read_text()
            for held in ("Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n"):
                self.assertIn(held, status)
            os.kill(machine, signal.SIGKILL)
            done = self.server.wait_end(made["id"])
            self.assertEqual((done["status"], done["error"]["type"]), ("failed", "RUNNER_LOST"), done)
            harness.wait_for("the machine to be gone", lambda: not machines(self.server))

    def test_command_line(self):
        result = self.server.cli("run", "--runtime", "microvm", "-l", "bash", "-c", "cat /proc/version")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(platform.release(), result.stdout)
        result = self.server.cli("doctor", "--boot")
        self.assertRegex(result.stdout, r"reduced +microvm .*emulated.*booted in \d+ ms: Linux version")


@needs_image
class Levels(AgentCase):
    """A level's prohibitions hold inside as well."""

    def test_forbidden_paths_and_programs(self):
        asks = (("tac", "run('tac', '/etc/hostname')"), ("copy", "read('/usr/bin/tac')"),
                ("ssl", "read('/etc/ssl/certs/ca-certificates.crt')"),
                ("around", "read('/proc/self/root/etc/../etc/ssl/certs/ca-certificates.crt')"),
                ("cat", "run('cat', '/etc/hostname')"), ("write", "write('/workspace/x')"))
        free = self.tries(self.secret(agent="free"), *asks, runtime="microvm", timeout_seconds=SECONDS)
        self.assertEqual(set(free.values()), {"ok"}, free)
        self.give("standard", forbidden_paths=["/etc/ssl/*"], forbidden_commands=["tac *"])
        held = self.tries(self.secret(), *asks, runtime="microvm", timeout_seconds=SECONDS)
        self.assertEqual({name for name, what in held.items() if what == "ok"}, {"cat", "write"}, held)

    def test_the_five_levels(self):
        few = () if harness.LONG else ("isolated", "training")  # a machine is begun for each
        self.levels_are_held(*few, runtime="microvm", timeout_seconds=SECONDS)


@needs_image
class Templates(unittest.TestCase):
    """Machines that begin from a booted machine."""

    def run_in(self, server, command):
        return server.run(language=None, command=["sh", "-c", command], runtime="microvm", timeout_seconds=SECONDS)

    def test_runs_in_them_are_told_so_and_nothing_outlives_the_node(self):
        config = EMULATED + f"  ready: 1\npool:\n  ready: 1\n  floor: 1\n{harness.CALM}"
        with harness.Server(config=config) as server:
            first = self.run_in(server, "date +%s")
            self.assertFalse([each for each in first["provenance"]["weakened"] if "template" in each], first)
            harness.wait_for("a template", lambda: "template made" in server.log.read_text(), 60)
            harness.wait_for("a ready machine", lambda: len(machines(server)) == 1, 60)
            said = set()
            for _ in range(2):
                done = self.run_in(server, "date +%s; cat /proc/sys/kernel/random/uuid")
                self.assertEqual(done["status"], "completed", done)
                self.assertTrue([each for each in done["provenance"]["weakened"] if "template" in each], done)
                now, uuid = done["stdout"].split()
                self.assertLess(abs(int(now) - time.time()), 20)
                said.add(uuid)
            self.assertEqual(len(said), 2)
            harness.wait_for("a ready machine", lambda: len(machines(server)) == 1, 60)
            (machine,) = machines(server)
            os.kill(server.pid_of("cloister-node"), signal.SIGKILL)
            harness.wait_for("the machine to be gone", lambda: not os.path.exists(f"/proc/{machine}"), 30)

    def test_none_is_kept_where_none_may_be(self):
        """Each ready machine has booted."""
        config = EMULATED + f"  ready: 1\n  templates: 0\npool:\n  ready: 1\n  floor: 1\n{harness.CALM}"
        with harness.Server(config=config) as server:
            self.run_in(server, "true")  # from now on others are to stand ready
            harness.wait_for("a ready machine", lambda: machines(server), 60)
            done = self.run_in(server, "true")
            self.assertEqual(done["status"], "completed", done)
            self.assertFalse([each for each in done["provenance"]["weakened"] if "template" in each], done)
            self.assertNotIn("template made", server.log.read_text())


class Without(ApiTest):
    """Without permission for emulation there is no such runtime."""

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(config=CONFIG)
        cls.enterClassContext(cls.server)

    def test_is_refused_and_doctor_says_what_to_do(self):
        answer = self.call("POST", "/v1/executions?wait=5", {"command": ["true"], "runtime": "microvm"})
        self.assertIn("microvm", answer.body.decode())
        self.assertNotIn(b'"completed"', answer.body)
        self.assertNotIn("microvm", self.call("GET", "/v1/node", status=200).json()["runtimes"])
        self.assertRegex(self.server.cli("doctor").stdout, r"missing +microvm ")

    @needs_image
    def test_is_not_offered_without_its_program(self):
        with harness.Server(EMULATED + "  qemu: ''\n") as server:
            self.assertNotIn("microvm", server.request("GET", "/v1/node").json()["runtimes"])


if __name__ == "__main__":
    unittest.main()
