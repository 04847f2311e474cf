# SPDX-License-Identifier: Apache-2.0
"""S17 to S21: attempts to run something never approved, or something other than the approved program; programs that
run on after their permission has ended; and attempts to get more of the processors than an agent's share."""

import concurrent.futures
import pathlib
import tempfile
import time
import unittest

from hostile import AS_USER, harness
from escalation_case import POLICY
from rules_case import NAMES, RulesTest, at_once

MANY = 24
TAC = {"command": "tac sent/words", "files": [{"path": "sent/words", "content": "one\ntwo\n"}], "env": {"TOKEN": "hunter2"}}
# Other commands to try on the approval of TAC.
OTHERS = ({"command": "tac sent/words /etc/passwd"}, {"command": "tac ./sent/words"}, {"command": ["tac", "sent/words"]},
          {"command": "tac sent/words "}, {"args": ["/etc/passwd"]}, {"env": {"TOKEN": "hunter3"}}, {"env": {}}, {"input": "x"},
          {"env": {"TOKEN": "hunter2", "MORE": ""}}, {"files": [{"path": "sent/words", "content": "one\nthree\n"}]},
          {"files": [{"path": "sent/words", "content": "one\ntwo\n", "executable": True}]}, {"files": []},
          {"files": [*TAC["files"], {"path": "tac", "content": "#!/bin/sh\nid\n", "executable": True}]}, {"timeout_seconds": 31},
          {"memory_mb": 257}, {"pids": 65}, {"artifacts": ["**/*.key"]}, {"tier": "Assisted"})
NEIGHBOURS = "cat /proc/[0-9]*/comm"
# Stays when its program has ended, and writes on in each way there is.
STAYS = r"""
import mmap, os, signal, sys, time
for each in range(1, 32):
    if each not in (signal.SIGKILL, signal.SIGSTOP): signal.signal(each, signal.SIG_IGN)
notes = os.open("/workspace/notes", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
os.ftruncate(notes, 4096)
shared = mmap.mmap(notes, 4096)
def beats(way):
    number = 0
    while True:
        number += 1
        if way == 0: os.write(notes, b"descriptor\n")
        elif way == 1: shared[:8] = number.to_bytes(8, "little")
        else:
            with open("/workspace/notes", "a") as out: out.write("name\n")
        time.sleep(0.005)
for way in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        if {loud} == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for each in range(3): os.dup2(null, each)
        beats(way)
print("begun", flush=True)
if {loud}: beats(0)
"""
WRITE = """
try:
    open("/workspace/notes", "a").close()
    print("ok")
except OSError as error:
    print(type(error).__name__)
"""
SPIN = "while :; do :; done"
SPINS = "for each in 1 2 3 4; do (setsid bash -c 'while :; do :; done' &) ; done; " + SPIN


