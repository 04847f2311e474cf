# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each part while sessions are made, used and ended; then: every acknowledged session has a single
record, terminal or working; an acknowledged end is final, its programs are terminal with a true cause, the audit
chain has a creation and an end of each, and nothing is left behind."""
import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
import invariants  # noqa: E402
from load import EXPLAINED, ask  # noqa: E402
from session_case import Session  # noqa: E402

ROUNDS = 60 if harness.LONG else 8
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
CLIENTS = 4
# The allowed ends of a session after a kill of server, node or runner, or after an end by its client.
ENDS = ("CANCELLED", "SERVER_RESTART", "NODE_LOST", "RUNNER_LOST", "SANDBOX_STARTUP_FAILED")
# Programs beside each other, and cells of a kernel in turn.
PROGRAM = {"kernel": "none"}
WORK = [PROGRAM | {"code": "echo done"}, PROGRAM | {"code": "sleep 0.2; echo slept"},
        PROGRAM | {"code": "setsid sleep 29 & sleep 28", "timeout_seconds": 0.3},
        PROGRAM | {"code": "setsid sleep 29 & (setsid sleep 28 &); sleep 27", "background": True},
        {"code": "n=$((n + 1)); echo cell $n"}]


class Load:
    """Clients that make, use and end sessions without pause, and remember the acknowledged."""

    def __init__(self, server):
        self.server = server
        self.sessions, self.ended, self.executions = [], [], {}
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._client, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _request(self, method, path, body=None, status=200):
        """The JSON of a success; None while a part is down, or for a session lost with a part."""
        with contextlib.suppress(*EXPLAINED):
            return ask(self.server, method, path, body, status, timeout=20).json()
        self.stopping.wait(0.05)
        return None

    def _client(self, number):
        choice = random.Random(SEED + number)
        while not self.stopping.is_set():
            session = self._request("POST", "/v1/sessions", {"language": "bash", "memory_mb": 32}, 201)
            if session is None:
                continue
            self.sessions.append(session["id"])
            path = f"/v1/sessions/{session['id']}"
            for _ in range(choice.randrange(5)):
                work = choice.choice(WORK)
                execution = self._request("POST", path + "/exec", work, 202 if work.get("background") else 201)
                if execution is None:
                    break
                self.executions[execution["id"]] = session["id"]
            if choice.random() < 0.7 and self._request("DELETE", path) is not None:
                self.ended.append(session["id"])


class Sessions(unittest.TestCase):
    def setUp(self):
        self.clean = harness.Snapshot()
        self.server = self.enterContext(harness.Server())
        self.server.run(":", "bash")
        self.choice = random.Random(SEED)

    def victims(self):
        kind = self.choice.choice(["cloisterd", "cloister-node", "cloister-runner", "all", "anything"])
        if kind == "all":
            return kind, self.server.pids()
        pids = [pid for pid in self.server.pids()[1:] if kind == "anything" or harness.program_of(pid) == kind]
        return kind, [self.choice.choice(pids)] if pids else []

    def recover(self, kind):
        if kind == "all":
            self.server.process.wait()
            self.server.process = None
            self.server.start()
        else:
            self.server.wait_ready(30)

    def test_kill_at_random_under_load(self):
        killed = collections.Counter()
        with Load(self.server) as load:
            for number in range(ROUNDS):
                with self.subTest(round=number, seed=SEED):
                    time.sleep(self.choice.uniform(0.1, 1.0))  # the random moment itself
                    kind, pids = self.victims()
                    for pid in pids:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    killed[kind] += 1
                    self.recover(kind)
        self.assertGreater(len(load.sessions), ROUNDS)
        print(f"killed {dict(killed)}, {len(load.sessions)} sessions, {len(load.executions)} programs, seed {SEED}")
        self.await_node()
        self.check_sessions(load)
        self.check_programs(load)
        self.check_audit(load)
        with Session(self.server, language="bash") as session:
            self.assertEqual(session.exec("echo ready")["stdout"], "ready\n")
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])

    def await_node(self):
        """A node killed a moment ago may not be missed yet: the service then says ready."""
        def made():
            answer = self.server.request("POST", "/v1/sessions", {"language": "bash", "memory_mb": 32})
            return answer.json()["id"] if answer.status == 201 else None

        self.server.request("DELETE", f"/v1/sessions/{harness.wait_for('a session to be made', made, 30)}")

    def show(self, session):
        answer = self.server.request("GET", f"/v1/sessions/{session}")
        self.assertEqual(answer.status, 200, session)
        return answer.json()

    def check_sessions(self, load):
        for session in load.ended:
            now = self.show(session)
            self.assertEqual(now["status"], "ended", now)
        for session in load.sessions:
            now = self.show(session)
            if now["status"] == "running":  # then it works
                answer = self.server.request("POST", f"/v1/sessions/{session}/exec?wait=30", PROGRAM | {"code": "echo on"})
                self.assertEqual((answer.status, answer.json().get("stdout")), (200, "on\n"), answer.body)
                self.assertEqual(self.server.request("DELETE", f"/v1/sessions/{session}").status, 200)
            else:
                self.assertEqual(now["status"], "ended", now)
                self.assertIn(now["end_reason"]["type"], ENDS, now)

    def check_programs(self, load):
        for execution in load.executions:
            done = self.server.wait_end(execution, 60)
            if done["status"] == "failed":
                self.assertIn(done["error"]["type"], invariants.LOSSES, done)
            elif done["status"] == "cancelled":
                self.assertEqual(self.show(done["session_id"])["status"], "ended")

    def check_audit(self, load):
        rows = collections.Counter()
        for line in self.server.request("GET", "/v1/audit/export").text.splitlines():
            row = json.loads(line)
            rows[row["subject"], row["action"]] += 1
        for session in load.sessions:
            self.assertEqual([rows[session, f"session.{step}"] for step in ("created", "started", "ended")], [1, 1, 1], session)
        for execution in load.executions:
            self.assertEqual(rows[execution, "execution.accepted"], 1, execution)
            self.assertLessEqual(rows[execution, "execution.started"], 1, execution)
            self.assertEqual(rows[execution, "execution.finished"], 1, execution)
        report = self.server.request("GET", "/v1/audit/verify").json()
        self.assertTrue(report["ok"], report)

    def test_an_acknowledged_end_stays(self):
        """Killed in the moment after the answer, the end is there with its cause after the restart."""
        for _ in range(5):
            session = Session(self.server, language="bash")
            execution = session.start("sleep 29")
            ended = session.end()
            os.kill(self.server.pid_of("cloisterd"), signal.SIGKILL)
            self.server.wait_ready(30)
            self.assertEqual(session.show(), ended)
            self.assertEqual(ended["end_reason"]["type"], "CANCELLED")
            self.assertTrue(harness.finished(session.get(execution)))

    def test_killed_while_one_is_made(self):
        """A client without an answer finds the record ended, and a retry with the same key gives a single session."""
        for _ in range(5):
            answers = []

            def make():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answers.append(self.server.request("POST", "/v1/sessions", {"language": "bash"}, timeout=20))

            makers = [threading.Thread(target=make) for _ in range(8)]
            for maker in makers:
                maker.start()
            time.sleep(self.choice.uniform(0, 0.05))  # the random moment itself
            os.kill(self.server.pid_of("cloisterd"), signal.SIGKILL)
            for maker in makers:
                maker.join()
            self.server.wait_ready(30)
            made = [answer.json()["id"] for answer in answers if answer.status == 201]
            listed = self.server.request("GET", "/v1/sessions?limit=500").json()["sessions"]
            self.assertLessEqual(set(made), {each["id"] for each in listed})
            # The session made after the restart runs; every other has ended.
            for each in listed:
                self.assertIn(each["status"], ("running", "ended"), each)
                if each["status"] == "ended":
                    self.assertIn(each["end_reason"]["type"], ENDS, each)
                else:
                    self.assertEqual(self.server.request("DELETE", f"/v1/sessions/{each['id']}").status, 200)
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])


if __name__ == "__main__":
    unittest.main()
