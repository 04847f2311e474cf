# SPDX-License-Identifier: Apache-2.0
"""S13 to S16: attempts to get more of a session than its scope, more of its memory values than one's own, a call
without its depth or its place in the rate, and other principals' values."""

import json
import os
import secrets
import unittest

from hostile import AS_USER, harness
from rules_case import NO_EXECUTION, NO_SESSION, RulesTest, at_once
from test_at_rest import MAKE, holders, spellings, text_of

RUNSC = "/usr/bin/runsc"
JSON = {"Content-Type": "application/json"}
TAR = {"Content-Type": "application/x-tar"}
EMPTY_TAR = bytes(10240)
# A request for each way to act in a session, by the required permission.
WATCH = "/files:watch?path="
READS = (("GET", "/files/given", None, {}), ("GET", "/files?path=&depth=1", None, {}), ("GET", "/archive?path=", None, {}),
         ("GET", WATCH, None, {}), ("POST", "/snapshots", {}, {}))
WRITES = (("PUT", "/files/more", b"x", {}), ("POST", "/files:mkdir", {"path": "folder"}, {}),
          ("PUT", "/archive?path=", EMPTY_TAR, TAR))
DELETES = (("DELETE", "/files/given", None, {}),)
MOVES = (("POST", "/files:move", {"from": "given", "to": "taken"}, {}),)
CONNECTS = (("GET", "/ports/8000/", None, {}), ("POST", "/ports/8000/", b"x", {}))
RUNS = ({"command": ["true"]}, {"command": "rm -rf /workspace/*"}, {"language": "python", "code": "1"},
        {"language": "bash", "code": "rm given"}, {"language": "python", "code": "1", "kernel": "python"},
        {"command": ["true"], "sandbox": "fresh"}, {"command": ["sleep", "60"], "keep_input": True},
        {"command": ["rm", "given"], "artifacts": ["**"]}, {"command": ["cat"], "input": "x"})
TOOLS = (("shell.execute", {"command": "rm given"}), ("python.execute", {"code": "1"}))
SENDS_FILES = {"command": ["true"], "files": [{"path": "given", "content": "changed"}]}