class Waiting(RulesTest):
    """Runs and programs refused by a level, and commands of the tenant `mixed`, for which policy wants approvals."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "policy.yaml").write_text(POLICY)
        cls.CONFIG = f"policy: {folder}/policy.yaml\nescalation:\n  pending_per_agent: 3\n"
        super().setUpClass()

    def blocked(self, key=None, path="/v1/executions", **request):
        held = self.ask("POST", path, request, key or self.key()).json()
        self.escalation_of(held)
        return held

    def withdraw(self, *held):
        for each in held:
            self.ask("DELETE", f"/v1/executions/{each['id']}", status=200)

    def bounded(self, path, flood):
        """Three of an agent's flood wait; another agent is approved and runs meanwhile."""
        other = next(NAMES)
        self.give("restricted", agent=other)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            def neighbour():
                held = self.blocked(self.key(agent=other), command="tac /etc/hostname")
                self.vote(self.escalation_of(held))
                ran = self.ask("POST", "/v1/executions?wait=60", {"command": "git --version"}, self.key(agent=other), 200).json()
                return self.server.wait_end(held["id"])["stdout"], ran["status"]

            beside = pool.submit(neighbour)
            key = self.key()
            # Equal requests share the escalation of a waiting request, so the first goes ahead.
            answers = [self.ask("POST", path, {"command": flood[0]}, key).json()]
            answers += at_once(lambda each: self.ask("POST", path, {"command": each}, key).json(), flood[1:])
            self.assertEqual(beside.result(), ("cloister\n", "completed"))
        held = [each for each in answers if each["status"] == "blocked"]
        self.assertLessEqual(len(held), 3, [each["status"] for each in answers])
        # A recent request may count twice for a moment, so fewer are accepted at once.
        more = (flood[0] if len(set(flood)) == 1 else f"touch more-{number}" for number in range(4))
        while len(held) < 3:
            held.append(self.ask("POST", path, {"command": next(more)}, key).json())
            self.assertEqual(held[-1]["status"], "blocked", held[-1])
        answers.append(self.ask("POST", path, {"command": next(more)}, key).json())
        self.assertEqual(answers[-1]["status"], "denied", answers[-1])
        for each in answers:
            if each["status"] != "blocked":
                self.assertEqual((each["status"], each["error"]["type"]), ("denied", "PERMISSION_DENIED"), each)
        return held

    def test_s17_floods(self):
        self.give("training", limits={"memory_mb": 2048})  # a level that refusals do not lower
        session = self.open(self.key())
        for path in ("/v1/executions", f"{session.path}/exec"):
            held = self.bounded(path, [f"touch {number}" for number in range(MANY)])
            self.assertEqual(len({self.escalation_of(each) for each in held}), 3)
            self.withdraw(*held)
            held = self.bounded(path, ["tac /etc/hostname"] * MANY)
            self.assertEqual(len({self.escalation_of(each) for each in held}), 1)
            if path == "/v1/executions":
                self.vote(self.escalation_of(held[0]))
                done = [self.server.wait_end(each["id"]) for each in held]
                self.assertEqual([each["status"] for each in done], ["completed"] * 3, done)
            else:
                self.withdraw(*held)

    def test_s17_sessions(self):
        key = self.key()
        asked = at_once(lambda n: self.ask("POST", "/v1/sessions", {"language": "bash", "tier": "HumanApprove", "cwd": f"/{n}"}, key),
                        range(MANY))
        held = [each.json() for each in asked if each.status == 202]
        self.assertLessEqual(len(held), 3, [each.status for each in asked])
        for number in range(len(held), 4):  # as in bounded()
            body = {"language": "bash", "tier": "HumanApprove", "cwd": f"/more-{number}"}
            asked.append(self.ask("POST", "/v1/sessions", body, key))
            if asked[-1].status == 202: held.append(asked[-1].json())
        self.assertEqual(len(held), 3, [each.status for each in asked])
        for each in asked:
            self.assertIn(each.status, (202, 403, 429), each.body[:500])
        one = held[0]
        path = f"/v1/sessions/{one['id']}"
        for who in (self.key(tenant="rival"), self.key("approver", "rival")):
            for method, what in (("GET", path), ("DELETE", path), ("GET", f"/v1/escalations/{self.escalation_of(one)}")):
                self.assertIn(self.ask(method, what, key=who).status, (403, 404), (method, what))
        for who, status in ((key, 409), (self.key(agent="another"), 404)):
            self.ask("POST", path + "/exec", {"command": "true"}, who, status)
            self.assertIn(self.ask("PUT", path + "/files/a", b"x", who).status, (404, 409))
            self.vote(self.escalation_of(one), key=who, status=403)
        self.assertEqual(self.ask("GET", path, key=key, status=200).json()["status"], "blocked")
        for each in held:
            self.ask("DELETE", f"/v1/sessions/{each['id']}", key=key, status=200)

    def test_s18_nothing_else_runs_on_an_approval(self):
        key = self.key(tenant="mixed")
        asked = self.ask("POST", "/v1/escalations", {"operation": "run", "request": TAC, "reason": "why"}, key, 201).json()["id"]
        first = self.ask("POST", "/v1/executions?wait=60", {**TAC, "approval": asked}, key, 200).json()
        self.assertEqual((first["status"], first["error"]["details"]["reason"]), ("denied", "approval_pending"), first)
        self.vote(asked, key=self.key("approver", "mixed"))
        for other in OTHERS:
            refused = self.ask("POST", "/v1/executions?wait=60", {**TAC, **other, "approval": asked}, key, 200).json()
            self.assertEqual((refused["status"], refused["error"]["details"].get("reason")), ("denied", "approval_mismatch"), other)
        session = self.open(key)
        elsewhere = session.call("POST", "/exec?wait=60", {**TAC, "approval": asked}).json()
        self.assertEqual((elsewhere["status"], elsewhere["error"]["details"]["reason"]), ("denied", "approval_mismatch"), elsewhere)
        both = at_once(lambda _: self.ask("POST", "/v1/executions?wait=60", {**TAC, "approval": asked}, key), range(8))
        ran = [each.json() for each in both if each.status == 200 and each.json()["status"] == "completed"]
        self.assertEqual([each["stdout"] for each in ran], ["two\none\n"])
        for each in both:
            if each.status == 200 and each.json()["status"] != "completed":
                self.assertEqual((each.json()["status"], each.json()["error"]["details"]["reason"]), ("denied", "approval_used"))
            elif each.status != 200:
                self.assertEqual((each.status, each.json()["error"]["details"]["field"]), (409, "approval_used"), each.body)

    def test_s18_what_changed_meanwhile(self):
        """The same key gets the same answer; a changed rule, level or credential takes effect."""
        self.give("restricted")
        key = self.key()
        once = {"Idempotency-Key": self.agent}
        held = self.ask("POST", "/v1/executions", TAC, key, headers=once).json()
        other = self.ask("POST", "/v1/executions", {**TAC, "env": {"TOKEN": "hunter3"}}, key, 409, headers=once)
        self.assertNotIn(b"hunter2", other.body)
        self.assertEqual(self.ask("POST", "/v1/executions", TAC, key, headers=once).json()["id"], held["id"])
        lost = self.ask("POST", "/v1/keys", {"tenant": "default", "name": "lost", "roles": ["agent"], "agent": self.agent}, status=201)
        theirs = self.blocked(lost.json()["secret"], command="tac /etc/group")
        self.ask("DELETE", f"/v1/keys/{lost.json()['id']}", status=204)
        self.update(add={"forbidden_commands": ["tac *"]})
        for each in (held, theirs):
            self.vote(self.escalation_of(each), status=409 if each is theirs else 200)
            done = self.server.wait_end(each["id"])
            self.assertEqual((done["status"], done["started_at"], done["stdout"]), ("denied", None, ""), done)

    def test_s18_it_is_alone_in_its_session(self):
        self.give("restricted", allowed_commands=["python3 *"])
        key = self.key()
        session = self.open(key, language="python")
        session.exec(STAYS.replace("{loud}", "0").replace("/workspace/", "/tmp/"))  # the workspace stays as at the request
        self.assertEqual(len(session.programs()), 3)
        held = self.blocked(key, f"{session.path}/exec", command="sleep 600 & " + NEIGHBOURS)
        self.vote(self.escalation_of(held))
        done = self.server.wait_end(held["id"])
        self.assertEqual(done["status"], "completed", done)
        self.assertLessEqual(set(done["stdout"].split()), {"cloister-runner", "bash", "sh", "cat", "sleep"}, "nobody else")
        self.assertEqual(self.answers(session, "print(1)", kernel="none")["stdout"], "1\n")
        self.assertEqual(session.programs(), [], "neither what was there before nor what it left")
        again = session.post(command="sleep 600 & " + NEIGHBOURS).json()
        self.escalation_of(again)

    def test_s18_nobody_comes_in_beside_it(self):
        self.give("restricted", allowed_commands=["python3 *"])
        key = self.key()
        session = self.open(key)
        held = self.blocked(key, f"{session.path}/exec", command="sleep 600")
        self.vote(self.escalation_of(held))
        self.server.wait_status(held["id"], "running")
        git = {"command": "git --version"}
        call = {"tool_id": "shell.execute", "arguments": git, "session_id": session.id}
        for method, path, body in (
                ("POST", f"{session.path}/exec?wait=60", git), ("POST", f"{session.path}/exec?wait=60", {**git, "sandbox": "fresh"}),
                ("POST", f"{session.path}/exec?wait=60", {"language": "python", "code": "1"}), ("POST", "/v1/tool-calls", call),
                ("POST", "/v1/tool-calls", {**call, "sandbox": "session"}), ("POST", f"{session.path}/snapshots", {}),
                ("GET", f"{session.path}/files?path=&depth=1", None), ("PUT", f"{session.path}/files/x", b"x"),
                ("GET", f"{session.path}/ports/8000/", None)):
            answer = self.ask(method, path, body, key, 503)
            self.assertIn("retry-after", answer.headers, (method, path))
        self.ask("DELETE", f"/v1/executions/{held['id']}", key=key)
        self.server.wait_end(held["id"])

    def test_s19_others(self):
        self.give("restricted")
        key = self.key(user="dev")
        held = self.blocked(key, **TAC)
        escalation = self.escalation_of(held)
        for who in (key, self.key(agent="another"), self.key("viewer"), self.key("operator"), self.key("tenant-admin")):
            for action in ("approve", "deny"):
                self.vote(escalation, action, who, 403)
        self.vote(escalation, key=self.key("approver", user="dev"), status=403)
        rival = [self.key(role, "rival") for role in ("agent", "viewer", "approver", "tenant-admin", "operator")]
        unknown = "ESC-2026-999"
        for who in rival:
            for method, path, body in (("GET", "/v1/escalations/{}", None), ("POST", "/v1/escalations/{}:approve", {}),
                                       ("POST", "/v1/escalations/{}:deny", {"reason": "why"})):
                real, none = (self.ask(method, path.format(each), body, who) for each in (escalation, unknown))
                self.assertIn(real.status, (403, 404), path)
                self.assertEqual((real.status, real.json()["detail"].replace(escalation, unknown)),
                                 (none.status, none.json()["detail"]))
            self.assertNotIn(escalation.encode(), self.ask("GET", "/v1/escalations?limit=100", key=who).body)
            self.assertIn(self.ask("DELETE", f"/v1/executions/{held['id']}", key=who).status, (403, 404))
        self.assertEqual(self.ask("GET", f"/v1/escalations/{escalation}", status=200).json()["approvals"], 0)
        self.withdraw(held)
        key, boss = (self.key(role, "mixed") for role in ("agent", "approver"))
        asked = self.ask("POST", "/v1/escalations", {"operation": "run", "request": TAC, "reason": "why"}, key, 201).json()["id"]
        self.vote(asked, key=boss)
        for who in (self.key(tenant="mixed", agent="another"), self.key(tenant="acme"), self.key(tenant="mixed", user="else")):
            used = self.ask("POST", "/v1/executions?wait=60", {**TAC, "approval": asked}, who, 200).json()
            self.assertEqual((used["status"], used["error"]["details"]["reason"]), ("denied", "approval_mismatch"), used)
        mine = self.ask("POST", "/v1/executions?wait=60", {**TAC, "approval": asked}, key, 200).json()
        self.assertEqual((mine["status"], mine["stdout"]), ("completed", "two\none\n"), "it was not used up")


