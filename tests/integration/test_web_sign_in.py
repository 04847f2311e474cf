# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: signing in by key and through a provider, and signing out."""

import unittest

from test_ui_oidc import Provider
from web_case import WebCase


class ByKey(WebCase):
    file = "sign_in.mjs"

    def test_the_browser_is_sandboxed(self):
        self.assertIn("You are adequately sandboxed", self.story("sandbox")["sandbox"])

    def test_sign_in_and_out(self):
        self.key(name="made", agent="coder")
        story = self.story("key")
        self.assertTrue(story["no key in the address"])
        self.assertRegex(story["wrong"], "unknown|wrong")
        self.assertTrue(story["deep"].endswith("/ui/audit?action=key.created"), story["deep"])
        self.assertEqual(story["filter"], "key.created")
        self.assertEqual([each for each in story["filtered"] if " created key_" not in each], [], "entries of other actions")
        self.assertEqual(story["cookies"], [{"name": "cloister_ui", "httpOnly": True, "sameSite": "Strict", "path": "/"}])
        self.assertEqual(story["script sees"], "")
        self.assertNotIn(self.server.key, story["stored"])
        self.assertEqual(story["after"], 401)
        self.assertTrue(story["open after a drag"])

    def test_a_revoked_key_is_signed_out(self):
        for screen, title in (("", "Home"), ("approvals", "Approvals"), ("policy", "Policy")):
            with self.subTest(title):
                secret, key = self.key(role="tenant-admin")
                story = self.story("revoked", person=secret, person_id=key, screen=screen, title=title)
                # The page asks more than once a second, and the first answer after the revocation is enough. Its time
                # is the machine's: one question may be under way, and one may have begun before this test looked.
                self.assertLessEqual(story["asked"], 2)
                self.assertIn("sign-in", story["place"])


class ByProvider(WebCase):
    file = "sign_in.mjs"

    @classmethod
    def setUpClass(cls):
        cls.provider = cls.enterClassContext(Provider())
        cls.config = cls.provider.settings()
        super().setUpClass()

    def setUp(self):
        self.provider.register(self.server)

    def test_sign_in(self):
        story = self.story("oidc")
        self.assertTrue(story["place"].endswith("/ui/executions"), story["place"])
        self.assertIn("acme", story["principal"])
        self.assertEqual((story["before"], story["after"]), (200, [False, 401, 200]), "the second sign-in ends the first")

    def test_a_refusal_is_told(self):
        self.provider.do("user", None)
        self.assertIn("The provider refused the sign-in.", self.story("denied")["text"])


if __name__ == "__main__":
    unittest.main()