class Scope(RulesTest):
    def scoped(self, *capabilities, **more):
        """A session with the scope and the file `given`, from a snapshot."""
        if not hasattr(type(self), "taken"):
            whole = self.open()
            whole.call("PUT", "/files/given", b"as it was", status=200)
            type(self).taken = whole.call("POST", "/snapshots", {}, status=201).json()["id"]
        return self.open(capabilities=list(capabilities), from_snapshot=self.taken, **more)

    def refused(self, session, request, missing):
        """For files and ports: refused by its scope, and for no other reason."""
        path = request[1]
        answer = session.call(*request)
        self.assertEqual(answer.status, 403, (request, answer.body[:500]))
        error = answer.json()["error"]
        self.assertEqual(error["type"], "PERMISSION_DENIED", (request, error))
        if path != WATCH:  # a watch has the reason in its message alone
            self.assertEqual(error["details"].get("field"), "capabilities", (request, error))
        for each in missing:
            self.assertIn(each, error["message"], request)

    def denied(self, execution, missing):
        self.assertEqual((execution["status"], execution["error"]["type"], execution["error"]["details"].get("missing")),
                         ("denied", "PERMISSION_DENIED", missing), execution)
        self.assertIsNone(execution["started_at"])

    def unchanged(self, session):
        """A readable copy has the file, and nothing else."""
        self.assertEqual(session.call("GET", "/files/given", status=200).body, b"as it was")
        names = [each["path"] for each in session.call("GET", "/files?path=&depth=1", status=200).json()["entries"]]
        self.assertEqual(names, ["given"])

    def test_s13_what_may_be_read_cannot_be_changed(self):
        session = self.scoped("file_read")
        for each in WRITES:
            self.refused(session, each, ["file_write"])
        for each in (*DELETES, *MOVES):
            self.refused(session, each, ["file_delete"])
        for each in CONNECTS:
            self.refused(session, each, ["network"])
        for each in RUNS:
            self.denied(session.call("POST", "/exec?wait=60", each).json(), ["command_execution"])
        self.denied(session.call("POST", "/exec?wait=60", SENDS_FILES, status=200).json(), ["command_execution", "file_write"])
        for tool, arguments in TOOLS:
            for where in ("session", "fresh"):
                called = self.ask("POST", "/v1/tool-calls", {"tool_id": tool, "arguments": arguments, "sandbox": where,
                                                             "session_id": session.id}, status=200).json()
                self.assertEqual((called["status"], called["error"]["details"]["missing"]),
                                 ("denied", ["command_execution"]), called)
        self.unchanged(session)

    def test_s13_each_scope_is_that_alone(self):
        """A word permits its own requests, and no others."""
        every = {"file_read": READS, "file_write": WRITES, "file_delete": DELETES, "network": CONNECTS}
        for word in (*every, "command_execution"):
            session = self.scoped(word)
            for needs, requests in every.items():
                for each in requests:
                    if needs != word:
                        self.refused(session, each, [needs])
                    elif each[1] != WATCH and each[0] != "POST":  # these go on, or leave something
                        answer = session.call(*each)
                        self.assertNotEqual(answer.status, 403, (each, answer.body[:300]))
            self.refused(session, MOVES[0], sorted({"file_write", "file_delete"} - {word}))
            ran = session.call("POST", "/exec?wait=60", {"command": ["true"]}, status=200).json()
            self.assertEqual(ran["status"], "completed" if word == "command_execution" else "denied", ran)
            sent = session.call("POST", "/exec?wait=60", SENDS_FILES, status=200).json()
            self.denied(sent, sorted({"file_write", "command_execution"} - {word}))

    def test_s13_no_request_widens_it(self):
        session = self.scoped("file_read")
        wide = ["command_execution", "file_delete", "file_read", "file_write", "network"]
        for method, path, body in (("POST", "/renew", {"capabilities": wide}), ("POST", ":move", {"capabilities": wide}),
                                   ("PUT", "", {"capabilities": wide}), ("PATCH", "", {"capabilities": wide}),
                                   ("POST", "/exec?wait=60", {"command": ["rm", "given"], "capabilities": wide})):
            self.assertIn(session.call(method, path, body).status, (400, 404, 405, 409, 422), (method, path))
        own = {"cloister.capabilities": "file_read", "cloister.tool": "text.search"}
        for body in ({"command": ["rm", "given"], "metadata": {name: value}} for name, value in own.items()):
            forged = session.call("POST", "/exec?wait=60", body, status=422).json()
            self.assertRegex(forged["error"]["details"]["field"], r"^metadata")
        other = self.open()
        parent = other.exec("true")["id"]
        stolen = session.call("POST", "/exec?wait=60", {"command": ["rm", "given"], "parent_id": parent})
        self.assertEqual(stolen.status, 422, stolen.body)
        self.assertEqual(session.show()["capabilities"], ["file_read"])
        self.unchanged(session)

    def test_s13_another_tenant_finds_nothing_to_go_round(self):
        session = self.scoped("file_read")
        rival = self.key(tenant="rival")
        for method, path, body, headers in (*READS, *WRITES, *DELETES, *MOVES, *CONNECTS,
                                            ("POST", "/exec", {"command": ["true"]}, {})):
            real = self.ask(method, session.path + path, body, rival, headers=headers)
            none = self.ask(method, f"/v1/sessions/{NO_SESSION}{path}", body, rival, headers=headers)
            self.assertEqual((real.status, real.json()["detail"].replace(session.id, NO_SESSION)),
                             (404, none.json()["detail"]), (method, path))


