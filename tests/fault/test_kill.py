# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each part, and of all at once, at random moments under load; then the invariants: every acknowledged
execution has a single record and a single terminal state (I1), none was started twice (I2), nothing is orphaned
(I3), the audit chain holds with a start and an end for each (I4), readiness is true (I8). With CLOISTER_WARM the
same in ready sandboxes, copies of a zygote."""
import collections
import os
import pathlib
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
import invariants  # noqa: E402
from load import Load, kill, kill_part  # noqa: E402

ROUNDS = 100 if harness.LONG else 10
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
CLIENTS = 4
WARM = os.environ.get("CLOISTER_WARM") == "1"
POOL = "pool:\n  ready: 4\n  idle_ms: 2000\n" + harness.CALM
WORK = [
    {"language": "bash", "code": "echo done"},
    {"language": "python", "code": "print(sum(range(100000)))"},
    {"language": "bash", "code": "sleep 0.3; echo slept"},
    {"language": "bash", "code": "for i in 1 2 3 4 5; do sleep 60 & done; wait", "timeout_seconds": 1},
]
SLEEPERS = {"language": "bash", "code": "sleep 120 & sleep 120"}
ECHO = ("bash", "echo {}")
if WARM:  # copies are made for plain Python code
    WORK = [{"language": "python", "code": code} for code in (
        "print('done')", "print(sum(range(100000)))", "import time; time.sleep(0.3); print('slept')")]
    WORK.append({"language": "python", "timeout_seconds": 1, "code":
                 "import subprocess\nfor p in [subprocess.Popen(['sleep', '60']) for _ in range(5)]: p.wait()"})
    SLEEPERS = {"language": "python", "code":
                "import subprocess; subprocess.Popen(['sleep', '120']); subprocess.run(['sleep', '120'])"}
    ECHO = ("python", "print('{}')")


class Kill(unittest.TestCase):
    def setUp(self):
        self.clean = harness.Snapshot()
        # Waiting executions at the end of the load still have to run.
        self.server = self.enterContext(harness.Server("run:\n  queue: 100\n" + (POOL if WARM else "")))
        self.server.run(":", "bash")
        if WARM:
            harness.await_copies(self.server)
        self.choice = random.Random(SEED)

    def victims(self):
        """The victims of a round, chosen among all running processes, including programs in sandboxes."""
        kind = self.choice.choice(["cloisterd", "cloister-node", "supervisor", "all", "anything"])
        if kind == "all":
            return kind, self.server.pids()
        if kind == "supervisor":
            return kind, [self.server.process.pid]
        pids = [pid for pid in self.server.pids()[1:]
                if kind == "anything" or harness.program_of(pid) == kind]
        return kind, [self.choice.choice(pids)] if pids else []

    def recover(self, kind):
        if kind in ("supervisor", "all"):
            self.server.process.wait()
            self.server.process = None
            self.server.start()  # waits until the server is ready
        else:
            self.server.wait_ready(30)

    def test_kill_at_random_under_load(self):
        killed = collections.Counter()
        with Load(self.server, WORK, CLIENTS, SEED) as load:
            for number in range(ROUNDS):
                with self.subTest(round=number, seed=SEED):
                    time.sleep(self.choice.uniform(0.1, 1.5))  # the random moment itself
                    kind, pids = self.victims()
                    kill(pids)
                    killed[kind] += 1
                    self.recover(kind)
        self.assertGreater(len(load.acknowledged), ROUNDS)
        print(f"killed {dict(killed)}, {len(load.acknowledged)} acknowledged, seed {SEED}")
        self.check_invariants(load.acknowledged)

    def check_invariants(self, acknowledged):
        invariants.check(self, self.server, acknowledged)
        # A ready server must run a program now.
        self.assertEqual(self.server.run(ECHO[1].format("ready"), ECHO[0])["stdout"], "ready\n")
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])

    def test_runner_killed(self):
        """The sandbox's pid 1 is killed from outside: RUNNER_LOST, soon, and nothing lives on."""
        submitted = self.server.submit(**SLEEPERS, wait=0, timeout_seconds=100, artifacts=[]).json()
        self.server.wait_status(submitted["id"], "running")
        # The runner with the program; the warm-up's runner may still be on its way out.
        runner = harness.wait_for("the runner", lambda: [
            pid for pid in self.server.pids() if harness.program_of(pid) == "cloister-runner"
            and "sleep" in map(harness.program_of, harness.descendants(pid))])[0]
        os.kill(runner, signal.SIGKILL)
        ended = self.server.wait_end(submitted["id"], 10)
        self.assertEqual((ended["status"], ended["error"]["type"]), ("failed", "RUNNER_LOST"))
        self.assertTrue(ended["error"]["retryable"])

    def test_the_control_plane_comes_back_while_a_start_hangs(self):
        spawner = self.server.pid_of("cloister-spawner")
        os.kill(spawner, signal.SIGSTOP)
        try:
            # No sandbox is ready for the run, and the node waits longer than the test for a new sandbox.
            hangs = self.server.submit("echo x", "bash", wait=0, memory_mb=97).json()["id"]
            begin = time.monotonic()
            kill_part(self.server, "cloisterd")
            self.assertLess(time.monotonic() - begin, 20)
        finally:
            os.kill(spawner, signal.SIGCONT)
        self.assertEqual(self.server.wait_end(hangs)["error"]["type"], "SERVER_RESTART")
        self.assertEqual(self.server.run(ECHO[1].format("again"), ECHO[0])["stdout"], "again\n")

    def test_queued_work_survives_a_restart(self):
        """Accepted, not yet started, server killed: the execution runs once after the restart."""
        self.server.stop()
        language, echo = ECHO
        config = harness.Server("run:\n  concurrent: 1\n" + (POOL if WARM else ""), state=self.server.state)
        with config as server:
            server.run(":", "bash")
            first = server.submit("sleep 30", "bash", wait=0).json()["id"]
            queued = [server.submit(echo.format(n), language, wait=0).json()["id"] for n in range(5)]
            server.wait_status(first, "running")
            server.kill()
            server.start()
            self.assertEqual(server.wait_end(first)["error"]["type"], "SERVER_RESTART")
            self.assertEqual([server.wait_end(e)["stdout"] for e in queued],
                             [f"{n}\n" for n in range(5)])


if __name__ == "__main__":
    unittest.main()
