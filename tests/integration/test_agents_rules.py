# SPDX-License-Identifier: Apache-2.0
"""Rights taken from an agent end, also in existing sandboxes: tested by programs inside."""

import json
import unittest

import harness
from agent_case import AgentCase
from api_case import start_server
from session_case import Session

WRITES = """
import time
n = 0
while True:
    with open("/workspace/notes", "a") as out:
        out.write("x")
    n += 1
    if n == 1:
        print("begun", flush=True)
    time.sleep(0.01)
"""
WRITE = """
try:
    open("/workspace/notes", "a").close()
    print("ok")
except OSError as error:
    print(type(error).__name__)
"""
FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


def setUpModule():
    start_server()


class Rules(AgentCase):
    def audit(self, subject, action):
        entries = self.call("GET", f"/v1/audit?action={action}&limit=100&order=newest", status=200).json()["entries"]
        return [entry for entry in entries if entry["subject"] == subject]

    def session(self, key, **request):
        made = Session(self.server, key=key, language="python", **request)
        self.addCleanup(made.end)
        return made

    def stopped(self, execution):
        self.assertEqual((execution["status"], execution["error"]["type"], execution["error"]["details"].get("reason")),
                         ("failed", "PERMISSION_DENIED", "revoked"), execution)

    def settled(self, session):
        """Once the sandbox accepts programs again; until then the answer has the remedy."""
        def answered():
            answer = session.post(WRITE, "?wait=60")
            if answer.status == 503:
                self.assertIn("rules of its agent have changed", answer.json()["detail"])
                return None
            self.assertEqual(answer.status, 200, answer.body)
            return answer.json()

        return harness.wait_for("the session to go on under the rules in force", answered, 30)

    def test_a_permission_that_is_taken_back(self):
        self.give("isolated", allowed_commands=["python3 *"])
        key = self.secret()
        self.approve_python(key)
        escalation, approver = self.approve(key, "file_write", "/workspace/notes")
        session = self.session(key)
        writing = session.start(WRITES)
        session.wait_output(writing, "begun")
        self.assertEqual(session.exec(WRITE)["stdout"], "ok\n")
        self.call("POST", f"/v1/escalations/{escalation}:deny", {"reason": "done with it"}, key=approver, status=200)
        self.stopped(session.wait(writing))
        self.assertEqual(self.settled(session)["stdout"], "PermissionError\n")
        kept = session.call("GET", "/files/notes", status=200).body
        self.assertTrue(kept.startswith(b"x"), "its workspace came along")
        applied = self.audit(session.id, "session.rules_applied")
        self.assertEqual(len(applied), 1)

    def test_a_lower_level(self):
        self.give("standard", allowed_commands=["python3 *"])
        key = self.secret()
        session = self.session(key)
        self.assertEqual(session.exec(WRITE)["stdout"], "ok\n")
        cell = session.call("POST", "/exec?wait=60", {"code": "kept = 7\nprint(kept)"}, status=200).json()
        self.assertEqual(cell["stdout"], "7\n")
        self.call("POST", self.path + ":update", {"level": "training"}, status=200)
        harness.wait_for("the session to go on", lambda: self.audit(session.id, "session.rules_applied"), 30)
        self.assertEqual(self.settled(session)["stdout"], "PermissionError\n")
        lost = session.call("POST", "/exec?wait=60", {"code": "print('kept' in globals())"}, status=200).json()
        self.assertEqual(lost["stdout"], "False\n", "an interpreter of the old sandbox goes on")

    def test_a_run(self):
        self.give("standard", allowed_commands=["python3 *"])
        key = self.secret()
        asked = {"language": "python", "code": FOREVER, "timeout_seconds": 600}
        run = self.call("POST", "/v1/executions", asked, key=key, status=201).json()["id"]
        harness.wait_for("it to run", lambda: "begun" in self.server.get(run)["stdout"], 30)
        other = self.call("POST", "/v1/executions", asked, status=201).json()["id"]
        self.call("POST", self.path + ":update", {"add": {"forbidden_paths": ["/etc/ssl/*", "/usr/share/doc/*"]}},
                  status=200)
        self.stopped(self.server.wait_end(run, 30))
        self.assertEqual([entry["details"]["ended"] for entry in self.audit(run, "execution.revoked")], [True])
        self.assertEqual(self.server.get(other)["status"], "running", "nobody's rules changed")
        self.call("DELETE", f"/v1/executions/{other}")
        self.server.wait_end(other)

    def test_asking_again_lengthens_no_approval(self):
        """At this level a rule approves what is safe, and the program is in no table."""
        self.give("restricted")
        key = self.secret()
        command = """perl -e '$| = 1; print "begun\\n"; sleep 600'"""
        escalation, approver = self.approve_that(key, operation="command", command=command)
        run = self.call("POST", "/v1/executions", {"command": command, "timeout_seconds": 600}, key=key, status=201).json()["id"]
        harness.wait_for("it to run", lambda: "begun" in self.server.get(run)["stdout"], 30)
        again = self.call("POST", "/v1/escalations", {"operation": "command", "command": command, "reason": "more time"},
                          key=key, status=201).json()
        self.assertEqual(again["status"], "pending", "a person gave the first, and decides on more")
        self.call("POST", f"/v1/escalations/{escalation}:deny", {"reason": "its time is over"}, key=approver, status=200)
        self.stopped(self.server.wait_end(run, 30))
        self.call("POST", f"/v1/escalations/{again['id']}:deny", {"reason": "no more"}, key=approver, status=200)

    def look(self):
        """Returns after a look at the rules that began after the call: another agent's session shows the look."""
        other = self.agent + "-other"
        self.give("standard", agent=other, allowed_commands=["python3 *"])
        marker = self.session(self.secret(agent=other))
        self.call("POST", f"/v1/agents/{other}/sandbox:update", {"level": "training"}, status=200)
        harness.wait_for("the rules to be looked at", lambda: self.audit(marker.id, "session.rules_applied"), 30)

    def test_what_is_given_ends_nothing(self):
        self.give("training", allowed_commands=["python3 *"])
        key = self.secret()
        session = self.session(key)
        running = session.start(FOREVER)
        session.wait_output(running, "begun")
        self.call("POST", self.path + ":update", {"level": "unrestricted"}, status=200)
        self.look()
        marker = self.session(key)
        self.assertEqual(marker.exec(WRITE)["stdout"], "ok\n")
        self.call("POST", self.path + ":update", {"level": "training"}, status=200)
        harness.wait_for("the rules to be looked at", lambda: self.audit(marker.id, "session.rules_applied"), 30)
        self.assertEqual(self.audit(session.id, "session.rules_applied"), [])
        now = session.get(running)
        self.assertEqual(now["status"], "running", now)


