# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: text that waits while a sign-in has ended, and many tabs."""

import unittest

from session_case import Session
from web_case import WebCase


class Pages(WebCase):
    file = "pages.mjs"

    def test_text_waits_for_the_person_who_typed_it(self):
        ann, bob = (self.key(role="agent", user=user)[0] for user in ("ann", "bob"))
        with Session(self.server, key=ann, language="python") as session:
            story = self.story("drafts", user="ann", person=ann, other=bob, otherUser="bob", session=session.id)
        self.assertEqual(story["asked"], "beforeunload")
        self.assertEqual((story["cell"], story["file"], story["form"]), ("x = 41 + 1", "typed\n", ['print("kept")', "1"]))
        self.assertRegex(story["error"], r"^Memory, in MiB: memory_mb: must be ")
        self.assertEqual(story["of another"], "")

    def test_hidden_tabs_leave_the_connections_to_others(self):
        person, _ = self.key(role="agent", user="ann")
        story = self.story("tabs", person=person)
        for limit in ("of 6 min 40 s", "0.7 processors", "of 96.0 MiB", "of 17", "33.0 MiB", "of 1.0 MiB"):
            self.assertIn(limit, story["limits"])
        self.assertEqual(story["open"], 6)
        self.assertRegex(story["from"], r"^2\.[1-9]\d*\.0$")
        self.assertEqual(story["output"], [f"<{n}>" for n in range(len(story["output"]))], "nothing is lost, and nothing is twice")


if __name__ == "__main__":
    unittest.main()