# Calls the session's local socket repeatedly → the answers, shortened.
INSIDE = r"""
import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect("\0cloister-tools"); answers = s.makefile("r")
for line in sys.stdin:
    s.sendall(line.encode())
    said = json.loads(answers.readline())
    error = said.get("error") or {}
    print(json.dumps([said.get("status"), error.get("type"), error.get("details"), said.get("depth")]), flush=True)
"""


@unittest.skipIf(AS_USER or not os.path.exists(RUNSC), "gVisor keeps the memory of sessions, for root's nodes")
class Inside(RulesTest):
    """A program that calls from inside a session in gVisor."""

    CONFIG = "session:\n  max_call_depth: 1\n"

    def calls(self, session, *requests, **more):
        lines = "".join(json.dumps(each) + "\n" for each in requests)
        done = session.exec(command=["python3", "-c", INSIDE], input=lines, timeout_seconds=60, **more)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        return done["id"], [json.loads(line) for line in done["stdout"].splitlines()]

    def test_s13_s15_from_inside(self):
        session = self.open(runtime="gvisor", nested=True, memory_mb=256, capabilities=["command_execution"])
        true = {"command": ["true"]}
        first, said = self.calls(session, true, {**true, "files": [{"path": "x", "content": "x"}]},
                                 {**true, "parent_id": NO_EXECUTION}, {**true, "depth": 0},
                                 {**true, "metadata": {"cloister.capabilities": "file_read"}},
                                 {**true, "nested": False, "sandbox": "session"}, {**true, "session_id": NO_SESSION})
        self.assertEqual((said[0][0], said[0][3]), ("completed", 1), said)
        self.assertEqual((said[1][0], said[1][2]["missing"]), ("denied", ["file_write"]), said)
        for each in said[2:]:
            self.assertEqual(each[:2], [None, "INVALID_REQUEST"], said)
        _, said = self.calls(session, true, parent_id=first)
        self.assertEqual((said[0][0], said[0][2]["reason"], said[0][2]["depth"]), ("denied", "call_depth", 2), said)


MANY = 24