class Files(AgentCase):
    """The effect of an approval, by programs inside, by requests to a session's files, and by questions ahead."""

    PLACES = ("/workspace/d/x", "/workspace/d/e/x", "/workspace/other/x", "/tmp/x")

    def opened(self, key):
        code = "import os\nfor path in " + repr(self.PLACES) + """:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
        print(path)
    except OSError:
        pass
"""
        done = self.run_as(key, language="python", code=code)
        self.assertEqual(done["status"], "completed", done)
        by_programs = done["stdout"].split()
        asked = self.call("POST", self.path + ":validate", {"operations": [
            {"type": "file", "operation": operation, "path": path}
            for path in self.PLACES for operation in ("write", "create")]}, status=200).json()["results"]
        ahead = [each["outcome"] == "approved" for each in asked]
        self.assertEqual(ahead[::2], ahead[1::2], asked)
        self.assertEqual([path for path, may in zip(self.PLACES, ahead[::2]) if may], by_programs)
        return by_programs

    def test_a_directory_and_what_is_below_it(self):
        self.give("isolated", allowed_commands=["python3 *"])
        key = self.secret()
        self.approve_python(key)
        self.assertEqual(self.opened(key), [])
        escalation, approver = self.approve(key, "file_write", "d/")
        self.assertEqual(self.opened(key), ["/workspace/d/x", "/workspace/d/e/x"])
        shown = self.call("GET", f"/v1/escalations/{escalation}", key=approver, status=200).json()
        self.assertEqual(shown["subject"], "/workspace/d/*")
        self.assertIn("it opens the directory /workspace/d and all beneath it", shown["display"])
        session = Session(self.server, key=key, language="bash")
        self.addCleanup(session.end)
        for name, status in (("d/x", 200), ("other/x", 403)):
            session.call("PUT", f"/files/{name}", b"x", status=status)
        self.approve(key, "file_write", "/workspace")
        self.assertEqual(self.opened(key), list(self.PLACES[:3]))

    def test_what_would_open_nothing_is_refused(self):
        self.give("isolated")
        key = self.secret()
        for operation, path in (("file_write", "*.txt"), ("file_read", "/root/*.txt"), ("file_write", "/etc/hosts"),
                                ("file_delete", "/var/x")):
            answer = self.call("POST", "/v1/escalations", {"operation": operation, "path": path, "reason": "why"}, key=key)
            self.assertProblem(answer, 422, field="path")
            self.assertRegex(answer.json()["detail"], r"name (one file, or one directory with / at its end|the directory)")
        listed = self.call("GET", f"/v1/escalations?agent={self.agent}", key=key, status=200).json()["escalations"]
        self.assertEqual(listed, [])


