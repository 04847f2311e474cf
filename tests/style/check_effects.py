# SPDX-License-Identifier: Apache-2.0
"""docs/EFFECTS.md names a test for each setting, member of a policy, key of a level and limit of an agent, and the
test exists. tests/mutate_settings.py tries whether the test notices."""

import json
import pathlib
import re
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import mutate_settings  # noqa: E402
import suites  # noqa: E402

MOST_WITHOUT_A_TEST = 0  # may only fall
# Members that a document needs to be readable, or that only people read.
WORDS = set("""builtin command description each effect fallback match mitigation name names path pattern permissions resource_limits
risk rules version why""".split())


def settings():
    text = (suites.REPO / "docs" / "CONFIGURATION.md").read_text()
    return {f"setting:{name}" for name in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)}


def members(schema):
    """The names of members at any depth of a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(members, schema))
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties", {})
    return set(own if isinstance(own, dict) else ()) | members(list(schema.values()))


def keys(document):
    if isinstance(document, list):
        return set().union(*map(keys, document))
    return set(document) | keys(list(document.values())) if isinstance(document, dict) else set()


def of_policies():
    return members(json.loads((suites.REPO / "policies" / "policy.schema.json").read_text()))


def of_levels():
    levels = yaml.safe_load((suites.REPO / "policies" / "levels.yaml").read_text())["sandbox_levels"]
    return keys(list(levels.values()))


def of_agents():
    api = yaml.safe_load((suites.REPO / "spec" / "openapi.yaml").read_text())
    return members(api["components"]["schemas"]["AgentLimits"])


class Effects(unittest.TestCase):
    def setUp(self):
        self.rows, self.wrong = mutate_settings.rows(mutate_settings.TABLE.read_text())

    def test_each_line_is_a_row(self):
        self.assertEqual(self.wrong, [])

    def test_it_is_complete(self):
        named = [f"{row.kind}:{row.name}" for row in self.rows]
        self.assertEqual(len(named), len(set(named)), "a row is there twice")
        others = {f"member:{name}" for name in of_policies() | of_levels() | of_agents()} - {f"member:{n}" for n in WORDS}
        self.assertEqual(settings() | others, set(named))

    def test_the_tests_are_there(self):
        for row in self.rows:
            if row.case:
                with self.subTest(str(row)):
                    owner, _, method = row.case.partition(".")
                    text = row.path.read_text()
                    self.assertRegex(text, rf"(?m)^class {owner}\b")
                    self.assertRegex(text, rf"(?m)^    def {method}\(")

    def test_few_have_none(self):
        self.assertLessEqual(sum(not row.case for row in self.rows), MOST_WITHOUT_A_TEST)


if __name__ == "__main__":
    unittest.main()
