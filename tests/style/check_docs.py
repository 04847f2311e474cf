# SPDX-License-Identifier: Apache-2.0
"""Relative links in Markdown lead somewhere, data files parse, and every policy rule says why."""

import json
import re
import sys
import unittest

import yaml

import tree

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchor(heading):
    """The anchor a heading gets in the usual renderers."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")


def rules(value, path=""):
    """Every rule, or group of system calls under the same reason, with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("rules", "groups") and isinstance(inner, list):
                yield from ((f"{path}/{key}[{n}]", rule) for n, rule in enumerate(inner) if isinstance(rule, dict))
            yield from rules(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from rules(inner, f"{path}[{n}]")


class Docs(unittest.TestCase):
    def test_the_audit_of_commands_is_the_page_of_its_data(self):
        sys.path.insert(0, str(tree.REPO / "tests"))
        import audit_commands

        self.assertEqual(audit_commands.PAGE.read_text(encoding="utf-8"), audit_commands.page(),
                         "run tests/audit_commands.py page")

    def test_links(self):
        dead = []
        for path in tree.with_suffix(".md"):
            for target in LINK.findall(FENCE.sub("", tree.text(path))):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, fragment = target.partition("#")
                file = (tree.REPO / path).parent / name if name else tree.REPO / path
                if not file.exists():
                    dead.append(f"{path}: {target}")
                elif fragment and file.suffix == ".md":
                    if fragment not in map(anchor, HEADING.findall(FENCE.sub("", file.read_text()))):
                        dead.append(f"{path}: {target} (no such heading)")
        self.assertEqual(dead, [])

    def test_the_architecture_names_files_that_exist(self):
        text = FENCE.sub("", tree.text("ARCHITECTURE.md"))
        named = re.findall(r"`((?:src|spec|policies|languages)/[\w./-]+)`", text)
        self.assertEqual([name for name in named if "NAME" not in name and not (tree.REPO / name).exists()], [])
        self.assertGreater(len(named), 50)

    def test_data_files_parse(self):
        for path in tree.with_suffix(".json"):
            with self.subTest(path=str(path)):
                json.loads(tree.text(path))
        loader = yaml
        for path in tree.with_suffix(".yaml", ".yml"):
            if "corpus" in path.parts:
                continue  # fuzzing inputs are broken on purpose
            with self.subTest(path=str(path)):
                loader.safe_load(tree.text(path))

    def test_every_policy_rule_says_why(self):
        found, silent = 0, []
        for path in tree.files():
            if path.parts[0] != "policies" or path.suffix not in (".json", ".yaml"):
                continue
            data = json.loads(tree.text(path)) if path.suffix == ".json" else yaml.safe_load(tree.text(path))
            for where, rule in rules(data):
                found += 1
                if not str(rule.get("why") or "").strip():
                    silent.append(f"{path} {where}")
        self.assertEqual(silent, [])
        self.assertGreater(found, 10, "the policies have no rules where this test looks for them")

    def test_openapi_is_whole(self):
        document = yaml.safe_load(tree.text("spec/openapi.yaml"))
        self.assertTrue(str(document["openapi"]).startswith("3."))
        for reference in re.findall(r"\$ref: *['\"]?(#/[^'\"\s}]+)", tree.text("spec/openapi.yaml")):
            node = document
            for part in reference[2:].split("/"):
                self.assertIn(part, node, reference)
                node = node[part]


if __name__ == "__main__":
    unittest.main()
