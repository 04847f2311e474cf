# SPDX-License-Identifier: Apache-2.0
"""Keys of the shipped levels, each by its permissions or refusals (docs/EFFECTS.md, tests/mutate_settings.py)."""

import unittest

import harness


def command(text):
    return {"type": "command", "command": text}


def file(operation, path):
    return {"type": "file", "operation": operation, "path": path}


def network(url):
    return {"type": "network", "url": url}


def resources(**wanted):
    return {**command("git status"), "resources": wanted}


# By level: a permitted action, and a refused action.
LEVELS = {
    "training": ([command("git status"), command("cargo check"), file("read", "/etc/hosts"), file("write", "/tmp/x"),
                  resources(memory_mb=512, cpu_percent=25, time_seconds=600)],
                 [command("make"), file("read", "/home/a/.ssh/id"), network("https://example.org/"), resources(memory_mb=513),
                  resources(cpu_percent=26), resources(time_seconds=601)]),
    "isolated": ([command("sort a"), file("read", "/workspace/a")],
                 [command("sort -o a b"), file("write", "/workspace/a"), file("write", "/tmp/a")]),
    "restricted": ([command("cargo build"), {"type": "quality_gate", "gate": "tests"},
                    {"type": "workflow", "workflow": "release", "action": "run"}, file("write", "/workspace/main.rs")],
                   [{"type": "workflow", "workflow": "release", "action": "delete"}, file("write", "/workspace/app.toml")]),
    "standard": ([command("make"), network("https://example.org/")], [command("sudo ls"), command("doas ls"), command('eval "$X"')]),
    "unrestricted": ([command('eval "$X"'), network("https://example.org/")], []),
}


class Levels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server())
        for level in LEVELS:
            cls.call(f"/v1/agents/{level}/sandbox", {"level": level}, 201)

    @classmethod
    def call(cls, path, body, status=200, key=None):
        answer = cls.server.request("POST", path, body, key=key)
        assert answer.status == status, (path, answer.status, answer.body[:1000])
        return answer.json()

    def test_what_each_lets(self):
        for level, operations in LEVELS.items():
            for wanted, each in zip((True, False), operations):
                for operation in each:
                    with self.subTest(level, operation=operation):
                        said = self.call(f"/v1/agents/{level}/sandbox:validate", {"operation": operation})
                        self.assertEqual(said["approved"], wanted, said)

    def test_flags(self):
        """The shipped restrictions are of flags that write a file, which the rules of files refuse as well."""
        self.call("/v1/agents/flags/sandbox", {"level": "standard", "parameter_restrictions": [
            {"command": "ls", "forbidden_flags": ["-R"]}]}, 201)
        said = [self.call("/v1/agents/flags/sandbox:validate", {"operation": command(text)})["approved"]
                for text in ("ls -l", "ls -R", "ls -lR")]
        self.assertEqual(said, [True, False, False])

    def test_what_needs_nobody(self):
        """At `restricted` a rule approves safe operations; at `training` a person does."""
        for level, status in (("restricted", "approved"), ("training", "pending")):
            key = self.call("/v1/keys", {"tenant": "default", "name": "test", "roles": ["agent"], "agent": level}, 201)["secret"]
            body = {"operation": "file_write", "path": "/tmp/a", "reason": "why"}
            self.assertEqual(self.call("/v1/escalations", body, 201, key)["status"], status, level)


if __name__ == "__main__":
    unittest.main()
