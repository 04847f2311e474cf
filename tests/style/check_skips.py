# SPDX-License-Identifier: Apache-2.0
"""Each reason of a skipped test is listed in tests/skips.txt."""

import ast
import fnmatch
import re
import unittest

import tree

ALLOWED = "tests/skips.txt"
SKIPS = ("skipTest", "skipIf", "skipUnless", "SkipTest")
IN_CPP = re.compile(r'GTEST_SKIP\(\)\s*<<\s*"([^"]+)"')


def reasons_of(text):
    """(line, reason) of each whole reason in a Python file. tests/run.py sees assembled reasons at run time."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.Constant):
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in SKIPS:
                yield node.lineno, node.args[-1].value


class Skips(unittest.TestCase):
    def setUp(self):
        lines = [line for line in tree.text(ALLOWED).splitlines() if line and not line.startswith("#")]
        self.rows = [line.split("\t") for line in lines]

    def test_each_line_is_a_reason_and_why_it_is_allowed(self):
        self.assertEqual([row for row in self.rows if len(row) != 2 or not all(row)], [])
        patterns = [row[0] for row in self.rows]
        self.assertEqual(len(patterns), len(set(patterns)), "a reason stands there twice")
        self.assertEqual([pattern for pattern in patterns if not pattern.strip("*? ")], [], "it allows anything")

    def test_each_reason_in_the_tree_is_allowed(self):
        found = [(path, line, reason) for path in tree.with_suffix(".py") for line, reason in reasons_of(tree.text(path))]
        found += [(path, tree.text(path)[:match.start()].count("\n") + 1, match[1])
                  for path in tree.with_suffix(".cc", ".h") for match in IN_CPP.finditer(tree.text(path))]
        self.assertGreater(len(found), 30)
        wrong = [f"{path}:{line}: {reason!r} is not in {ALLOWED}" for path, line, reason in found
                 if not any(fnmatch.fnmatchcase(reason, row[0]) for row in self.rows)]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
