# SPDX-License-Identifier: Apache-2.0
"""The C and C++ sources are formatted by clang-format (`./dev fmt`)."""

import subprocess
import unittest

import tree


class Format(unittest.TestCase):
    def test_sources_are_formatted(self):
        paths = [str(path) for path in tree.with_suffix(".cc", ".h", ".c")]
        done = subprocess.run(["clang-format-19", "--dry-run", "-Werror", "-ferror-limit=3", *paths],
                              cwd=tree.REPO, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"run ./dev fmt\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    unittest.main()
