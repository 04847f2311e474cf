# SPDX-License-Identifier: Apache-2.0
"""The data files of which a build makes tables (docs/adr/0097) are in order: each row has its why, and the scripts that make the
tables refuse what they do not know. A library of YAML reads the files to the same value as the scripts."""

import copy
import sys
import unittest

import yaml

import tree

sys.path.insert(0, str(tree.REPO / "cmake"))
import plain_yaml  # noqa: E402
import program_tables  # noqa: E402
import seccomp_constants  # noqa: E402

PROGRAMS = "policies/programs.yaml"
CONSTANTS = "policies/seccomp/constants.yaml"
MOST_ROW_NAMES = 40  # more programs have seldom one reason


def loaded(path):
    return plain_yaml.load(tree.text(path), path)


class Tables(unittest.TestCase):
    def test_a_library_reads_the_same(self):
        for path in (PROGRAMS, CONSTANTS):
            with self.subTest(path):
                self.assertEqual(loaded(path), yaml.safe_load(tree.text(path)))

    def test_they_are_in_order(self):
        program_tables.check(loaded(PROGRAMS))
        seccomp_constants.check(loaded(CONSTANTS))

    def test_a_row_has_few_names(self):
        rows = [row["names"] for section, rows in loaded(PROGRAMS).items() if section in ("programs", "writes") for row in rows]
        self.assertEqual([names[0] for names in rows if len(names) > MOST_ROW_NAMES], [])

    def test_the_same_source_each_time(self):
        for module, path in ((program_tables, PROGRAMS), (seccomp_constants, CONSTANTS)):
            self.assertEqual(module.source(module.check(loaded(path))), module.source(module.check(loaded(path))))


class Refusals(unittest.TestCase):
    def refused(self, path, module, change, words):
        document = loaded(path)
        change(document)
        with self.assertRaisesRegex(plain_yaml.Broken, words):
            module.check(copy.deepcopy(document))

    def test_of_programs(self):
        def sort(document):
            return next(row for row in document["programs"] if row["names"] == ["sort"])

        for change, words in (
                (lambda d: d.update(version=2), "version"),
                (lambda d: d.pop("writes"), "sections"),
                (lambda d: d.update(more=[]), "sections"),
                (lambda d: sort(d).pop("why"), "why is missing"),
                (lambda d: sort(d).update(why="no sentence"), "is no sentence"),
                (lambda d: sort(d)["executes"][0].pop("why"), "why is missing"),
                (lambda d: sort(d)["executes"].append({"options": ["--compress-program="], "why": "Again."}), "says a thing twice"),
                (lambda d: sort(d)["executes"][0].update(more="x"), "there is no key 'more'"),
                (lambda d: sort(d).update(optoins=["-x"]), "there is no key 'optoins'"),
                (lambda d: sort(d).update(kind="plian"), "there is no 'plian'"),
                (lambda d: sort(d).update(group="readonly"), "there is no 'readonly'"),
                (lambda d: sort(d).update(traits=["none"]), "there is no 'none'"),
                (lambda d: sort(d).update(operands=9), "is no number"),
                (lambda d: sort(d).update(options="-x"), "is no list"),
                (lambda d: sort(d).update(options=["x"]), "there is no 'x'"),
                (lambda d: sort(d).update(names=["sort", "ls"]), "out of order"),
                (lambda d: sort(d).update(names=["ls", "sort"]), "another row has"),
                (lambda d: sort(d).update(names=["sort", "sort"]), "says a thing twice"),
                (lambda d: d["programs"].reverse(), "out of order"),
                (lambda d: d["variables"][0].update(effect="none"), "there is no 'none'"),
                (lambda d: d["writes"][0].pop("files"), "files is missing"),
                (lambda d: d["git_commands"].append("x"), "a row is a map")):
            with self.subTest(words):
                self.refused(PROGRAMS, program_tables, change, words)

    def test_of_constants(self):
        for change, words in (
                (lambda d: d.pop("newer"), "sections"),
                (lambda d: d["values"][0].update(names=["B", "A"]), "out of order"),
                (lambda d: d["values"][0].update(names=["PR_SET_NAME"]), "is there twice"),
                (lambda d: d["values"][0].update(names=["1"]), "no list of names"),
                (lambda d: d["values"][0].update(header='x.h>\n#include <y.h'), "name or its header"),
                (lambda d: d["values"][0].update(value=1), "there is no key 'value'"),
                (lambda d: d["combined"][0].pop("why"), "why is missing"),
                (lambda d: d["newer"][0].update(number="1"), "its number")):
            with self.subTest(words):
                self.refused(CONSTANTS, seccomp_constants, change, words)

    def test_of_the_reader(self):
        for text in ("", "- a: b", "a: b\na: c", "a: yes", "a: [on]", "a: [0x1f]", "a: [1.5]", "a: &x b", "a: *x", "a: !t b", "a: |\n  b",
                     "a: {b: c}", "a: 'b'", 'a: "b\\n"', "a: b # c", "a: b: c", "a: [b, c", "a: [b,, c]", "a: []", "a:\n  b: c",
                     "a:\n - b: c", "a:\n  - b: c\n   d: e", " a: b", "a: b ", "a:\tb", "a: b\n---\nc: d", "<<: a", "a: [-, b]",
                     "a: @b", "A: b", "a: [b:, c]", "a: [b: c]"):
            with self.subTest(text), self.assertRaises(plain_yaml.Broken):
                plain_yaml.load(text, "text")

    def test_what_the_reader_reads_a_library_reads_alike(self):
        for text in ("a: b", "a: 1", "a: -b c, d", "a: [-b, --c=, d:e, \".\", 7z, .b, x*]", "# c\na:\n  - b: c\n    d: [e,\n      f]\n  - b: g\nh: \"i: j\""):
            with self.subTest(text):
                self.assertEqual(plain_yaml.load(text, "text"), yaml.safe_load(text))


if __name__ == "__main__":
    unittest.main()
