# SPDX-License-Identifier: Apache-2.0
"""Each room of src/ includes only its lines of src/layers.txt, uses all of them, and the layers have no cycle. No file outside
a room includes the room's internals, which are headers named *_impl.h."""

import re
import sys
import unittest

import tree

sys.path.insert(0, str(tree.REPO / "tests"))
from affected import folders, layers  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+/[^"]+)"', re.MULTILINE)
# Tests, and files for tests alone, may use every room of their own folder and of the folders below.
FOR_TESTS = re.compile(r"_(test\.cc|suite\.h|fixture\.h|harness\.h|testing\.h|testbed\.h)$")
FRIEND = re.compile(r"^\s*friend (?:class|struct) (\w+);", re.MULTILINE)
LEVELS = 2


def room(path, allowed):
    """The room of a file of src/: the longest of its folders, of two levels, with a line."""
    parts = path.split("/")[:-1]
    for level in range(min(LEVELS, len(parts)), 0, -1):
        if "/".join(parts[:level]) in allowed:
            return "/".join(parts[:level])
    return parts[0]


def allows(lower, included):
    """The element of `lower` that covers the room `included`; None if none does."""
    return next((name for name in lower if included == name or included.startswith(name + "/")), None)


def includes():
    """(file below src/, the included file) for each include of our own."""
    for path in tree.with_suffix(".cc", ".h"):
        if path.parts[0] == "src":
            for included in INCLUDE.findall(tree.text(path)):
                yield "/".join(path.parts[1:]), included


class Layers(unittest.TestCase):
    def test_each_layer_names_only_lower_ones(self):
        seen = set()
        for name, allowed in layers().items():
            above = [lower for lower in allowed if lower not in seen]
            self.assertEqual(above, [], f"{name} may include what is not below it")
            seen.add(name)

    def test_every_folder_is_a_layer(self):
        folders = {path.parts[1] for path in tree.with_suffix(".cc", ".h") if path.parts[0] == "src"}
        self.assertEqual(folders - {name.partition("/")[0] for name in layers()}, set())

    def test_every_room_has_files(self):
        files = ["/".join(path.parts[1:]) for path in tree.with_suffix(".cc", ".h") if path.parts[0] == "src"]
        allowed = layers()
        found = {room(file, allowed) for file in files}
        empty = [name for name in allowed if name not in found]
        self.assertEqual(empty, [])

    def test_includes_obey(self):
        wrong, used, allowed = [], set(), layers()
        for file, included in includes():
            here, there = room(file, allowed), room(included, allowed)
            if here == there:
                continue
            name = allows(allowed[here], there)
            for_tests = FOR_TESTS.search("_" + file)
            if name and not for_tests:
                used.add((here, name))
            if not name and not (for_tests and self.may_in_tests(here, there)):
                wrong.append(f"src/{file}: {here} may not include {included}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        unused = [f"{name}: {lower}" for name in allowed for lower in allowed[name] if (name, lower) not in used]
        self.assertEqual(unused, [], "src/layers.txt allows what nothing uses")

    def test_internals_stay_in_their_room(self):
        allowed = layers()
        wrong = [f"src/{file}: {included} is internal to {room(included, allowed)}" for file, included in includes()
                 if included.endswith("_impl.h") and room(file, allowed) != room(included, allowed)]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_no_service_is_the_friend_of_another(self):
        wrong = []
        for path in tree.with_suffix(".cc", ".h"):
            if path.parts[:2] not in (("src", "orchestrator"), ("src", "api")):
                continue
            text = tree.text(path)
            wrong += [f"{path}: {name}" for name in FRIEND.findall(text)
                      if not re.search(rf"^(?:class|struct) {name} ", text, re.MULTILINE)]
        self.assertEqual(wrong, [], "friends that another file defines:\n" + "\n".join(wrong))

    @staticmethod
    def may_in_tests(here, there):
        below = {}  # of each folder, through others too
        for name, lower in folders().items():
            below[name] = {name} | lower | {each for one in lower for each in below[one]}
        return there.partition("/")[0] in below[here.partition("/")[0]]


if __name__ == "__main__":
    unittest.main()
