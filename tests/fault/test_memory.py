# SPDX-License-Identifier: Apache-2.0
"""kill -9 during a snapshot of a session with memory, or a restoration: of the process that saves, of its kernel, of
the node. Acknowledged snapshots hold, the session goes on or its end is reported, and nothing is left."""

import contextlib
import os
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
from load import kill  # noqa: E402
from processes import program_of  # noqa: E402
from session_case import Session  # noqa: E402

RUNSC = "/usr/bin/runsc"
CONFIG = "gvisor:\n  ready: 0\npool:\n  ready: 0\n" + harness.CALM
FILL = "import os; kept = os.urandom(300 << 20); print(len(kept))"  # takes its time


def verb_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def pages_open(pid):
    """Whether a process has the memory's file open."""
    with contextlib.suppress(OSError):
        return any(os.readlink(each).endswith("/pages.img") for each in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    return False


@unittest.skipUnless(os.path.exists(RUNSC), f"no {RUNSC}: install Debian's from backports")
class Memory(unittest.TestCase):
    def setUp(self):
        self.clean = harness.Snapshot()
        self.server = self.enterContext(harness.Server(CONFIG))

    def tearDown(self):
        if self.server.process is None:
            return
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])

    def session(self, **request):
        return Session(self.server, language="python", runtime="gvisor", memory_mb=512, **request)

    def with_verb(self, verb):
        return [pid for pid in self.server.pids() if verb in verb_of(pid)]

    def parts(self, name):
        return [pid for pid in self.server.pids() if program_of(pid) == name]

    def writes_image(self):
        return any(pages_open(pid) for pid in self.parts("runsc-sandbox"))

    def during(self, verb, method, path, body, strike, ready=lambda: True):
        """The answer to a request that `strike` interrupts."""
        answers = []
        asks = threading.Thread(target=lambda: answers.append(self.server.request(method, path, body)))
        asks.start()
        harness.wait_for(f"runsc {verb.decode()}", lambda: self.with_verb(verb) and ready(), 30)
        self.assertTrue(strike())
        asks.join(120)
        self.assertEqual(len(answers), 1)
        return answers[0]

    def take(self, session, strike, **when):
        return self.during(b"checkpoint", "POST", f"{session.path}/snapshots", {"memory": True}, strike, **when)

    def refused(self, answer):
        self.assertGreaterEqual(answer.status, 400, answer.body[:500])
        self.assertIn("error", answer.json())

    def test_what_keeps_it_is_killed(self):
        session = self.session()
        self.assertEqual(session.exec(code=FILL, kernel="python")["exit_code"], 0)
        self.refused(self.take(session, lambda: kill(self.with_verb(b"checkpoint"))))
        # Its kernel had finished its work, and goes on.
        self.assertEqual(session.exec(code="print(len(kept))", kernel="python")["stdout"], f"{300 << 20}\n")
        answer = self.server.request("POST", f"{session.path}/snapshots", {"memory": True})
        self.assertEqual(answer.status, 201, answer.body[:500])
        session.end()

    def test_its_kernel_writes_on_when_what_keeps_it_is_killed(self):
        """The kernel writes to the session's memory, which is lent until the end of the writing."""
        session = self.session()
        self.assertEqual(session.exec(code=FILL, kernel="python")["exit_code"], 0)
        self.refused(self.take(session, lambda: kill(self.with_verb(b"checkpoint")), ready=self.writes_image))
        self.assertEqual(session.exec(code="print(len(kept))", kernel="python")["stdout"], f"{300 << 20}\n")
        session.end()

    def test_its_kernel_is_killed_meanwhile(self):
        session = self.session()
        self.assertEqual(session.exec(code=FILL, kernel="python")["exit_code"], 0)
        self.refused(self.take(session, lambda: kill(self.parts("runsc-sandbox"))))
        self.assertEqual(session.wait_ended()["end_reason"]["type"], "RUNNER_LOST")
        self.assertEqual(self.server.request("GET", "/v1/snapshots").json()["snapshots"], [])

    def test_the_node_is_killed_meanwhile(self):
        session = self.session()
        self.assertEqual(session.exec(code=FILL, kernel="python")["exit_code"], 0)
        self.refused(self.take(session, lambda: kill(self.parts("cloister-node"))))
        self.assertEqual(session.wait_ended()["end_reason"]["type"], "NODE_LOST")
        self.assertEqual(self.server.run("echo again", "bash", wait=120)["stdout"], "again\n")

    def test_what_goes_on_is_killed(self):
        session = self.session()
        self.assertEqual(session.exec(code=FILL, kernel="python")["exit_code"], 0)
        made = self.server.request("POST", f"{session.path}/snapshots", {"memory": True})
        self.assertEqual(made.status, 201, made.body[:500])
        own = set(self.server.pids())
        asked = {"from_snapshot": made.json()["id"]}
        for strike in (lambda: kill(self.with_verb(b"restore")),
                       lambda: kill([pid for pid in self.parts("runsc-sandbox") if pid not in own])):
            self.refused(self.during(b"restore", "POST", "/v1/sessions", asked, strike))
        with Session(self.server, **asked) as copy:
            self.assertEqual(copy.exec(code="print(len(kept))", kernel="python", language="python")["stdout"],
                             f"{300 << 20}\n")
        self.assertEqual(session.exec(code="print(len(kept))", kernel="python")["stdout"], f"{300 << 20}\n")
        session.end()


if __name__ == "__main__":
    unittest.main()
