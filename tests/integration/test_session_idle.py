# SPDX-License-Identifier: Apache-2.0
"""Sessions that are paused for idleness, and continue at the next request."""

import concurrent.futures
import unittest

import harness

TICKS = "nohup sh -c 'n=0; while :; do n=$((n+1)); echo $n > /workspace/ticks; sleep 0.02; done' >/dev/null 2>&1 &"


class Idle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server())

    def make(self, **more):
        made = self.server.request("POST", "/v1/sessions", {"idle_ttl_seconds": 3600, **more})
        self.assertEqual(made.status, 201, made.text)
        session = made.json()
        self.addCleanup(self.server.request, "DELETE", f"/v1/sessions/{session['id']}")
        return session

    def status(self, session):
        return self.server.request("GET", f"/v1/sessions/{session['id']}").json()["status"]

    def listed(self, status):
        answer = self.server.request("GET", f"/v1/sessions?status={status}").json()
        return [each["id"] for each in answer["sessions"]]

    def paused(self, session):
        harness.wait_for("the pause", lambda: self.status(session) == "paused", 30)

    def exec(self, session, command):
        done = self.server.request("POST", f"/v1/sessions/{session['id']}/exec?wait=30", {"command": command})
        self.assertEqual(done.status, 200, done.text)
        return done.json()

    def file(self, session, name):
        return self.server.request("GET", f"/v1/sessions/{session['id']}/files/{name}")

    def test_pauses_and_wakes(self):
        session = self.make(idle={"pause_after_seconds": 1})
        self.assertEqual(session["idle"], {"pause_after_seconds": 1})
        self.exec(session, TICKS)
        self.paused(session)
        self.assertIn(session["id"], self.listed("paused"))
        self.assertNotIn(session["id"], self.listed("running"))
        first = int(self.file(session, "ticks").text)  # the request wakes it
        self.assertEqual(self.status(session), "running")
        harness.wait_for("the program to go on", lambda: int(self.file(session, "ticks").text or 0) > first)
        self.paused(session)
        self.assertEqual(self.exec(session, "echo awake")["stdout"], "awake\n")
        self.paused(session)

    def test_concurrent_requests_wake_it_once(self):
        session = self.make(idle={"pause_after_seconds": 1})
        self.paused(session)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = [pool.submit(self.exec, session, f"echo {n}") for n in range(4)]
        self.assertEqual([each.result()["stdout"] for each in done], [f"{n}\n" for n in range(4)])

    def test_without_the_setting(self):
        session = self.make()
        self.assertNotIn("idle", session)
        refused = self.server.request("POST", "/v1/sessions", {"idle": {"pause_after_seconds": 0}})
        self.assertEqual((refused.status, refused.json()["error"]["details"]["field"]), (422, "idle.pause_after_seconds"))
        refused = self.server.request("POST", "/v1/sessions", {"idle": {"unknown": 1}})
        self.assertEqual((refused.status, refused.json()["error"]["details"]["field"]), (422, "idle.unknown"))
        self.assertEqual(self.status(session), "running")


if __name__ == "__main__":
    unittest.main()
