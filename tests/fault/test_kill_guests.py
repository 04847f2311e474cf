# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the parts of a sandbox with a kernel of its own: runsc, its gofer, its kernel and their children; the
VMM; the node; all at once. Each kind once at a known moment, with the exact outcome; and at random moments under
load, then the invariants of fault/kill."""

import collections
import contextlib
import glob
import os
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
import invariants  # noqa: E402
from load import EXPLAINED, Load, ask, kill  # noqa: E402
from processes import program_of  # noqa: E402
from session_case import Session  # noqa: E402

SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
POOL = "pool:\n  ready: 2\n  idle_ms: 60000\n" + harness.CALM
SLEEPS = "echo up; sleep 120 & sleep 120"


def of_runsc():
    """Files of runsc on a host that does not confine runsc to a place."""
    return set(glob.glob("/run/runsc*") + glob.glob("/var/run/runsc*") + glob.glob("/tmp/runsc*") +
               glob.glob("/tmp/*.sock") + glob.glob("/sys/class/net/*"))


class Guests:
    """A runtime: `PARTS` names its processes, as /proc has them; each ends its sandbox alone."""

    RUNTIME = PARTS = NEEDED = CONFIG = None
    ROUNDS, CLIENTS, QUEUE = 0, 2, 8  # waiting executions at the end of the load still have to run

    @classmethod
    def setUpClass(cls):
        for needed in cls.NEEDED:
            if not needed.exists():
                raise unittest.SkipTest(f"no {needed}: {cls.RUNTIME} is not on this machine")

    def setUp(self):
        self.clean, self.host = harness.Snapshot(), of_runsc()
        self.server = self.enterContext(harness.Server(f"run:\n  queue: {self.QUEUE}\n{POOL}{self.CONFIG}"))
        self.choice = random.Random(SEED)
        self.assertEqual(self.server.run("echo up", "bash", runtime=self.RUNTIME, wait=120)["stdout"], "up\n")

    def tearDown(self):
        if self.server.process is None:
            return
        self.assertEqual(self.run_now("ready"), "ready\n")
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])
        self.assertEqual(of_runsc() - self.host, set())

    def run_now(self, text):
        return self.server.run(f"echo {text}", "bash", runtime=self.RUNTIME, wait=120)["stdout"]

    def parts(self, name):
        return [pid for pid in self.server.pids() if program_of(pid) == name]

    def sleeping(self):
        """A running program, with a child beside its first process."""
        made = self.server.submit(SLEEPS, "bash", wait=0, runtime=self.RUNTIME, timeout_seconds=100).json()
        harness.wait_for("its program to run", lambda: self.server.get(made["id"])["stdout"] == "up\n", 60)
        return made["id"]

    def lost(self, execution, error):
        ended = self.server.wait_end(execution, 30)
        self.assertEqual((ended["status"], ended["error"]["type"], ended["error"]["retryable"]), ("failed", error, True))

    # - each kind, once -

    def test_a_part_is_killed_while_a_program_runs(self):
        for name in self.PARTS:
            with self.subTest(name):
                execution = self.sleeping()
                self.assertTrue(kill(self.parts(name)), name)  # including ready sandboxes
                self.lost(execution, "RUNNER_LOST")
                self.assertEqual(self.run_now(name), f"{name}\n")

    def session_with_a_program(self):
        """The part that was killed before may have been that of the ready sandbox which the first session receives."""
        for last in (False, True):
            session = Session(self.server, language="bash", runtime=self.RUNTIME)
            execution = session.start(SLEEPS)
            try:
                session.wait_output(execution, "up")
                break
            except AssertionError:
                if last:
                    raise
                self.lost(execution, "RUNNER_LOST")
        return session, execution

    def test_a_part_is_killed_while_a_session_has_a_program(self):
        for name in self.PARTS:
            with self.subTest(name):
                session, execution = self.session_with_a_program()
                self.assertTrue(kill(self.parts(name)), name)
                self.assertEqual(session.wait_ended()["end_reason"]["type"], "RUNNER_LOST")
                self.lost(execution, "RUNNER_LOST")

    def test_a_part_is_killed_in_a_sandbox_that_stands_ready(self):
        """After the rest of the sandbox has ended too, which takes a moment, nobody is given the sandbox: a client
        in the meantime loses its run, and receives the reason."""
        for name in self.PARTS:
            with self.subTest(name):
                self.run_now("another")
                pids = harness.wait_for("a ready one", lambda: self.parts(name), 60)
                kill(pids)
                first = self.server.run(f"echo {name}", "bash", runtime=self.RUNTIME, wait=120)
                if first["stdout"] != f"{name}\n":
                    self.assertEqual((first["error"]["type"], first["error"]["retryable"]), ("RUNNER_LOST", True), first)
                    self.assertEqual(self.run_now(name), f"{name}\n")

    def test_a_part_is_killed_while_its_sandbox_starts(self):
        """The run fails as not started, or as lost; or another sandbox serves the run."""
        for name in self.PARTS:
            with self.subTest(name):
                known = set(self.parts(name))
                limits = {"memory_mb": 200 + len(name)}  # no sandbox is ready for these
                submitted = self.server.submit("echo came", "bash", wait=0, runtime=self.RUNTIME, **limits).json()
                found = harness.wait_for("it to begin", lambda: (
                    set(self.parts(name)) - known or harness.finished(self.server.get(submitted["id"]))), 30, every=0.001)
                if found is not True:
                    kill(found)
                ended = self.server.wait_end(submitted["id"], 60)
                if ended["status"] != "completed":
                    self.assertIn(ended["error"]["type"], ("SANDBOX_STARTUP_FAILED", "RUNNER_LOST"), ended)

    def test_the_node_is_killed_while_a_program_runs(self):
        execution = self.sleeping()
        session = Session(self.server, language="bash", runtime=self.RUNTIME)
        kill([self.server.pid_of("cloister-node")])
        self.lost(execution, "NODE_LOST")
        self.assertEqual(session.wait_ended()["end_reason"]["type"], "NODE_LOST")
        self.server.wait_ready(30)

    # - at random -

    def work(self):
        common = {"language": "bash", "runtime": self.RUNTIME}
        return [common | more for more in (
            {"code": "echo done"}, {"code": "sleep 0.3; echo slept"},
            {"code": "for i in 1 2 3 4 5; do sleep 60 & done; wait", "timeout_seconds": 1})]

    def victims(self):
        kind = self.choice.choice([*self.PARTS, "child", "cloister-node", "all"])
        if kind == "all":
            return kind, self.server.pids()
        if kind == "child":  # children of the parts, under any name
            parts = [pid for name in self.PARTS for pid in self.parts(name)]
            pids = sorted({pid for part in parts for pid in harness.descendants(part)})
        else:
            pids = self.parts(kind)
        return kind, [self.choice.choice(pids)] if pids else []

    def recover(self, kind):
        if kind != "all":
            return self.server.wait_ready(30)
        self.server.process.wait()
        self.server.process = None
        return self.server.start()

    def session(self):
        """A session with a running program; None while a part is down."""
        with contextlib.suppress(*EXPLAINED):
            made = ask(self.server, "POST", "/v1/sessions", {"language": "bash", "runtime": self.RUNTIME}, 201).json()
            path = f"/v1/sessions/{made['id']}"
            ask(self.server, "POST", f"{path}/exec", {"code": SLEEPS, "kernel": "none", "background": True}, 202)
            return path
        return None

    def test_at_random_under_load(self):
        killed, sessions = collections.Counter(), []
        with Load(self.server, self.work(), self.CLIENTS, SEED) as load:
            for number in range(self.ROUNDS):
                with self.subTest(round=number, seed=SEED):
                    if number % 3 == 0 and (session := self.session()) is not None:
                        sessions.append(session)
                    time.sleep(self.choice.uniform(0.1, 1.5))  # the random moment itself
                    kind, pids = self.victims()
                    kill(pids)
                    killed[kind] += 1
                    self.recover(kind)
        print(f"counts: killed {dict(killed)}, {len(load.acknowledged)} acknowledged, seed {SEED}")
        self.assertGreater(len(load.acknowledged), 0)
        invariants.check(self, self.server, load.acknowledged)
        for session in sessions:
            now = self.server.request("GET", session).json()
            if now["status"] == "running":
                now = self.server.request("DELETE", session).json()
            self.assertIn(now["end_reason"]["type"], ("CANCELLED", "SERVER_RESTART", *invariants.LOSSES), now)


class Gvisor(Guests, unittest.TestCase):
    RUNTIME, PARTS = "gvisor", ("runsc", "runsc-gofer", "runsc-sandbox")
    NEEDED, CONFIG = [pathlib.Path("/usr/bin/runsc")], "gvisor:\n  ready: 1\n"
    ROUNDS = 100 if harness.LONG else 6


if __name__ == "__main__":
    unittest.main()
