# SPDX-License-Identifier: Apache-2.0
"""Agents with a sandbox, and the attempts of their programs."""

import itertools

import harness
from api_case import ApiTest

NAMES = (f"agent-{number}" for number in itertools.count())

# A program that prints `ok` or the refusal for each attempt.
TRIES = """
import ctypes, os, subprocess, sys
def tries(name, what):
    try:
        print(name, what() or "ok")
    except Exception as error:
        print(name, type(error).__name__)
def run(*argv):
    return lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) and None
def read(path):
    return lambda: open(path, "rb").read(1) and None
def write(path):
    return lambda: open(path, "w").close()
def link(target, name):
    os.symlink(target, name)
    return run(name, "--version")
def own():
    data = open("/usr/bin/env" if os.path.exists("/usr/bin/env") else sys.executable, "rb").read()
    with open("/tmp/own", "wb") as out:
        out.write(data)
    os.chmod("/tmp/own", 0o755)
    subprocess.run(["/tmp/own", "--version"], check=True, stdout=subprocess.DEVNULL)
"""


class AgentCase(ApiTest):
    def setUp(self):
        self.agent = next(NAMES)
        self.path = f"/v1/agents/{self.agent}/sandbox"

    def give(self, level, agent=None, status=201, **rules):
        path = f"/v1/agents/{agent or self.agent}/sandbox"
        return self.call("POST", path, {"level": level, **rules}, status=status).json()

    def secret(self, tenant="default", role="agent", agent=None):
        return self.new_key(tenant, roles=[role], agent=agent or self.agent)["secret"]

    def run_as(self, key, **request):
        answer = self.call("POST", "/v1/executions?wait=60", request, key=key)
        self.assertIn(answer.status, (200, 202), answer.body[:1000])
        if answer.status == 200:
            return answer.json()
        if answer.json()["status"] == "blocked":
            return answer.json()
        path = "/v1/executions/" + answer.json()["id"]  # an emulated machine may not have begun yet

        def ended():
            now = self.call("GET", path, key=key, status=200).json()
            return now["finished_at"] and now

        return harness.wait_for("the end of the run", ended, 120, every=0.2)

    def denied(self, execution):
        """The reason of a denial. A request that a person may allow waits: the case withdraws the request."""
        error = execution["error"]
        if execution["status"] == "blocked":
            self.assertEqual((error["type"], error["details"]["escalation_available"]), ("APPROVAL_REQUIRED", True))
            self.call("DELETE", f"/v1/executions/{execution['id']}", status=200)
        else:
            self.assertEqual((execution["status"], error["type"]), ("denied", "PERMISSION_DENIED"), execution)
        return error["details"]

    def forgive(self, level):
        """Each refusal counts; this restores the level for the next."""
        for each in ("training", level):
            self.call("POST", self.path + ":update", {"level": each}, status=200)

    def violations(self, **query):
        return self.call("GET", f"{self.path}/violations?{harness.query(**query)}", status=200).json()["violations"]

    def approve(self, key, operation, path):
        """Approves the escalation; returns its id and the approver's key, which can revoke the approval."""
        return self.approve_that(key, operation=operation, path=path)

    def approve_python(self, key):
        """A run's code is in a file, which a level may count as the project's."""
        return self.approve_that(key, operation="command", command="python3 main.py")

    def approve_that(self, key, **what):
        asked = self.call("POST", "/v1/escalations", {**what, "reason": "why"}, key=key, status=201).json()["id"]
        approver = self.new_key("default", roles=["approver"])["secret"]
        self.call("POST", f"/v1/escalations/{asked}:approve", {"reason": "looked at it"}, key=approver, status=200)
        return asked, approver

    def levels_are_held(self, *levels, **request):
        """The writable places of programs at these levels, or at all, in the requested runtime."""
        asks = (("workspace", "write('/workspace/x')"), ("change", "write('/workspace/main.py')"),
                ("remove", "lambda: os.remove('/workspace/main.py')"), ("tmp", "write('/tmp/x')"),
                ("shm", "write('/dev/shm/x')"))
        everywhere = {name for name, _ in asks}
        held = {"unrestricted": everywhere, "standard": everywhere, "restricted": everywhere, "training": {"tmp", "shm"},
                "isolated": set()}
        for level in levels or held:
            writes = held[level]
            with self.subTest(level=level):
                self.agent = next(NAMES)
                self.path = f"/v1/agents/{self.agent}/sandbox"
                self.give(level, allowed_commands=["python3 *"])
                key = self.secret()
                if level == "isolated":
                    self.approve_python(key)
                done = self.tries(key, *asks, **request)
                self.assertEqual({name for name, what in done.items() if what == "ok"}, writes, done)

    def tries(self, key, *lines, **request):
        code = TRIES + "\n".join(f"tries({name!r}, {what})" for name, what in lines)
        done = self.run_as(key, language="python", code=code, **request)
        self.assertEqual(done["status"], "completed", done)
        return dict(line.split(" ") for line in done["stdout"].splitlines())
