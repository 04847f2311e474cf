# SPDX-License-Identifier: Apache-2.0
"""Commit titles: `area: imperative`, at most 72 columns."""

import re
import unittest

import tree

AREA = "[a-z.][a-z0-9_./-]*"
TITLE = re.compile(rf"^{AREA}(, ?{AREA})*: ([a-z`]|[A-Z]{{2}}).*[^.]$")
# Words that tell of past work instead of the commit's effect.
NOT_IMPERATIVE = re.compile(r"^(added|adds|fixed|fixes|changed|changes|removed|removes|updated|updates|made|makes)\b")
COLUMNS = 72


def problem(title):
    """The error of a title, None if none."""
    if len(title) > COLUMNS:
        return f"{len(title)} columns, at most {COLUMNS}"
    if not TITLE.match(title):
        return "not `area: what it does`"
    if NOT_IMPERATIVE.match(title.split(": ", 1)[1]):
        return "not in the imperative"
    return None


class Commits(unittest.TestCase):
    def test_titles(self):
        log = tree.git("log", "--no-merges", "--format=%h %s")
        if log is None:
            self.skipTest("not a git clone")
        wrong = []
        for line in log.splitlines():
            commit, title = line.split(" ", 1)
            if (found := problem(title)) is not None:
                wrong.append(f"{commit} {title!r}: {found}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_the_rule_itself(self):
        for good in ("api: refuse unknown fields", "store, audit: keep one writer", "docs: HTTP is spelled so"):
            self.assertIsNone(problem(good), good)
        for bad in ("Fix it", "api: Fixed the thing", "api: fixed the thing", "api: refuse x.", "api: " + "x" * 80):
            self.assertIsNotNone(problem(bad), bad)


if __name__ == "__main__":
    unittest.main()