class Revoked(RulesTest):
    """A program that writes on after its permission has ended."""

    def setUp(self):
        super().setUp()
        self.give("isolated", allowed_commands=["python3 *"])
        self.by = self.key()
        self.permit(self.by, operation="command", command="python3 main.py")
        self.permission = self.permit(self.by, operation="file_write", path="/workspace/notes")

    def notes(self, session):
        return session.call("GET", "/files/notes", status=200).body

    def is_over(self, session, *running):
        """Within two seconds the programs are gone; the session goes on with the file, and no program writes to the
        file."""
        self.vote(self.permission, "deny")
        for each in running:
            def ended(each=each):
                now = session.get(each)
                return now if harness.finished(now) else None

            done = harness.wait_for("what was revoked to end", ended, 2)
            self.assertEqual((done["status"], done["error"]["type"], done["error"]["details"].get("reason")),
                             ("failed", "PERMISSION_DENIED", "revoked"), done)
        harness.wait_for("the rules in force", lambda: self.audit(session.id, "session.rules_applied"), 60)
        self.assertEqual(self.answers(session, WRITE, kernel="none")["stdout"], "PermissionError\n")
        was = self.notes(session)
        self.assertIn(b"name\n", was)
        self.assertEqual(session.programs(), [])
        session.exec("import time; time.sleep(0.3)")  # sixty beats
        self.assertEqual(self.notes(session), was)
        fresh = session.exec(WRITE, sandbox="fresh")
        self.assertEqual(fresh["stdout"], "PermissionError\n", fresh)

    def begun(self, session, **request):
        running = session.start(STAYS.replace("{loud}", "1"), timeout_seconds=600, **request)
        session.wait_output(running, "begun")
        harness.wait_for("each way to write", lambda: b"descriptor" in self.notes(session) and b"name" in self.notes(session)
                         and self.notes(session)[:8] != bytes(8))
        return running

    def test_s20_programs_and_what_they_left(self):
        session = self.open(self.by, language="python")
        session.exec(STAYS.replace("{loud}", "0"))
        self.is_over(session, self.begun(session))

    def test_s20_a_fresh_sandbox(self):
        session = self.open(self.by, language="python")
        self.is_over(session, self.begun(session, sandbox="fresh"))

    def test_s20_programs_that_start_meanwhile(self):
        """None of many restarted programs, in both kinds of sandbox, writes on, and all end up without the
        permission."""
        session = self.open(self.by, language="python")
        begun, code = [], "import time\nout = open('/workspace/notes', 'a')\nwhile True: out.write('x'); out.flush(); time.sleep(0.01)"

        def again_and_again(number):
            sandbox = "fresh" if number % 2 else "session"
            while True:
                done = self.answers(session, code, 60, kernel="none", sandbox=sandbox, timeout_seconds=60)
                begun.append(done["id"])
                if done["status"] == "completed":
                    return done["stderr"]
                self.assertEqual((done["status"], done["error"]["details"].get("reason")), ("failed", "revoked"), done)

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            each = [pool.submit(again_and_again, number) for number in range(6)]
            harness.wait_for("them to write", lambda: session.call("GET", "/files/notes").status == 200 and len(self.notes(session)) > 50)
            self.vote(self.permission, "deny")
            for said in each:
                self.assertIn("PermissionError", said.result())
        self.assertGreater(len(begun), 6, "each wrote before")
        was = self.notes(session)
        self.assertEqual(session.programs(), [])
        self.assertEqual(self.notes(session), was)

    def test_s20_a_run(self):
        run = self.ask("POST", "/v1/executions", {"language": "python", "code": STAYS.replace("{loud}", "1"),
                                                  "timeout_seconds": 600}, self.by, 201).json()["id"]
        harness.wait_for("it to begin", lambda: "begun" in self.server.get(run)["stdout"])
        self.vote(self.permission, "deny")
        done = harness.wait_for("what was revoked to end",
                                lambda: (now := self.server.get(run)) if harness.finished(self.server.get(run)) else None, 2)
        self.assertEqual((done["status"], done["error"]["details"].get("reason")), ("failed", "revoked"), done)


