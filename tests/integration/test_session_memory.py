# SPDX-License-Identifier: Apache-2.0
"""The memory of sessions: access, life, and values that appear nowhere else."""

import json
import os
import sqlite3
import unittest

import harness
from api_case import ApiTest
from session_case import Session
from test_at_rest import holders

CONFIG = ("session:\n  memory:\n    max_keys: 4\n    max_value_bytes: 2000\n    max_bytes: 3000\n"
          "retention:\n  every_seconds: 1\n  delete_after_days: 30\n")
EXACT = b' {"big": 123456789012345678901234567890, "small": 1e-12, "text": "\\u00e9"}\n'


class Memory(ApiTest):
    """`keys`: of agents and others of two tenants, by a name of their own."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(config=CONFIG))
        cls.keys = {}
        for name, tenant, role, agent in (("alice", "acme", "agent", "alice"), ("bob", "acme", "agent", "bob"),
                                          ("viewer", "acme", "viewer", ""), ("operator", "acme", "operator", ""),
                                          ("rival", "rival", "agent", "alice")):
            made = cls.server.request("POST", "/v1/keys", {"tenant": tenant, "name": name, "roles": [role],
                                                           **({"agent": agent} if agent else {})})
            assert made.status == 201, made.text
            cls.keys[name] = made.json()["secret"]

    def session(self, by="alice", **request):
        made = self.call("POST", "/v1/sessions", {"language": "bash", **request}, key=self.keys[by], status=201).json()
        self.addCleanup(self.server.request, "DELETE", f"/v1/sessions/{made['id']}", key=self.keys[by])
        return f"/v1/sessions/{made['id']}"

    def set(self, session, key, value, by="alice", status=200):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.call("PUT", f"{session}/memory/{key}", body, {"Content-Type": "application/json"},
                         key=self.keys[by], status=status)

    def get(self, session, key, by="alice", status=200):
        return self.call("GET", f"{session}/memory/{key}", key=self.keys[by], status=status)

    def names(self, session, by="alice"):
        answer = self.call("GET", f"{session}/memory", key=self.keys[by], status=200).json()
        return [each["key"] for each in answer["memory"]]

    def test_others_find_no_session(self):
        session = self.session()
        unknown = "/v1/sessions/ses_" + "0" * 26
        self.set(session, "k", 1)
        for by in ("bob", "rival"):
            for method, path, body in (("GET", "/memory", None), ("GET", "/memory/k", None), ("PUT", "/memory/k", b"2"),
                                       ("DELETE", "/memory/k", None)):
                with self.subTest(by=by, method=method, path=path):
                    real = self.call(method, session + path, body, key=self.keys[by], status=404).json()
                    none = self.call(method, unknown + path, body, key=self.keys[by], status=404).json()
                    self.assertEqual(real["detail"].replace(session.rpartition("/")[2], "ID"),
                                     none["detail"].replace(unknown.rpartition("/")[2], "ID"))
        self.assertEqual(self.get(session, "k").body, b"1")
        self.assertEqual(self.get(session, "k", "viewer").body, b"1")
        self.set(session, "k", 2, "viewer", 403)
        self.get(session, "k", "operator", 403)
        another = self.session()
        self.assertEqual(self.names(another), [], "nor does another session of the same agent")
        self.get(another, "k", status=404)

    def test_it_outlives_a_crash_and_the_session_and_goes_with_its_record(self):
        session = self.session()
        self.set(session, "plan", EXACT)
        self.set(session, "other", None)
        self.server.kill()
        self.server.start()
        ended = self.call("GET", session, key=self.keys["alice"], status=200).json()
        self.assertEqual(ended["status"], "ended")
        self.assertEqual(self.get(session, "plan").body, EXACT)
        self.assertEqual(self.names(session), ["other", "plan"])
        self.set(session, "plan", 1, status=409)
        self.call("DELETE", f"{session}/memory/other", key=self.keys["alice"], status=204)
        self.assertEqual(self.names(session), ["plan"])
        self.server.stop()
        with sqlite3.connect(self.server.state / "ledger" / "ledger.db") as ledger:
            ledger.execute("UPDATE sessions SET ended_at=1 WHERE id=?", [session.rpartition("/")[2]])
        ledger.close()
        self.server.start()
        harness.wait_for("the record to go", lambda: self.server.request(
            "GET", session, key=self.keys["alice"]).status == 404)
        self.get(session, "plan", status=404)
        with sqlite3.connect(self.server.state / "ledger" / "ledger.db") as ledger:
            left = ledger.execute("SELECT count(*) FROM session_memory m LEFT JOIN sessions s ON s.seq=m.session"
                                  " WHERE s.seq IS NULL").fetchone()
        ledger.close()
        self.assertEqual(left, (0,), "no value is left behind")

    def test_bounds_refuse(self):
        session = self.session()
        large = self.assertProblem(self.set(session, "a", "x" * 1999, status=413), 413)
        self.assertRegex(large["detail"], "key a: .*2001 bytes.*2000.*session.memory.max_value_bytes")
        for key in ("a", "b"):
            self.set(session, key, "x" * 1400)
        full = self.assertProblem(self.set(session, "c", "x" * 300, status=429), 429, "QUOTA_EXCEEDED")
        self.assertRegex(full["detail"], "key c: .*3000.*session.memory.max_bytes.*delete")
        self.set(session, "a", 1)
        self.set(session, "c", "x" * 300)
        self.set(session, "d", 1)
        many = self.assertProblem(self.set(session, "e", 1, status=429), 429, "QUOTA_EXCEEDED")
        self.assertRegex(many["detail"], "key e: .*4.*session.memory.max_keys.*delete")
        self.assertEqual(self.names(session), ["a", "b", "c", "d"])
        self.assertProblem(self.set(session, "a%20b", 1, status=400), 400, field="url.key")
        self.assertProblem(self.set(session, "a", b"no JSON", status=422), 422, field="value")

    def test_values_are_nowhere_to_be_read(self):
        session = self.session()
        word = os.urandom(24).hex()
        self.set(session, "k", {"secret": word})
        self.set(session, "k", f'"{word}'.encode(), status=422)
        self.set(session, "k", word * 50, status=413)
        self.get(session, "k")
        entries = self.call("GET", "/v1/audit?order=newest&action=memory.set&limit=1", status=200).json()["entries"]
        self.assertEqual((entries[0]["subject"], entries[0]["agent"]), (session.rpartition("/")[2], "alice"))
        self.assertEqual(entries[0]["details"], {"key": "k", "size": len(json.dumps({"secret": word}))})
        self.assertEqual(holders(self.server.state, word.encode()), set(), "the log is in there, too")
        self.call("DELETE", session, key=self.keys["alice"], status=200)
        self.server.stop()
        self.assertEqual(holders(self.server.state, word.encode()), set())
        self.server.start()
        self.assertEqual(self.get(session, "k").json(), {"secret": word})

    def test_neither_programs_nor_copies_have_it(self):
        with Session(self.server, key=self.keys["alice"], language="bash") as session:
            self.set(session.path, "k", "Xylophonist")
            found = session.exec("grep -rsl 'Xylopho[n]ist' /workspace /tmp /etc /dev/shm /proc/self/environ; echo searched")
            self.assertEqual((found["status"], found["stdout"]), ("completed", "searched\n"))
            taken = session.call("POST", "/snapshots", status=201).json()
            copy = self.session(from_snapshot=taken["id"])
            self.assertEqual(self.names(copy), [])
            self.assertEqual(self.names(session.path), ["k"])

    def test_the_command_line(self):
        session = self.session().rpartition("/")[2]
        env = {"CLOISTER_API_KEY": self.keys["alice"]}

        def cli(*args, **more):
            return self.server.cli("session", "memory", *args, env=env, **more)

        self.assertEqual(cli("set", session, "a", "--", "-5").returncode, 0)
        self.assertEqual(cli("get", session, "a").stdout, "-5\n")
        kept = json.loads(cli("set", session, "b", "-", "--json", input="[1]").stdout)
        self.assertEqual((kept["key"], kept["size"]), ("b", 3))
        self.assertEqual(cli("set", session, "c", "a \"b\"", "--text").returncode, 0)
        self.assertEqual((cli("get", session, "c").stdout, cli("get", session, "c", "--text").stdout),
                         ('"a \\"b\\""\n', 'a "b"'))
        none = cli("get", session, "a", "--text")
        self.assertEqual((none.returncode, none.stdout), (2, ""))
        self.assertIn("--text", none.stderr)
        bad = cli("set", session, "a", "hello")
        self.assertEqual(bad.returncode, 2)
        self.assertIn("double quotes", bad.stderr)
        listed = json.loads(cli("list", session, "--limit", "2", "--json").stdout)["memory"]
        self.assertEqual([each["key"] for each in listed], ["a", "b"])
        gone = cli("delete", session, "a", "b", "--json")
        self.assertEqual(json.loads(gone.stdout), {"deleted": ["a", "b"]})
        self.assertEqual(cli("get", session, "a").returncode, 4)
        self.assertEqual([line.split()[0] for line in cli("list", session).stdout.splitlines()], ["KEY", "c"])
        surplus = cli("get", session, "--", "c", "d")
        self.assertEqual((surplus.returncode, surplus.stdout), (2, ""))
        self.assertIn('"d"', surplus.stderr)
        for args in (("get",), ("get", session), ("list",), ("set", session), ("delete", session)):
            self.assertEqual(cli(*args).returncode, 2, args)


if __name__ == "__main__":
    unittest.main()
