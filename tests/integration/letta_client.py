# SPDX-License-Identifier: Apache-2.0
"""Letta's official client, unmodified, as a process of a test: tests/letta/client.mjs.

    with letta_client.Letta(packages, url=f"{server.url}/letta", key=server.key) as client:
        tool = client.call("tools.create", {"source_code": "..."})
"""

import json
import subprocess
import tempfile


class LettaError(Exception):
    def __init__(self, told):
        super().__init__(f"HTTP {told['status']}: {told['error']}")
        self.status, self.body, self.message = told["status"], told["body"], told["error"]


class Letta:
    def __init__(self, packages, url, key, project=None):
        self.calls = 0
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            ["node", str(packages.script("client.mjs")), json.dumps({"url": url, "key": key, "project": project})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=packages.root,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)
        self._errors.close()

    def call(self, method, *args):
        return self._ask({"call": method, "args": args})

    def all(self, method, *args):
        return self._ask({"all": method, "args": args})

    def post(self, path, body):
        return self._ask({"post": path, "body": body})

    def _ask(self, command):
        self.calls += 1
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"the client ended: {self._errors.read()[-2000:]}")
        told = json.loads(line)
        if "error" in told:
            raise LettaError(told)
        return told["result"]
