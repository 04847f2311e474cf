# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: every screen as a viewer, and with many rows."""

import pathlib
import tempfile
import unittest

import web_world
from web_case import WebCase

ROWS = 10_000
MAX_ROWS_IN_PAGE = 200


class Viewer(WebCase):
    file = "screens.mjs"

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="web-policy.")))
        folder.chmod(0o755)
        cls.config = web_world.policy(folder)
        super().setUpClass()

    def test_nothing_offered_is_refused_and_nothing_of_others_arrives(self):
        with web_world.World(self.server, "acme", "acme-only") as acme, web_world.World(self.server, "other", "other-only") as other:
            viewer = acme.key("viewer", user="vi")
            foreign = [path for name, path in other.screens.items() if name in ("execution", "session-files", "session-details", "artifact", "snapshot")]
            story = self.story("offered", person=viewer, screens=[*acme.screens.values(), *foreign], press=True, marker="other-only", seconds=150)
        self.assertGreater(len(story["opened"]), 25)
        self.assertEqual(story["forbidden"], [])
        self.assertEqual([path for path, title in story["opened"] if not title], [], "screens without a heading")


class Rows(WebCase):
    file = "screens.mjs"

    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.server = cls.enterClassContext(web_world.server_with_rows(ROWS, env={"CLOISTER_SHARE": str(cls.share)}))

    def test_ten_thousand_rows(self):
        story = self.story("rows", rows=ROWS)
        self.assertGreaterEqual(story["rows"], ROWS)
        self.assertLessEqual(story["nodes"], MAX_ROWS_IN_PAGE)
        self.assertEqual(story["active"], "3", "the second row, below the head")
        self.assertGreaterEqual(story["last"], ROWS)
        self.assertGreater(len(story["frames"]), 100)

    def test_a_run_is_run_again(self):
        first = self.server.submit("import os; print('said', os.environ['WHO'])", "python", env={"WHO": "the-same"}).json()
        longer = self.server.submit("import time; time.sleep(2.2)", "python").json()
        theirs, _ = self.key(role="agent", user="bob")
        other = self.server.submit("echo their output", "bash", key=theirs, env={"TOKEN": "theirs"}).json()
        story = self.story("again", execution=first["id"], said="said the-same", other=other["id"], secret="their output",
                           longer=longer["id"])
        self.assertEqual(self.server.wait_end(story["again"])["stdout"], "said the-same\n")
        self.assertEqual(story["offered"], 0, "only its requester knows the values of its environment")
        self.assertEqual(story["graphs"], 2, "the use over time of a run that has ended")


if __name__ == "__main__":
    unittest.main()
