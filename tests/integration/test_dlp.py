#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""DLP rules: texts are reported, masked or refused in output, artifacts and requests, and each match is in the audit log by the
rule's name, never with the text."""

import json
import re
import unittest

import harness
from api_case import CONFIG, ApiTest
from session_case import Session
from test_at_rest import holders

CARD = "4111 1111 1111 1111"
PATTERN = r"[0-9]{4}(?:[ -]?[0-9]{4}){3}\b"
RULES = [("card-reported", "reported: {}", "report"), ("card-masked", "masked: {}", "redact"), ("card-refused", "refused: {}", "refuse")]


def rules(*places, only=None, match_bytes=None):
    """The section `dlp` of the configuration: a rule for each action, told apart by a word before the card."""
    lines = ["dlp:\n"] + ([f"  match_bytes: {match_bytes}\n"] if match_bytes else []) + ["  rules:\n"]
    for name, shape, action in RULES:
        if only in (None, action):
            lines.append(f"    - {{name: {name}, pattern: '{shape.format(PATTERN)}', in: [{', '.join(places)}], action: {action}}}\n")
    return "".join(lines)


def matches(server, subject):
    """The audit rows about an execution's matches: {(rule, action, place, where): count}; none has the text."""
    text = server.request("GET", "/v1/audit/export").text
    assert CARD not in text
    rows = [json.loads(line) for line in text.splitlines()]
    return {(d["rule"], d["action"], d["place"], d.get("path", d.get("stream"))): d["count"]
            for row in rows if row["action"] == "dlp.matched" and row["subject"] == subject for d in [row["details"]]}


class Output(ApiTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(CONFIG + rules("output", "artifacts", match_bytes=64)))

    def test_a_reported_text_passes(self):
        done = self.run_code(f"print('reported: {CARD}')")
        self.assertEqual((done["stdout"], done["error"]), (f"reported: {CARD}\n", None))
        self.assertEqual(matches(self.server, done["id"]), {("card-reported", "report", "output", "stdout"): 1})

    def test_a_masked_text_does_not(self):
        code = f"import sys\nfor part in ('a masked: {CARD[:9]}', '{CARD[9:]}', ' b'):\n    sys.stderr.write(part); sys.stderr.flush()\nprint('whole')"
        done = self.run_code(code)
        self.assertEqual((done["stderr"], done["stdout"]), ("a " + "*" * len(f"masked: {CARD}") + " b", "whole\n"))
        self.assertEqual(matches(self.server, done["id"]), {("card-masked", "redact", "output", "stderr"): 1})
        events = list(self.server.events(f"/v1/executions/{done['id']}/events"))
        self.assertNotIn(CARD, json.dumps(events))

    def test_nothing_passes_behind_a_refused_text(self):
        done = self.run_code(f"print('before\\nnow refused: {CARD} behind\\nand more')")
        self.assertEqual(done["stdout"], "before\nnow ")
        self.assertEqual((done["error"]["type"], done["error"]["details"]["rule"]), ("PERMISSION_DENIED", "dlp.card-refused"))
        self.assertEqual(matches(self.server, done["id"]), {("card-refused", "refuse", "output", "stdout"): 1})
        self.assertEqual(holders(self.server.state, CARD.encode()), set())

    def test_longer_matches_than_the_setting_are_missed_in_long_lines(self):
        code = "print(('masked: ' + '1' * 10_000 + '.') * 60)"  # a line that comes in many pieces
        for size, whole in ((64, False), (16_384, True)):
            server = self.enterContext(harness.Server(
                f"dlp:\n  match_bytes: {size}\n  rules: [{{name: wide, pattern: 'masked: 1+', in: [output], action: redact}}]\n"))
            said = server.run(code, artifacts=[])["stdout"]
            self.assertEqual(len(said), 60 * 10_009 + 1)
            self.assertEqual("1" not in said, whole)

    def test_values_of_cells(self):
        with Session(self.server, language="python") as session:
            ran = session.exec(f"'masked: {CARD}'", kernel=None)
            self.assertEqual(ran["results"][0]["text/plain"], f"'{'*' * len(f'masked: {CARD}')}'")
            self.assertEqual(matches(self.server, ran["id"]), {("card-masked", "redact", "output", "results"): 1})

    def test_artifacts(self):
        code = "\n".join(f"open('{action}.txt', 'w').write('a {word}: {CARD} b')"
                         for action, word in (("report", "reported"), ("redact", "masked"), ("refuse", "refused"), ("none", "other")))
        done = self.run_code(code, artifacts=["*.txt"])
        kept = {each["path"]: self.call("GET", f"/v1/artifacts/{each['id']}/content").body.decode() for each in done["artifacts"]}
        self.assertEqual(kept, {"report.txt": f"a reported: {CARD} b", "redact.txt": "a " + "*" * len(f"masked: {CARD}") + " b",
                                "none.txt": f"a other: {CARD} b"})
        self.assertEqual((done["error"]["type"], done["error"]["details"]["path"]), ("PERMISSION_DENIED", "refuse.txt"))
        self.assertEqual(matches(self.server, done["id"]), {
            ("card-reported", "report", "artifacts", "report.txt"): 1, ("card-masked", "redact", "artifacts", "redact.txt"): 1,
            ("card-refused", "refuse", "artifacts", "refuse.txt"): 1})


class Places(unittest.TestCase):
    def test_a_rule_looks_in_its_places_alone(self):
        server = self.enterContext(harness.Server(rules("artifacts")))
        done = server.run(f"print('masked: {CARD}')", artifacts=[])
        self.assertEqual(done["stdout"], f"masked: {CARD}\n")
        self.assertEqual(matches(server, done["id"]), {})


class Checks(unittest.TestCase):
    def test_mistakes_end_the_start(self):
        for line, text in (("[{name: Bad Name, pattern: x, in: [output], action: report}]", r"dlp\.rules\[0\]\.name"),
                           ("[{name: a, pattern: '(', in: [output], action: report}]", r"dlp\.rules\[0\]\.pattern: is no regular expression"),
                           ("[{name: a, pattern: '(', in: [egress], action: report}]", r"dlp\.rules\[0\]\.pattern: is no regular expression"),
                           ("[{name: a, pattern: x, in: [nowhere], action: report}]", r"dlp\.rules\[0\]\.in: must list"),
                           ("[{name: a, pattern: x, action: report}]", r"dlp\.rules\[0\]\.in: must list"),
                           ("[{name: a, pattern: x, in: [output], action: drop}]", r"dlp\.rules\[0\]\.action: must be report, redact or refuse"),
                           ("[{name: a, patern: x}]", r"dlp\.rules\[0\]\.patern: unknown key")):
            server = harness.Server(f"dlp:\n  rules: {line}\n", ready=False)
            with self.subTest(line):
                try:
                    server.__enter__()
                    harness.wait_for("the reason", lambda: re.search(text, server.log_tail()), 20)
                finally:
                    server.kill()
                    server._remove()


if __name__ == "__main__":
    unittest.main()