class Limits(AgentCase):
    """Each limit of an agent, by its effect on programs; other agents meet another value."""

    def test_disk(self):
        write = "open('/workspace/x', 'wb').write(b'x' * (20 << 20))"
        for disk, met in ((10, True), (50, False)):
            self.give("standard", agent=f"{self.agent}-{disk}", allowed_commands=["python3 *"], limits={"disk_mb": disk})
            done = self.run_as(self.secret(agent=f"{self.agent}-{disk}"), language="python", code=write)
            self.assertEqual(done["exit_code"] != 0, met, done)
            if met:
                self.assertEqual(done["error"]["details"]["limit"], "disk_mb")

    def test_file(self):
        write = "open('/workspace/x', 'wb').write(b'x' * (3 << 20))"
        for size, met in ((2, True), (8, False)):
            self.give("standard", agent=f"{self.agent}-{size}", allowed_commands=["python3 *"], limits={"file_mb": size})
            done = self.run_as(self.secret(agent=f"{self.agent}-{size}"), language="python", code=write)
            self.assertEqual(done["exit_code"] != 0, met, done)
            if met:
                self.assertEqual(done["error"]["details"]["limit"], "file_size_mb")

    def test_at_once(self):
        self.give("standard", limits={"concurrent": 1})
        key = self.secret()
        with Session(self.server, key=key, language="bash"):
            details = self.denied(self.run_as(key, command="true"))
            self.assertEqual(details["exceeded_limits"][0]["limit"], "concurrent")
            self.call("POST", self.path + ":update", {"limits": {"concurrent": 2}}, status=200)
            self.assertEqual(self.run_as(key, command="true")["status"], "completed")

    def test_a_bound_of_requests_without_a_network_is_reported(self):
        made = self.give("standard", limits={"requests_per_minute": 5})
        self.assertEqual(made["effective"]["limits"]["requests_per_minute"], 5)
        self.assertEqual(made["effective"]["warnings"], [])
        closed = self.call("POST", self.path + ":update", {"level": "isolated"}, status=200).json()
        self.assertIn("requests_per_minute has no effect", closed["effective"]["warnings"][0])

    def test_on_the_command_line(self):
        self.give("standard")
        said = self.server.cli("sandbox", "limit", "--agent", self.agent, "--disk", "1GB", "--file-size", "100MB", "--at-once",
                               "4", "--requests", "60")
        self.assertIn("disk 1.0GB, a file 100MB, at once 4, requests 60 a minute", said.stdout, said.stderr)

    def test_a_plan_is_judged_as_a_whole(self):
        self.give("standard", limits={"memory_mb": 1000, "time_seconds": 600, "disk_mb": 100})
        step = {"type": "command", "command": "ls", "resources": {"memory_mb": 400, "time_seconds": 60, "cpu_percent": 50}}
        for count, fine in ((2, True), (3, False)):
            plan = json.dumps([step] * count)
            said = self.server.cli("sandbox", "check", "--agent", self.agent, "-", input=plan)
            self.assertEqual(said.returncode, 0 if fine else 1, said.stdout + said.stderr)
            self.assertEqual("❌ all of it together: memory_mb 1200, and the agent may have 1000\n" in said.stdout, not fine)
        refused = self.server.cli("sandbox", "check", "--agent", self.agent, "-",
                                  input=json.dumps([{"type": "command", "command": "sudo ls"}]))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("❌ command_execution sudo ls: ", refused.stdout)


