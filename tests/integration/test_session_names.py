# SPDX-License-Identifier: Apache-2.0
"""Names of sessions, which stand for their ids."""

import concurrent.futures
import unittest

import api_case
import harness
from api_case import ApiTest
from session_case import Session


def setUpModule():
    api_case.start_server()


class Names(ApiTest):
    def open(self, **request):
        session = Session(self.server, self.call, **{"language": "bash", "memory_mb": 64, **request})
        self.addCleanup(session.end)
        return session

    def refused(self, body):
        return self.call("POST", "/v1/sessions", body)

    def test_a_name_stands_for_the_id(self):
        session = self.open(name="data-work")
        self.assertEqual(session.made["name"], "data-work")
        by_name = "/v1/sessions/data-work"
        self.assertEqual(self.call("GET", by_name, status=200).json()["id"], session.id)
        done = self.call("POST", f"{by_name}/exec?wait=60", {"command": "echo hi > f; cat f"}).json()
        self.assertEqual((done["stdout"], done["session_id"]), ("hi\n", session.id))
        self.assertEqual(self.call("GET", f"{by_name}/files/f", status=200).body, b"hi\n")
        self.call("PUT", f"{by_name}/files/g?root=home", b"x", status=200)
        self.assertEqual(self.call("POST", f"{by_name}/renew", {}, status=200).json()["id"], session.id)
        self.call("PUT", f"{by_name}/memory/k", {"value": 1}, status=200)
        self.assertEqual(self.call("GET", f"{by_name}/memory/k", status=200).json()["value"], 1)
        snapshot = self.call("POST", f"{by_name}/snapshots", {}, status=201).json()
        self.assertEqual(snapshot["session_id"], session.id)
        link = self.call("POST", f"{by_name}/ports/8000/tokens", {}, status=201).json()
        self.assertIn(f"/v1/sessions/{session.id}/ports/8000~", link["url"])
        ran = self.call("GET", "/v1/executions?session_id=data-work", status=200).json()["executions"]
        self.assertEqual([each["id"] for each in ran], [done["id"]])
        listed = self.call("GET", "/v1/sessions", status=200).json()["sessions"]
        self.assertIn((session.id, "data-work"), [(each["id"], each["name"]) for each in listed])
        self.assertEqual(self.call("DELETE", by_name, status=200).json()["id"], session.id)
        self.assertEqual(self.call("GET", by_name, status=200).json()["status"], "ended", "found until the name is another's")
        self.assertProblem(self.call("POST", f"{by_name}/exec", {"command": "true"}), 409)

    def test_a_name_is_of_one_session_of_an_agent(self):
        first = self.open(name="mine")
        taken = self.refused({"name": "mine"})
        self.assertProblem(taken, 409, field="name")
        self.assertIn(first.id, taken.json()["detail"])
        first.end()
        again = self.open(name="mine")
        self.assertNotEqual(again.id, first.id)
        self.assertEqual(self.call("GET", "/v1/sessions/mine", status=200).json()["id"], again.id)
        headers = {"Idempotency-Key": "names-1"}
        once = self.call("POST", "/v1/sessions", {"name": "once"}, headers=headers, status=201).json()
        self.assertEqual(self.call("POST", "/v1/sessions", {"name": "once"}, headers=headers, status=201).json()["id"], once["id"])
        self.call("DELETE", "/v1/sessions/once", status=200)

    def test_of_two_that_ask_at_once_one_has_it(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda _: self.call("POST", "/v1/sessions", {"name": "race"}), range(8)))
        self.assertEqual(sorted(each.status for each in told), [201] + [409] * 7)
        self.call("DELETE", "/v1/sessions/race", status=200)

    def test_others_have_names_of_their_own(self):
        keys = [self.call("POST", "/v1/keys", {"tenant": tenant, "agent": agent, "roles": ["agent"]}).json()["secret"]
                for tenant, agent in (("names-a", "one"), ("names-a", "two"), ("names-b", "one"))]
        for number, key in enumerate(keys):
            self.call("GET", "/v1/sessions/shared", key=key, status=404)
            made = Session(self.server, self.call, key=key, name="shared", metadata={"n": str(number)})
            self.addCleanup(made.end)
        for number, key in enumerate(keys):
            self.assertEqual(self.call("GET", "/v1/sessions/shared", key=key, status=200).json()["metadata"]["n"], str(number))
        self.assertIn("give its id", self.call("GET", "/v1/sessions/shared", status=409).json()["detail"])  # an administrator
        only = Session(self.server, self.call, key=keys[2], name="only")
        self.addCleanup(only.end)
        unknown = self.call("GET", "/v1/sessions/only", key=keys[0], status=404).json()["detail"]
        self.assertEqual(unknown.replace("only", "none"), self.call("GET", "/v1/sessions/none", key=keys[0], status=404).json()["detail"])
        self.assertEqual(self.call("GET", "/v1/sessions/only", status=200).json()["id"], only.id)

    def test_bad_names(self):
        for name in ("", "a b", "a/b", "a:b", "-a", ".", "..", "é", "x" * 64, "ses_x", "ses-x", "ses_" + "0" * 26, "a~b", "a\n"):
            with self.subTest(name):
                answer = self.refused({"name": name}) if name else None
                if answer:
                    self.assertProblem(answer, 422, field="name")
        self.assertIn("letters, digits", self.refused({"name": "a b"}).json()["detail"])
        self.assertIn("ses_", self.refused({"name": "ses_x"}).json()["detail"])
        for name in ("a", "A.b_c-9", "x" * 63):
            self.open(name=name).end()


class NamesLast(unittest.TestCase):
    def test_over_a_restart(self):
        with harness.Server() as server:
            session = Session(server, name="kept")
            server.stop()
            server.start()
            found = server.request("GET", "/v1/sessions/kept").json()
            self.assertEqual((found["id"], found["status"]), (session.id, "ended"))
            with Session(server, name="kept") as again:
                self.assertEqual(server.request("GET", "/v1/sessions/kept").json()["id"], again.id)


if __name__ == "__main__":
    unittest.main()
