# SPDX-License-Identifier: Apache-2.0
"""Stories of tests/compat/opensandbox.mjs: the unmodified client of OpenSandbox against the service."""

import json
import subprocess
import unittest

import harness
import mcp_npm
import npm_packages

STORY_SECONDS = 120


def policy(*entries):
    """A policy document that grants a restricted network with these entries, and nothing else outside."""
    rule = {"why": "for tests", "effect": "allow", "tier": "Auto", "images": ["*"]}
    return json.dumps({"version": 2, "rules": [
        {"name": "alone", "match": {"network_tiers": ["none"]}, **rule},
        {"name": "outside", "match": {"network_tiers": ["restricted"]}, "network": list(entries), **rule}]})


class Story:
    """The steps of a story: `story["create"]` is its value; `error("kill")` the error of a step that must fail."""

    def __init__(self, lines):
        self.steps = {line["step"]: line for line in lines}
        self.order = [line["step"] for line in lines]

    def __getitem__(self, name):
        step = self.steps[name]
        assert "error" not in step, (name, step["error"])
        return step["value"]

    def error(self, name):
        step = self.steps[name]
        assert "error" in step, f"step {name!r} did not fail: {step}"
        return step["error"]


class OpenSandboxCase(unittest.TestCase):
    config = ""
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
            "tenant": tenant, "name": "test", "roles": roles or ["agent"], **who})
        assert made.status == 201, made.text
        return made.json()["secret"]

    def story(self, name, tenant="red", key=None, **options):
        config = {"story": name, "domain": f"{self.server.url}/opensandbox", "key": key or self.keys[tenant], **options}
        done = subprocess.run(
            [str(self.node.node), str(self.packages.script("opensandbox.mjs")), json.dumps(config)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STORY_SECONDS, cwd=self.packages.root,
            env={**self.node.environment("/nonexistent"), "OPENSANDBOX_DISABLE_METRICS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-4000:])
        return Story([json.loads(line) for line in done.stdout.splitlines()])

    def call(self, method, path, body=None, tenant="red", key=None, headers=None):
        shown = {"OPEN-SANDBOX-API-KEY": key or self.keys[tenant], **(headers or {})}
        return self.server.request(method, f"/opensandbox{path}", body, shown, key=False)
