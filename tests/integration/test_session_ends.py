# SPDX-License-Identifier: Apache-2.0
"""Ends of sessions without a request: memory, the runner, the node, the server; and many at once."""

import concurrent.futures
import os
import signal
import statistics
import time
import unittest

import harness
import machine
from session_case import Session

HOG = "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1"
MANY = 200


class Ends(unittest.TestCase):
    CONFIG = ""

    def setUp(self):
        self.server = self.enterContext(harness.Server(self.CONFIG))
        self.server.run(":", "bash")
        self.before = harness.Snapshot(self.server)

    def open(self, **request):
        return Session(self.server, **{"language": "bash", "memory_mb": 64, **request})

    def check_ended(self, session, execution, end, of_program):
        """Both records are terminal and true, nobody runs on, and the chain holds."""
        ended = session.show()
        self.assertEqual((ended["status"], ended["end_reason"]["type"]), ("ended", end), ended)
        self.assertIsNotNone(ended["ended_at"])
        done = session.wait(execution)
        self.assertEqual((done["status"], done["error"]["type"]), ("failed", of_program), done)
        refused = session.post("echo")
        self.assertEqual(refused.status, 409)
        self.assertIn(ended["end_reason"]["message"], refused.json()["detail"])
        self.assertEqual(session.end(), ended)
        self.assertTrue(self.server.request("GET", "/v1/audit/verify").json()["ok"])

    def check_usable(self):
        with self.open() as session:
            self.assertEqual(session.exec("echo works")["stdout"], "works\n")

    def runner_of(self, sleeper):
        """The pid of the runner of the sandbox with a `sleep` of so many seconds."""
        def found():
            for pid in self.server.pids():
                if harness.program_of(pid) == "cloister-runner":
                    for below in harness.descendants(pid):
                        if harness.program_of(below) == "sleep" and sleeper in command_line(below):
                            return pid
            return None
        return harness.wait_for("the program", found)

    def test_a_memory_kill_is_of_the_program(self):
        """A program over the limit is ended, with the reason; the session and its other programs go on."""
        session = self.open(language="python")
        beside = session.start(command=["sleep", "29"])
        done = session.exec(HOG)
        if machine.lacks_groups(self.server, session.made):
            self.skipTest(machine.NO_GROUPS)
        details = done["error"]["details"]
        self.assertEqual((done["status"], done["error"]["type"], details["limit"], details["value"]),
                         ("failed", "RESOURCE_LIMIT_EXCEEDED", "memory_mb", 64 << 20))
        self.assertEqual(session.get(beside)["status"], "running")
        self.assertEqual(session.exec("print('usable')")["stdout"], "usable\n")
        session.end()
        harness.assert_clean(self.before, self.server)

    def test_memory_that_no_kill_gives_back(self):
        """Files fill the sandbox's memory: programs end for lack of memory, and the session goes on or ends as well."""
        session = self.open(pids=16)
        if machine.lacks_groups(self.server, session.made):
            self.skipTest(machine.NO_GROUPS)
        filled = session.exec("head -c 100M /dev/zero > /dev/shm/full")
        self.assertEqual(filled["error"]["type"], "RESOURCE_LIMIT_EXCEEDED")
        ends = set()
        for _ in range(20):
            answer = session.post(query="?wait=30", command="x=$(head -c 8M /dev/zero | tr '\\0' x); echo ${#x}")
            if answer.status == 409:
                break
            done = answer.json()
            ends.add((done["error"] or {"type": done["status"]})["type"])
        self.assertLessEqual(ends, {"RESOURCE_LIMIT_EXCEEDED", "completed"})
        now = session.show()
        if now["status"] == "ended":
            self.assertEqual(now["end_reason"]["type"], "RESOURCE_LIMIT_EXCEEDED")
            self.assertEqual(now["end_reason"]["details"]["limit"], "memory_mb")
        else:
            session.exec(command=["rm", "/dev/shm/full"])
            self.assertEqual(session.exec("echo usable")["stdout"], "usable\n")
        session.end()
        self.check_usable()
        harness.assert_clean(self.before, self.server)

    def test_runner_killed(self):
        session = self.open()
        execution = session.start("sleep 311")
        os.kill(self.runner_of("311"), signal.SIGKILL)
        session.wait_ended()
        self.check_ended(session, execution, "RUNNER_LOST", "RUNNER_LOST")
        self.check_usable()
        harness.assert_clean(self.before, self.server)

    def test_node_killed(self):
        session = self.open()
        execution = session.start("sleep 311")
        self.runner_of("311")
        os.kill(self.server.pid_of("cloister-node"), signal.SIGKILL)
        session.wait_ended()
        self.check_ended(session, execution, "NODE_LOST", "NODE_LOST")
        self.server.wait_ready(30)
        self.check_usable()

    def test_server_killed(self):
        session = self.open()
        execution = session.start("sleep 311")
        self.runner_of("311")
        os.kill(self.server.pid_of("cloisterd"), signal.SIGKILL)
        self.server.wait_ready(30)
        self.check_ended(session, execution, "SERVER_RESTART", "SERVER_RESTART")
        self.check_usable()

    def test_server_stopped_and_started(self):
        session = self.open()
        execution = session.start("sleep 311")
        self.runner_of("311")
        self.server.stop()
        self.server.start()
        self.check_ended(session, execution, "SERVER_RESTART", "SERVER_RESTART")
        self.check_usable()


class Many(unittest.TestCase):
    def test_many_at_once(self):
        """As many as there is room for; each works, and ends."""
        config = f"node:\n  max_sandboxes: 320\nsession:\n  max: {MANY}\n  max_per_tenant: {MANY}\n" \
                 "fairness:\n  kept_percent: 0\n"
        with harness.Server(config) as server:
            server.run(":", "bash")
            before = harness.Snapshot(server)

            def make(_):
                start = time.monotonic()
                session = Session(server, language="bash", memory_mb=16, pids=8)
                return session, time.monotonic() - start

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                made = list(pool.map(make, range(MANY)))
                sessions, times = [each for each, _ in made], sorted(took for _, took in made)
                refused = server.request("POST", "/v1/sessions", {"language": "bash"})
                self.assertEqual(refused.status, 429, refused.body)
                self.assertIn(f"{MANY} sessions", refused.json()["detail"])
                said = list(pool.map(lambda s: s.exec(f"echo {s.id} > id; cat id")["stdout"].strip(), sessions))
                self.assertEqual(said, [session.id for session in sessions])
                # Runs have places of their own.
                self.assertEqual(server.run("echo beside", "bash")["stdout"], "beside\n")
                ends = list(pool.map(lambda s: s.end()["end_reason"]["type"], sessions))
            self.assertEqual(set(ends), {"CANCELLED"})
            print(f"{MANY} sessions, 8 at a time: p50 {statistics.median(times) * 1000:.0f} ms, "
                  f"p99 {times[int(len(times) * 0.99)] * 1000:.0f} ms")
            harness.assert_clean(before, server, seconds=30)


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    unittest.main()
