# SPDX-License-Identifier: Apache-2.0
"""The command filter over HTTP and the command line: every answer held to spec/openapi.yaml."""

import json
import unittest

from api_case import ApiTest, start_server


def setUpModule():
    start_server()


class ExplainCommand(ApiTest):
    def explain(self, status=200, **body):
        return self.call("POST", "/v1/commands:explain", body, status=status).json()

    def test_outcomes(self):
        self.assertEqual(self.explain(command="git status | head")["outcome"], "allow")
        verdict = self.explain(command="ls; sudo rm -rf /", level="standard")
        self.assertEqual((verdict["outcome"], verdict["rule"]), ("deny", "sudo *"))
        risk = verdict["risk_factors"][0]
        self.assertEqual((risk["words"], risk["begin"], risk["end"]), ("sudo rm -rf /", 4, 17))
        self.assertEqual(self.explain(command="$x")["outcome"], "escalate")
        self.assertEqual(self.explain(argv=["rm", "-rf", "/"])["outcome"], "deny")
        self.assertEqual(self.explain(argv=["echo", "; rm -rf /"])["outcome"], "allow")
        self.assertEqual(self.explain(command="git push", level="training")["outcome"], "deny")

    def test_bad_questions(self):
        for field, body in (("command", {}), ("command", {"command": "a", "argv": ["a"]}), ("argv", {"argv": []}),
                            ("level", {"command": "a", "level": "x"}), ("x", {"command": "a", "x": 1})):
            answer = self.call("POST", "/v1/commands:explain", body)
            self.assertProblem(answer, 422, field=field)

    def test_long_and_malformed_commands(self):
        self.assertEqual(self.explain(command="x" * 1_000_000)["outcome"], "escalate")
        self.assertEqual(self.explain(command="ls 'x")["outcome"], "escalate")
        self.assertEqual(self.explain(command="ls\u200b")["outcome"], "escalate")

    def test_needs_a_key(self):
        self.call("POST", "/v1/commands:explain", {"command": "a"}, key=False, status=401)

    def test_command_line(self):
        result = self.server.cli("policy", "explain-command", "--", "ls; sudo ls")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("deny:", result.stdout)
        self.assertIn("sudo *", result.stdout)
        self.assertIn("instead: run the command without sudo", result.stdout)
        result = self.server.cli("--json", "policy", "explain-command", "--level", "restricted", "--", "git", "status")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["outcome"], "allow")


if __name__ == "__main__":
    unittest.main()
