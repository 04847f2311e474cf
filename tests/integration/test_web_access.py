# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: every screen as every role, in light and dark, without a serious fault of accessibility and
without anything of another tenant."""

import pathlib
import tempfile
import unittest

import web_world
from web_case import WebCase


class Access(WebCase):
    file = "screens.mjs"

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="web-policy.")))
        folder.chmod(0o755)
        cls.config = web_world.policy(folder)
        super().setUpClass()

    def test_every_screen_as_every_role(self):
        with web_world.World(self.server, "acme", "acme-only") as acme, web_world.World(self.server, "other", "other-only"):
            for role in web_world.ROLES:
                with self.subTest(role):
                    key = self.server.key if role == "admin" else acme.key(role, user="vi", agent="coder" if role == "agent" else "")
                    marker = {} if role == "admin" else {"marker": "other-only"}
                    # The approval was asked for by another agent, and so it is nothing to this one.
                    screens = [path for name, path in acme.screens.items() if (role, name) != ("agent", "approval")]
                    story = self.story("accessible", person=key, screens=screens, seconds=300, **marker)
                    self.assertEqual(story["found"], [])
                    self.assertEqual(story["failed"], [], "screens that did not load")


if __name__ == "__main__":
    unittest.main()