class Memory(RulesTest):
    CONFIG = "session:\n  memory:\n    max_keys: 8\n    max_value_bytes: 4000\n    max_bytes: 12000\n"

    def put(self, session, name, value):
        return session.call("PUT", f"/memory/{name}", value, JSON)

    def test_s14_values_that_are_none(self):
        session = self.open(self.key())
        before = b' {"kept": 1e-12, "as": "\\u0000\\u00e9" }\r\n'
        self.assertEqual(self.put(session, "k", before).status, 200)
        values = {b"": 422, b'"a\0b"': 422, b"\0": 422, b'"\xff\xfe"': 422, b'"\xed\xa0\x80"': 422, b'"\\ud800"': 422, b"NaN": 422,
                  b"1e999": 422, b'{"a": 1, "a": 2}': 422, b"1 2": 422, b"\xef\xbb\xbf1": 422, b"[" * 1000 + b"]" * 1000: 422,
                  b"[" * 3999: 422, b'{"a":' * 500 + b"1" + b"}" * 500: 422, b'"' + b"x" * 3999 + b'"': 413,
                  b"[" * 100_000 + b"]" * 100_000: 413, b'"' + b"x" * (8 << 20) + b'"': 413}
        for value, status in values.items():
            refused = self.put(session, "k", value)
            self.assertEqual(refused.status, status, (value[:20], refused.body[:300]))
            self.assertIn("memory key k: ", refused.json()["detail"])
        names = (".", "..", "..%2fk", "k%2f", "a%0ab", "%00", "%ff", "%C3%A9", "-k", "*", "x" * 129, "k%20", "k'--")
        for name in names:
            for method in ("PUT", "GET", "DELETE"):
                answer = session.call(method, f"/memory/{name}", b"1" if method == "PUT" else None, JSON)
                self.assertIn(answer.status, (400, 404, 405), (method, name, answer.body[:300]))
        self.assertEqual(session.call("GET", "/memory/k", status=200).body, before)
        listed = session.call("GET", "/memory", status=200).json()["memory"]
        self.assertEqual([(each["key"], each["size"]) for each in listed], [("k", len(before))])

    def kept(self, session):
        listed = session.call("GET", "/memory?limit=500", status=200).json()["memory"]
        return {each["key"]: each["size"] for each in listed}

    def test_s14_bounds_hold_for_many_at_once(self):
        session = self.open(self.key())
        put = at_once(lambda n: (f"k{n}", self.put(session, f"k{n}", b"%d" % n).status), range(MANY))
        self.assertEqual(sorted(status for _, status in put), [200] * 8 + [429] * (MANY - 8))
        self.assertEqual(set(self.kept(session)), {name for name, status in put if status == 200}, "what was said to be kept is")
        there = min(self.kept(session))
        again = at_once(lambda n: self.put(session, there, json.dumps([n] * 10).encode()).status, range(MANY))
        self.assertEqual(set(again), {200}, "a key that is there is no further one")
        for name in self.kept(session):
            session.call("DELETE", f"/memory/{name}", status=204)
        value = b'"' + b"x" * 2998 + b'"'
        put = at_once(lambda n: (f"v{n}", self.put(session, f"v{n}", value).status), range(MANY))
        self.assertEqual(sorted(status for _, status in put), [200] * 4 + [429] * (MANY - 4))
        self.assertEqual(self.kept(session), {name: 3000 for name, status in put if status == 200})
        larger = self.put(session, next(iter(self.kept(session))), b'"' + b"y" * 3500 + b'"')
        self.assertEqual(larger.status, 429, larger.body)
        for name in self.kept(session):
            self.assertEqual(session.call("GET", f"/memory/{name}", status=200).body, value)

    def test_s14_others(self):
        session = self.open(self.key())
        for number in range(3):
            self.put(session, f"k{number}", b'"mine"')
        page = session.call("GET", "/memory?limit=1", status=200).json()
        strangers = {"another agent": self.key(agent="another"), "of no name": self.key(agent=""),
                     "another tenant": self.key(tenant="rival")}
        tries = (("GET", "/memory", None), ("GET", f"/memory?limit=1&cursor={page['next_cursor']}", None),
                 ("GET", "/memory/k0", None), ("PUT", "/memory/k0", b"2"), ("PUT", "/memory/new", b"2"), ("DELETE", "/memory/k0", None))
        forged = {**JSON, "X-Tenant-Id": "default", "X-Agent": self.agent}

        def nothing_is_found():
            for who, key in strangers.items():
                for method, path, body in tries:
                    real = self.ask(method, session.path + path, body, key, headers=forged)
                    none = self.ask(method, f"/v1/sessions/{NO_SESSION}{path}", body, key, headers=forged)
                    self.assertEqual((real.status, real.json()["detail"].replace(session.id, NO_SESSION)),
                                     (404, none.json()["detail"]), (who, method, path))

        nothing_is_found()
        for role, reads in (("viewer", 200), ("approver", 200), ("operator", 403)):
            key = self.key(role)
            self.assertEqual(self.ask("GET", f"{session.path}/memory/k0", key=key).status, reads, role)
            for method, body in (("PUT", b"2"), ("DELETE", None)):
                self.ask(method, f"{session.path}/memory/k0", body, key, 403, headers=JSON)
        self.assertEqual(self.kept(session), {f"k{number}": 6 for number in range(3)})
        session.end()
        nothing_is_found()
        self.assertEqual(self.put(session, "k0", b"3").status, 409)
        self.assertEqual(self.kept(session), {f"k{number}": 6 for number in range(3)})


