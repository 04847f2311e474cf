# SPDX-License-Identifier: Apache-2.0
"""Helpers of the suites of rules: credentials by role and name, agents with levels, and sessions that end with their test."""

import concurrent.futures
import itertools

from hostile import HostileTest, harness
from session_case import Session

NAMES = (f"agent-{number}" for number in itertools.count())
NO_EXECUTION, NO_SESSION = "exec_" + "0" * 26, "ses_" + "0" * 26


def at_once(what, arguments):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(what, arguments))


class RulesTest(HostileTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = {}

    def setUp(self):
        super().setUp()
        self.sessions = []
        self.agent = next(NAMES)

    def tearDown(self):
        for session in self.sessions:
            self.server.request("DELETE", session.path)
        super().tearDown()

    def key(self, role="agent", tenant="default", **who):
        """A credential, the same for the same arguments. An agent's is the test's own, unless another name is given."""
        who = {"agent": self.agent} | who if role == "agent" else who
        name = (role, tenant, *sorted(who.items()))
        if name not in self.keys:
            made = self.ask("POST", "/v1/keys", {"tenant": tenant, "name": "test", "roles": [role], **who}, status=201)
            self.keys[name] = made.json()["secret"]
        return self.keys[name]

    def ask(self, method, path, body=None, key=None, status=None, **more):
        answer = self.server.request(method, path, body, key=key, **more)
        if status is not None:
            self.assertEqual(answer.status, status, (method, path, answer.body[:1500]))
        return answer

    def open(self, key=None, **request):
        session = Session(self.server, key=key, **{"language": "bash", "memory_mb": 128, **request})
        self.sessions.append(session)
        return session

    def give(self, level, agent=None, tenant="default", **rules):
        path = f"/v1/agents/{agent or self.agent}/sandbox?tenant={tenant}"
        self.ask("POST", path, {"level": level, "escalation": {"auto_approve_safe": False}, **rules}, status=201)

    def update(self, **rules):
        self.ask("POST", f"/v1/agents/{self.agent}/sandbox:update", rules, status=200)

    def vote(self, escalation, action="approve", key=None, status=200):
        return self.ask("POST", f"/v1/escalations/{escalation}:{action}", {"reason": "looked at it"},
                        key or self.key("approver"), status)

    def escalation_of(self, blocked):
        self.assertEqual((blocked["status"], blocked["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"), blocked)
        return blocked["error"]["details"]["escalation_id"]

    def permit(self, key, **what):
        """A temporary permission → the escalation's id."""
        asked = self.ask("POST", "/v1/escalations", {**what, "reason": "why"}, key, 201).json()["id"]
        self.vote(asked)
        return asked

    def audit(self, subject, action):
        rows = self.ask("GET", f"/v1/audit?action={action}&limit=500&order=newest", status=200).json()["entries"]
        return [row for row in rows if row["subject"] == subject]

    def answers(self, session, code, seconds=30, **request):
        """The program's output, once the session accepts the program."""
        def let_in():
            answer = session.post(code, "?wait=60", **request)
            self.assertIn(answer.status, (200, 503), answer.body[:1500])
            return answer.json() if answer.status == 200 else None

        return harness.wait_for("the session to let a program in", let_in, seconds)
