# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser: a session's terminal, notebook and files."""

import unittest

from session_case import Session
from web_case import WebCase


class Sessions(WebCase):
    file = "sessions.mjs"

    def session(self, **request):
        secret, _ = self.key(role="agent", user="ann")
        session = self.enterContext(Session(self.server, key=secret, language="python", memory_mb=512, disk_mb=64, **request))
        return {"person": secret, "session": session.id, "key": secret}

    def test_the_terminal_runs_vim(self):
        story = self.story("terminal", **self.session())
        self.assertEqual(story["file"], "written in vim\n")
        self.assertEqual((story["title"], story["markup"], story["broke out"]), (True, 0, 404))

    def test_a_cell_draws_a_figure(self):
        story = self.story("notebook", **self.session())
        figure = story["figure"]
        self.assertEqual(figure["width"] // 100, 4 if figure["width"] >= 400 else 3)
        self.assertAlmostEqual(figure["width"] / figure["height"], 2, delta=0.25)
        self.assertGreater(figure["blue"], 200, "the line is drawn")
        self.assertEqual((story["sandbox"], story["hit"]), ("", None))
        self.assertEqual(story["sockets"], [3, []])
        self.assertEqual(story["again"], [True, "7", "The rest of the request stays: args, artifacts."])

    def test_files(self):
        story = self.story("files", **self.session())
        self.assertEqual((story["uploaded"], story["dragged"], story["edited"], story["kept"]), ("up", "dragged", "edited in the page\n", "theirs\n"))
        self.assertEqual((story["typed"], story["line ends"]), ("one\ntwo\nX more", "one\r\ntwo\r\nX"))
        self.assertEqual((story["asked"], story["replaced"]), ("theirs\n", "new"))
        self.assertEqual((story["odd"], story["downloaded"], story["removed"]), ("second\n", ["gpj._txt", "bidi"], 404))
        self.assertEqual((story["as it is"], story["renamed"]), ("as it is", "inside"))
        self.assertIn("Its name is not UTF-8: use the terminal.", story["not text"])
        self.assertEqual(story["back"], "?tab=files&file=as%250Ais.txt")


if __name__ == "__main__":
    unittest.main()
