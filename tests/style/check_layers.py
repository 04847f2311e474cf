# SPDX-License-Identifier: Apache-2.0
"""Each folder of src/ includes only what src/layers.txt allows it, and the layers have no cycle."""

import re
import sys
import unittest

import tree

sys.path.insert(0, str(tree.REPO / "tests"))
from affected import layers  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/', re.MULTILINE)
# Tests may use the fakes and the suites of the folders below theirs, but nothing above.


class Layers(unittest.TestCase):
    def test_each_layer_names_only_lower_ones(self):
        seen = set()
        for name, allowed in layers().items():
            self.assertLessEqual(set(allowed), seen, f"{name} may include what is not below it")
            seen.add(name)

    def test_every_folder_is_a_layer(self):
        folders = {path.parts[1] for path in tree.with_suffix(".cc", ".h") if path.parts[0] == "src"}
        self.assertEqual(folders - set(layers()), set())

    def test_includes_obey(self):
        wrong = []
        allowed = layers()
        for path in tree.with_suffix(".cc", ".h"):
            if path.parts[0] != "src":
                continue
            folder = path.parts[1]
            for included in INCLUDE.findall(tree.text(path)):
                if included != folder and included not in allowed.get(folder, ()):
                    wrong.append(f"{path}: {folder} may not include {included}/")
        self.assertEqual(wrong, [], "\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
