# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: the policy."""

import unittest

from web_case import WebCase


class Policy(WebCase):
    file = "policy.mjs"

    def test_a_change_is_tried_applied_and_taken_back(self):
        story = self.story("apply", requester=self.key(agent="coder")[0])
        self.assertEqual((story["before"], story["after"], story["rolled back"]), ("completed", "denied", "completed"))
        self.assertIn("Of the last 1 recorded requests, 1 would be decided otherwise.", story["replay"])
        self.assertIn("no-shell", story["groups"])
        self.assertIn("shells are for people", story["groups"])
        self.assertIn("Added: no-shell", story["rules"])
        self.assertTrue(story["not yet"])

    def test_a_stale_change_is_refused(self):
        story = self.story("stale")
        self.assertEqual((story["other"], story["kept"]), (201, True))

    def test_a_wrong_document_cannot_be_applied(self):
        story = self.story("invalid")
        self.assertIn("effect", story["problems"])
        self.assertTrue(story["closed"])
        self.assertIn("# languages a/b ?", story["typed"])
        self.assertTrue(story["stayed"].endswith("/ui/policy"), story["stayed"])
        self.assertEqual(story["asked"], 2 * ["Leave without saving? Your changes on this page will be lost."])

    def test_the_policy_in_force_answers_unless_the_document_was_changed(self):
        story = self.story("asked", approver=self.key(role="approver", user="ann")[0])
        self.assertIn("Answered by the policy in force.", story["in force"])
        self.assertEqual(story["kept"], "echo kept-question")
        self.assertIn("Answered by the document in the editor, which is not in force.", story["of the editor"])
        self.assertIn("denied", story["of the editor"])
        self.assertEqual(story["old answers"], 0)

    def test_rules_of_an_agent_and_a_quota(self):
        self.assertLess(self.server.request("PUT", "/v1/quotas/tenants/quotaco", {"sessions": 7, "memory_mb": 9000}).status, 300)
        story = self.story("agents")
        self.assertEqual(story["made before"], 404)
        self.assertEqual(story["wrong"], [True, "-3"])
        self.assertTrue(story["at once"])
        self.assertEqual({name: value for name, value in story["quota"].items() if value is not None},
                         {"concurrent": 3, "sessions": 7, "memory_mb": 9000})


if __name__ == "__main__":
    unittest.main()