class Calls(RulesTest):
    CONFIG = "session:\n  max_call_depth: 2\n  calls_per_minute: 12\n"

    def run_below(self, session, parent, **more):
        return session.post("true", "?wait=60", parent_id=parent, **more)

    def test_s15_whose_call_it_is(self):
        mine, other = self.open(self.key()), self.open(self.key())
        theirs = self.open(self.key(tenant="rival"))
        alone = self.ask("POST", "/v1/executions?wait=60", {"command": "true"}, self.key(), 200).json()["id"]
        strangers = [other.exec("true")["id"], theirs.exec("true")["id"], alone, NO_EXECUTION]
        said = set()
        for parent in strangers:
            refused = self.run_below(mine, parent)
            self.assertEqual((refused.status, refused.json()["error"]["details"]["field"]), (422, "parent_id"), refused.body)
            said.add(refused.json()["detail"])
        self.assertEqual(len(said), 1, "what is another tenant's looks like what is not there")
        for parent in (mine.id, "", "exec_", NO_EXECUTION + "0", "exec_' OR 1=1", 5, None, [strangers[0]]):
            answer = self.run_below(mine, parent)
            if answer.status == 200:  # like an absent member
                self.assertEqual((answer.json()["parent_id"], answer.json()["depth"]), (None, 0), parent)
            else:
                self.assertIn(answer.status, (400, 422), (parent, answer.body[:300]))
        self.assertIn(mine.post("true", depth=0).status, (400, 422), "depth is the service's to say")

    def test_s15_many_at_once_are_no_deeper_and_no_more(self):
        session, other = self.open(self.key()), self.open(self.key())
        parent = session.exec("true")["id"]
        parent = self.run_below(session, parent).json()["id"]
        deepest = self.run_below(session, parent).json()
        self.assertEqual((deepest["status"], deepest["depth"]), ("completed", 2), deepest)
        answers = at_once(lambda n: self.run_below(session, deepest["id"], sandbox="fresh" if n % 2 else "session"), range(MANY))
        taken = [answer.json() for answer in answers if answer.status == 200]
        for each in taken:
            self.assertEqual((each["status"], each["error"]["details"]["reason"]), ("denied", "call_depth"), each)
        for each in answers:
            if each.status != 200:
                self.assertEqual((each.status, each.json()["error"]["type"]), (429, "QUOTA_EXCEEDED"), each.body)
                self.assertTrue(1 <= int(each.headers["retry-after"]) <= 60)
        self.assertEqual(len(taken), 12 - 3, "one that is denied counts, and no more are let in than a minute takes")
        called = self.ask("POST", "/v1/tool-calls", {"tool_id": "text.search", "session_id": session.id,
                                                     "arguments": {"pattern": "x"}}, self.key())
        self.assertEqual(called.status, 429, "a tool call is one of them")
        self.assertEqual(other.exec("echo fine")["stdout"], "fine\n", "another session has its own")


