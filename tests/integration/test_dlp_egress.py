#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""DLP rules over the requests of sandboxes, plain and inspected. The fake internet's log says what arrived."""

import json
import unittest

import harness
from egress_case import EgressCase, door, start_world
from test_dlp import CARD, rules


def setUpModule():
    start_world()


class Requests(EgressCase):
    DOCUMENT = door("allowed.test:80", {"name": "api.test", "ports": [443], "inspect": True})

    @classmethod
    def setUpClass(cls):
        cls.EGRESS = f"  ca_file: {cls.world.directory}/ca.pem\n" + rules("egress")
        super().setUpClass()

    def attempts(self, done, count):
        """The rules of the audit rows about the execution's attempts that DLP rules decided, once there are so many: {rule: allowed}."""
        def rows():
            text = self.server.request("GET", "/v1/audit/export").text
            self.assertNotIn(CARD, text)
            found = {each["rule"]: each["allowed"] for row in map(json.loads, text.splitlines())
                     if row["action"] == "network.attempts" and row["subject"] == done["id"]
                     for each in row["details"]["attempts"] if (each["rule"] or "").startswith("dlp.")}
            return found if len(found) == count else None

        return harness.wait_for("the audit rows", rows, 10)

    def check(self, ask, host, port):
        code = ask + "".join(f"attempt('{word}', lambda: ask('{word}: {CARD}')[0])\n" for word in ("reported", "masked", "refused", "other"))
        done, tried = self.reach(code)
        self.assertEqual({name: told["said"] for name, told in tried.items()},
                         {"reported": "200", "masked": "200", "refused": "403", "other": "200"}, tried)
        self.assertEqual(self.attempts(done, 3), {"dlp.card-reported": True, "dlp.card-masked": True, "dlp.card-refused": False})
        arrived = [dict(each["headers"]) for each in self.world.of(self.events(), "http", host=host)]
        texts = sorted(next(value for name, value in each.items() if name.lower() == "x-text") for each in arrived)
        self.assertEqual(texts, sorted(["*" * len(f"masked: {CARD}"), f"other: {CARD}", f"reported: {CARD}"]))
        row = self.denied(done, host, port)
        self.assertEqual(row["rule"], "dlp.card-refused")
        self.assertNotIn(CARD, json.dumps(row))

    def test_plain_requests(self):
        self.check(r'''
import http.client
def ask(text):
    connection = http.client.HTTPConnection("allowed.test", timeout=10)
    connection.request("GET", "/", headers={"X-Text": text})
    answer = connection.getresponse()
    return answer.status, answer.read()
''', "allowed.test", 80)

    def test_inspected_requests(self):
        self.check(r'''
import http.client
def ask(text):
    connection = http.client.HTTPSConnection("api.test", timeout=10, context=ssl.create_default_context())
    connection.request("GET", "/", headers={"X-Text": text})
    answer = connection.getresponse()
    return answer.status, answer.read()
''', "api.test", 443)

    def test_bodies(self):
        code = rf'''
import http.client
def ask(text):
    connection = http.client.HTTPConnection("allowed.test", timeout=10)
    connection.request("POST", "/echo", body=text)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
attempt("masked", lambda: ask("a=1&masked: {CARD}&b=2")[1].count("*"))
attempt("refused", lambda: ask("a=1&refused: {CARD}&b=2")[0])
'''
        done, tried = self.reach(code)
        self.assertEqual(tried["refused"]["said"], "403", tried)
        self.assertEqual(self.attempts(done, 2), {"dlp.card-masked": True, "dlp.card-refused": False})
        self.assertNotIn(CARD, json.dumps(self.events()))


if __name__ == "__main__":
    unittest.main()