class Share(RulesTest):
    def used(self, executions):
        return sum(self.server.get(each)["resource_usage"]["cpu_ms"] for each in executions)

    def test_s21_many_loops_have_one_share(self):
        """In runs, sessions and fresh sandboxes, and by daemons that left their program."""
        if AS_USER:
            self.skipTest("an ordinary user's sandboxes have no control groups: nothing holds processors")
        self.give("standard", limits={"cpu_percent": 25})
        session = self.open(self.key())
        body = {"language": "bash", "code": SPINS, "memory_mb": 64, "timeout_seconds": 300}
        runs = [self.ask("POST", "/v1/executions", body, self.key(), 201).json()["id"] for _ in range(3)]
        runs += [session.start(SPINS, timeout_seconds=300), session.start(SPINS, timeout_seconds=300, sandbox="fresh")]
        for each in runs:
            self.server.wait_status(each, "running")

        def window():
            began, before = time.monotonic(), self.used(runs)
            beside = self.ask("POST", "/v1/executions?wait=60", {"language": "bash", "code": "for i in {1..100000}; do :; done"},
                              self.key(agent=self.agent + "-other"), 200).json()
            self.assertEqual(beside["status"], "completed", "another agent's run goes on")
            time.sleep(max(0, began + 4 - time.monotonic()))  # the time of the measurement
            percent = (self.used(runs) - before) / 10 / (time.monotonic() - began)
            self.assertLessEqual(percent, 30)
            return percent >= 20

        harness.wait_for("their share, on a busy machine", window, 60)
        shown = self.ask("GET", f"/v1/agents/{self.agent}/sandbox/usage", status=200).json()["cpu_percent"]
        self.assertTrue(1 <= shown["used"] <= 32, shown)
        for each in runs:
            self.ask("DELETE", f"/v1/executions/{each}")
            self.server.wait_end(each)

    def test_s21_new_sandboxes_are_no_new_share(self):
        """Short loops, each in a sandbox of its own, restarted at once."""
        if AS_USER:
            self.skipTest("an ordinary user's sandboxes have no control groups: nothing holds processors")
        self.give("standard", limits={"cpu_percent": 25})
        key, began = self.key(), time.monotonic()
        body = {"language": "bash", "code": SPIN, "timeout_seconds": 0.1, "memory_mb": 64}

        def loops(_):
            used = 0
            while time.monotonic() < began + 4:  # the time of the measurement
                done = self.ask("POST", "/v1/executions?wait=60", body, key, 200).json()
                self.assertEqual(done["status"], "timed_out", done)
                used += done["resource_usage"]["cpu_ms"]
            return used

        self.assertLessEqual(sum(at_once(loops, range(6))) / 10 / (time.monotonic() - began), 30)


if __name__ == "__main__":
    unittest.main()
