# SPDX-License-Identifier: Apache-2.0
"""Stories of tests/compat/e2b.mjs: the unmodified clients of E2B against the service."""

import json
import subprocess
import unittest

import harness
import mcp_npm
import npm_packages
from opensandbox_case import Story

STORY_SECONDS = 150


class E2bCase(unittest.TestCase):
    config = ""
    client = "e2b"
    tenants = ("red", "blue")

    @classmethod
    def setUpClass(cls):
        cls.node = mcp_npm.need()
        cls.packages = npm_packages.Packages("compat").need()
        cls.server = cls.enterClassContext(harness.Server(config=cls.config))
        cls.keys = {tenant: cls.key(tenant) for tenant in cls.tenants}

    @classmethod
    def key(cls, tenant, *roles, **who):
        made = cls.server.request("POST", "/v1/keys", {
            "tenant": tenant, "name": "test", "format": "e2b", "roles": roles or ["agent"], **who})
        assert made.status == 201, made.text
        return made.json()["secret"]

    def story(self, name, tenant="red", key=None, client=None, url=None, **options):
        config = {"story": name, "url": url or f"{self.server.url}/e2b", "key": key or self.keys[tenant],
                  "client": client or self.client, **options}
        done = subprocess.run(
            [str(self.node.node), str(self.packages.script("e2b.mjs")), json.dumps(config)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STORY_SECONDS, cwd=self.packages.root,
            env=self.node.environment("/nonexistent"))
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-4000:])
        return Story([json.loads(line) for line in done.stdout.splitlines()])

    def call(self, method, path, body=None, tenant="red", key=None, headers=None):
        shown = {"X-API-KEY": key or self.keys[tenant], **(headers or {})}
        return self.server.request(method, f"/e2b{path}", body, shown, key=False)

    def create(self, tenant="red", **more):
        made = self.call("POST", "/sandboxes", {"templateID": "base", "timeout": 60, **more}, tenant)
        self.assertEqual(made.status, 201, made.text)
        sandbox = made.json()
        self.addCleanup(self.call, "DELETE", f"/sandboxes/{sandbox['sandboxID']}", tenant=tenant)
        return sandbox

    def inside(self, method, path, sandbox, body=None, token=None, headers=None):
        """A request to a sandbox, with its token."""
        shown = {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": "49983",
                 "X-Access-Token": token or sandbox["envdAccessToken"], **(headers or {})}
        return self.server.request(method, f"/e2b{path}", body, shown, key=False)