class Values(RulesTest):
    """Words in an agent's requests, values and answers: their readers, and their places on disk."""

    def planted(self):
        self.words = {}
        return lambda what: self.words.setdefault(what, secrets.token_hex(16))

    def everything(self, session, executions, escalations, key):
        """All that a credential can see, by every route with an id or a list."""
        paths = ["/v1/executions?limit=500", "/v1/sessions?limit=500", session.path, f"{session.path}/kernels", "/v1/snapshots",
                 "/v1/escalations?limit=100", "/v1/audit?limit=1000", "/v1/audit/export", "/v1/artifacts", "/v1/agents",
                 f"/v1/agents/{self.agent}/sandbox", f"/v1/agents/{self.agent}/sandbox/violations",
                 f"/v1/agents/{self.agent}/sandbox/audit", f"/v1/agents/{self.agent}/sandbox/usage",
                 f"/v1/agents/{self.agent}/escalation-policy", f"{session.path}/memory"]
        paths += [f"/v1/executions/{each}{what}" for each in executions for what in ("", "/logs", "/receipt", "/request")]
        paths += [f"/v1/escalations/{each}" for each in escalations]
        paths += [f"/v1/executions/{each}/events" for each in executions if harness.finished(self.server.get(each))]
        answers = {path: self.ask("GET", path, key=key) for path in paths}
        self.assertEqual({each.status for each in answers.values()} - {200, 403, 404, 409}, set())
        return {path: answer.body for path, answer in answers.items()}

    def test_s16_what_others_see_and_the_disk_holds(self):
        word = self.planted()
        self.give("restricted", allowed_commands=["python3 *"])
        key = self.key()
        session = self.open(key, language="python", env={"TOKEN": word("session env")})
        self.assertEqual(session.show()["env"], {"TOKEN": word("session env")}, "who made it sees its own")
        run = {"language": "python", "env": {"TOKEN": word("env")}, "input": word("input"), "args": [word("argument")],
               "metadata": {"note": word("metadata")}, "files": [{"path": "sent", "content": word("file")}]}
        made = secrets.token_hex(8)
        done = self.ask("POST", "/v1/executions?wait=60", {
            **run, "code": MAKE.format(seed=made) + f"print(text[:64])  # {word('code')}"}, key, 200).json()
        self.assertIn(text_of(made).decode(), done["stdout"])
        blocked = self.ask("POST", "/v1/executions", {"command": f"tac {word('blocked')}", "env": {"TOKEN": word("blocked env")},
                                                      "input": word("blocked input")}, key, 201).json()
        in_it = session.post(command=f"tac {word('program')}", env={"TOKEN": word("program env")}).json()
        asked = self.ask("POST", "/v1/escalations", {"operation": "file_write", "path": f"/workspace/{word('path')}",
                                                     "reason": word("reason")}, key, 201).json()["id"]
        denied = self.ask("POST", "/v1/executions?wait=60", {"command": f"git {word('denied')}",
                                                            "env": {"LD_PRELOAD": word("denied env")}}, key, 200).json()
        for number in range(2):
            session.call("PUT", "/memory/k", json.dumps(word(f"memory {number}")).encode(), JSON, status=200)
        session.call("PUT", "/files/put", word("put").encode() * 50, status=200)
        session.call("POST", "/snapshots", {}, status=201)
        cell = session.call("POST", "/exec?wait=60", {"language": "python", "code": f"'{word('cell')}'"}, status=200).json()
        self.assertIn(word("cell"), str(cell["results"]))

        executions = [each["id"] for each in (done, blocked, in_it, denied, cell)]
        escalations = [self.escalation_of(blocked), self.escalation_of(in_it), asked]
        environment = [self.words[each] for each in self.words if each.endswith("env")]
        for who, whose in (("viewer", self.key("viewer")), ("operator", self.key("operator")), ("agent", self.key(agent="another"))):
            for path, body in self.everything(session, executions, escalations, whose).items():
                self.assertEqual([each for each in environment if each.encode() in body], [], (who, path))
        for path, body in self.everything(session, executions, escalations, self.key("viewer", "rival")).items():
            self.assertEqual([what for what, each in self.words.items() if each.encode() in body], [], path)
        seen = b"".join(self.everything(session, executions, escalations, self.key("approver")).values())
        self.assertEqual([what for what in ("blocked env", "program env", "path") if self.words[what].encode() not in seen], [],
                         "who decides sees what was asked")
        self.nothing_is_held(made)
        for each in (blocked, in_it):
            self.ask("DELETE", f"/v1/executions/{each['id']}", status=200)
        session.end()
        self.nothing_is_held(made)

    def nothing_is_held(self, made):
        """In a single pass over the disk, in any spelling."""
        state = self.server.state
        self.assertTrue(holders(state, self.agent.encode()), "the search finds what is there")
        wanted = {what: list(spellings(text)) for what, text in
                  [("output", text_of(made)), *((what, each.encode()) for what, each in self.words.items())]}
        for base, _, names in os.walk(state):
            for name in names:
                try:
                    with open(os.path.join(base, name), "rb") as file:
                        data = file.read()
                except OSError:  # a socket, or a removed journal
                    continue
                found = [what for what, each in wanted.items() if any(one in data for one in each)]
                self.assertEqual(found, [], os.path.join(base, name))


if __name__ == "__main__":
    unittest.main()
