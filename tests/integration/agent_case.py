# SPDX-License-Identifier: Apache-2.0
"""Agents that are held to a sandbox, and what their programs try."""

import itertools

import harness
from api_case import ApiTest

NAMES = (f"agent-{number}" for number in itertools.count())

# A program that says of each thing it tries `ok`, or how it was refused.
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
        return self.call("POST", "/v1/executions?wait=60", request, key=key, status=200).json()

    def denied(self, execution):
        self.assertEqual(execution["status"], "denied", execution)
        self.assertEqual(execution["error"]["type"], "PERMISSION_DENIED")
        return execution["error"]["details"]

    def forgive(self, level):
        """Each refusal counts; the level stays what it is for the next."""
        for each in ("training", level):
            self.call("POST", self.path + ":update", {"level": each}, status=200)

    def violations(self, **query):
        return self.call("GET", f"{self.path}/violations?{harness.query(**query)}", status=200).json()["violations"]

    def tries(self, key, *lines, **request):
        code = TRIES + "\n".join(f"tries({name!r}, {what})" for name, what in lines)
        done = self.run_as(key, language="python", code=code, **request)
        self.assertEqual(done["status"], "completed", done)
        return dict(line.split(" ") for line in done["stdout"].splitlines())