class Filter(AgentCase):
    """The agent's own command filter, by the fate of a command allowed by its level."""

    def outcomes(self, key, session, command):
        """The outcomes of a run, of a program in a session, and of a plan: they agree."""
        def held(execution):
            if execution["status"] == "blocked":
                self.denied(execution)
            return execution["status"] in ("denied", "blocked")

        run = self.run_as(key, command=command)
        program = self.call("POST", f"{session.path}/exec?wait=60", {"command": command}, key=key).json()
        plan = self.server.cli("sandbox", "check", "--agent", self.agent, "-",
                               input=json.dumps([{"type": "command", "command": command}]))
        found = {held(run), held(program), plan.returncode != 0}
        self.assertEqual(len(found), 1, (command, run, program, plan.stdout))
        return found.pop()

    def refuses(self, command, other, set_it, undo):
        self.give("standard")
        key = self.secret()
        with Session(self.server, key=key, language="bash") as session:
            self.assertFalse(self.outcomes(key, session, command))
            said = self.server.cli("sandbox", "filter", "--agent", self.agent, *set_it)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertTrue(self.outcomes(key, session, command))
            self.assertFalse(self.outcomes(key, session, other))
            self.forgive("standard")
            said = self.server.cli("sandbox", "filter", "--agent", self.agent, *undo)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertFalse(self.outcomes(key, session, command))

    def test_a_dangerous_pattern(self):
        set_it = ("--dangerous", "uname -a")
        self.refuses("uname -a", "uname -s", set_it, (*set_it, "--undo"))

    def test_parameters(self):
        self.refuses("sort -r /etc/hostname", "sort /etc/hostname", ("--program", "sort", "--forbid-flag=-r"),
                     ("--program", "sort", "--undo"))

    def test_whitelist_mode(self):
        self.give("standard", allowed_commands=["uname *"], escalation={"auto_approve_safe": False})
        key = self.secret()
        said = self.server.cli("sandbox", "filter", "--agent", self.agent, "--whitelist", "on")
        self.assertIn("only its own commands", said.stdout, said.stderr)
        with Session(self.server, key=key, language="bash") as session:
            self.assertTrue(self.outcomes(key, session, "id"))
            self.assertFalse(self.outcomes(key, session, "uname -s"))
        self.server.cli("sandbox", "filter", "--agent", self.agent, "--whitelist", "off")
        self.forgive("standard")
        with Session(self.server, key=key, language="bash") as session:
            self.assertFalse(self.outcomes(key, session, "id"))

    def test_bad_values_are_named(self):
        for field, body in (("parameter_restrictions.command", {"parameter_restrictions": [{"command": "/bin/x"}]}),
                            ("parameter_restrictions", {"parameter_restrictions": [{"command": "git"}]}),
                            ("dangerous_patterns", {"dangerous_patterns": [""]}),
                            ("whitelist_mode", {"whitelist_mode": "yes"})):
            answer = self.call("POST", self.path, {"level": "standard", **body})
            self.assertIn(answer.status, (400, 422), answer.body)
            self.assertEqual(answer.json()["error"]["details"]["field"], field)
        self.give("standard", parameter_restrictions=[{"command": "git", "forbidden_flags": ["--force"]}])
        for body in ({"dangerous_patterns": ["x"]}, {"parameter_restrictions": ["sort"]}):
            self.call("POST", self.path + ":update", {"remove": body}, status=422)
        shown = self.server.cli("sandbox", "show", "--agent", self.agent)
        self.assertIn("git (not --force)", shown.stdout)


class LetItFinish(unittest.TestCase):
    def test_what_runs_comes_to_its_end(self):
        with harness.Server(config="agents:\n  end_revoked: false\n") as server:
            path = "/v1/agents/slow/sandbox"
            made = server.request("POST", path, {"level": "standard", "allowed_commands": ["python3 *"]})
            self.assertEqual(made.status, 201, made.body)
            key = server.request("POST", "/v1/keys", {"tenant": "default", "name": "slow", "roles": ["agent"],
                                                      "agent": "slow"}).json()["secret"]
            with Session(server, key=key, language="python") as session:
                running = session.start("print('begun', flush=True)\ninput()\n" + WRITE, keep_input=True)
                session.wait_output(running, "begun")
                self.assertEqual(server.request("POST", path + ":update", {"level": "training"}).status, 200)
                harness.wait_for("nothing more to be let in",
                                 lambda: session.post(WRITE, "?wait=60").status == 503, 30)
                self.assertEqual(session.get(running)["status"], "running")
                session.send(running, b"go on\n", eof=True)
                done = session.wait(running)
                self.assertEqual((done["status"], done["stdout"]), ("completed", "begun\nok\n"))
                after = harness.wait_for("the session to go on under the rules in force", lambda: (
                    answer := session.post(WRITE, "?wait=60")).status == 200 and answer, 30)
                self.assertEqual(after.json()["stdout"], "PermissionError\n")


if __name__ == "__main__":
    unittest.main()
