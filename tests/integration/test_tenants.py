# SPDX-License-Identifier: Apache-2.0
"""Another tenant's objects do not exist: every route with an id, every list, every way to name a tenant."""

import base64
import json
import unittest

import harness
import websocket
from api_case import CONFIG, DOCUMENT, ApiTest
from boundary_case import BY_NAME, list_queries, operations, permission, request_of, unknown

SAYS_TENANT = {"X-Tenant-Id": "a", "X-Tenant": "a", "X-Cloister-Tenant": "a", "Tenant": "a"}


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class Tenants(ApiTest):
    @classmethod
    def setUpClass(cls):
        cls.keys = {}
        cls.permissions = {}
        for tenant in ("a", "b", "c"):
            for role in ("agent", "approver", "tenant-admin"):
                made = cls.server.request("POST", "/v1/keys", {
                    "tenant": tenant, "name": tenant, "roles": [role],
                    **({"agent": "crew"} if role == "agent" else {"user": f"{role}-of-{tenant}"})})
                cls.keys[tenant, role] = made.json()["secret"]
        for role in ("agent", "approver", "tenant-admin"):
            who = cls.server.request("GET", "/v1/whoami", key=cls.keys["b", role]).json()
            cls.permissions[role] = set(who["permissions"])
        cls.ids = cls.make()

    @classmethod
    def make(cls):
        """Makes an object of every kind for tenant a → {the path after /v1/: its id}."""
        def made(role, method, path, body):
            answer = cls.server.request(method, path, body, key=cls.keys["a", role])
            assert answer.status in (200, 201), (path, answer.status, answer.text)
            return answer.json()

        run = made("agent", "POST", "/v1/executions?wait=60",
                   {"language": "python", "code": "open('f', 'w').write('x')"})
        session = made("agent", "POST", "/v1/sessions", {"language": "python"})["id"]
        cls.addClassCleanup(cls.server.request, "DELETE", f"/v1/sessions/{session}", key=cls.keys["a", "agent"])
        made("agent", "PUT", f"/v1/sessions/{session}/files/f", b"x")
        made("agent", "POST", f"/v1/sessions/{session}/exec?wait=60", {"command": "true"})
        cls.forwarded = made("agent", "POST", f"/v1/sessions/{session}/ports/8000/tokens", {})
        made("tenant-admin", "POST", "/v1/agents/crew/sandbox", {"level": "standard"})
        made("tenant-admin", "PUT", "/v1/quotas/agents/crew", {"sessions": 7})
        return {
            "executions": run["id"],
            "sessions": session,
            "artifacts": run["artifacts"][0]["id"],
            "snapshots": made("agent", "POST", f"/v1/sessions/{session}/snapshots", {})["id"],
            "escalations": made("agent", "POST", "/v1/escalations",
                                {"operation": "file_read", "path": "/etc/x", "reason": "r"})["id"],
            "keys": made("tenant-admin", "POST", "/v1/keys", {"roles": ["viewer"]})["id"],
            "tool-calls": made("agent", "POST", "/v1/tool-calls",
                               {"tool_id": "python.execute", "arguments": {"code": "1"}})["id"],
            "agents": "crew",
        }

    def role(self, operation):
        """A role of b's with the permission for its own objects; None: administrators alone, who see every tenant's."""
        allowed = [role for role, known in self.permissions.items() if permission(operation) in known]
        return allowed[0] if allowed else None

    def ask(self, operation, id_, tenant="b"):
        method, path, body = request_of(operation, id_)
        answer = self.server.request(method, path, body, key=self.keys[tenant, self.role(operation)],
                                     headers=SAYS_TENANT)
        if method != "HEAD":
            DOCUMENT.check(method, path, answer)
        return answer.status, answer.text.replace(id_, "ID")

    def of_ids(self):
        """Every operation on something of a tenant → its id."""
        for operation in operations():
            kind = operation.split("/")[2] if "{" in operation else None
            if kind in self.ids and self.role(operation) and operation not in BY_NAME:
                yield operation, self.ids[kind]

    def test_ids_are_as_random_ones(self):
        asked = set()
        for operation, id_ in self.of_ids():
            with self.subTest(operation):
                real = self.ask(operation, id_)
                self.assertEqual(real, self.ask(operation, unknown(id_)))
                self.assertEqual(real[0], 404, real)
                asked.add(operation.split("/")[2])
        self.assertEqual(asked, set(self.ids))

    def test_nothing_became_of_it(self):
        for operation, id_ in self.of_ids():
            self.ask(operation, id_)
        for kind, id_ in self.ids.items():
            path = "/v1/agents/crew/sandbox" if kind == "agents" else f"/v1/{kind}/{id_}"
            role = "tenant-admin" if kind in ("keys", "agents") else "agent"
            shown = self.call("GET", path, key=self.keys["a", role], status=200).json()
            self.assertNotIn(shown.get("status"), ("denied", "ended", "cancelled"), shown)
        path = f"/v1/sessions/{self.ids['sessions']}/files/f"
        # The rules of its agent may have changed just now, so that the session moves to another sandbox.
        key = self.keys["a", "agent"]
        files = harness.wait_for("the session", lambda: (answer := self.call("GET", path, key=key)).status != 503 and answer)
        self.assertEqual((files.status, files.body), (200, b"x"))

    def test_an_agent_of_the_same_name_is_another(self):
        for operation in sorted(BY_NAME):
            self.assertIn(self.ask(operation, "crew", "c")[0], (200, 201), operation)
        theirs = self.call("GET", "/v1/agents/crew/sandbox", key=self.keys["a", "tenant-admin"], status=200).json()
        self.assertEqual((theirs["tenant"], theirs["level"]), ("a", "standard"))
        quotas = self.call("GET", "/v1/quotas?agent=crew", key=self.keys["a", "tenant-admin"], status=200).text
        self.assertIn('"sessions":7', quotas.replace(" ", ""))
        own = self.call("GET", "/v1/agents/crew/sandbox", key=self.keys["c", "tenant-admin"], status=200).json()
        self.assertEqual((own["tenant"], own["level"]), ("c", "restricted"))

    def test_lists_hold_ones_own(self):
        """Every list, export and count, plain and with a's names in every documented parameter."""
        ids = [id_ for kind, id_ in self.ids.items() if kind != "agents"] + ["approver-of-a"]
        walked = 0
        for operation in operations():
            method, path = operation.split(" ")
            if method != "GET" or "{" in path or permission(operation) != "none" and not self.role(operation):
                continue
            for query in list_queries(path, (
                    ("tenant", "a"), ("tenant_id", "a"), ("session_id", self.ids["sessions"]),
                    ("execution_id", self.ids["executions"]), ("subject", self.ids["keys"]), ("agent", "crew"))):
                role = self.role(operation)
                with self.subTest(path + query):
                    answer = self.server.request("GET", path + query, headers=SAYS_TENANT,
                                                 key=self.keys["b", role] if role else False)
                    # The web interface leads on, and wants its cookie.
                    others = (303, 401) if path.split("/")[1] in ("", "ui") else ()
                    self.assertIn(answer.status, (200, 403, 404, 405, *others), answer.text)
                    for id_ in ids:
                        # Only a problem repeats a name from the request.
                        if answer.status == 200:
                            self.assertNotIn(id_, answer.text)
                    walked += answer.status == 200
        self.assertGreater(walked, 15)

    def test_streams(self):
        key = {"X-API-Key": self.keys["b", "agent"], **SAYS_TENANT}
        session = self.ids["sessions"]
        for path in (f"/v1/executions/{self.ids['executions']}/events", f"/v1/sessions/{session}/events",
                     f"/v1/sessions/{session}/ports/8000/x"):
            with self.subTest(path):
                for id_ in (path, path.replace(session, session[:-4] + "zzzz")):
                    with websocket.WebSocket(self.server.host, self.server.port, id_, key) as stream:
                        self.assertEqual(stream.status, 404)

    def test_nobody_says_whose_they_are(self):
        """A tenant in a header is nothing, in a body no field, in metadata a word."""
        key, boss = self.keys["b", "agent"], self.keys["b", "tenant-admin"]
        run = {"language": "bash", "code": "true", "metadata": {"tenant_id": "a", "tenant": "a"}}
        done = self.call("POST", "/v1/executions?wait=60", run, headers=SAYS_TENANT, key=key, status=200).json()
        self.call("GET", f"/v1/executions/{done['id']}", key=key, status=200)
        self.call("GET", f"/v1/executions/{done['id']}", key=self.keys["a", "agent"], status=404)
        audit = self.call("GET", "/v1/audit", key=boss, status=200).text
        self.assertIn(done["id"], audit)
        for field in ("tenant", "tenant_id", "principal"):
            for path, body in (("/v1/executions", {"language": "bash", "code": "true"}),
                               ("/v1/sessions", {"language": "bash"}),
                               ("/v1/tool-calls", {"tool_id": "python.execute", "arguments": {"code": "1"}}),
                               ("/v1/escalations", {"operation": "file_read", "path": "/etc/x", "reason": "r"})):
                with self.subTest(f"{field} to {path}"):
                    self.assertProblem(self.call("POST", path, {**body, field: "a"}, key=key), 422, field=field)
        for path in ("/v1/keys", "/v1/agents/x/sandbox?tenant=a"):
            answer = self.call("POST", path, {"tenant": "a", "roles": ["viewer"]} if path == "/v1/keys"
                               else {"level": "standard"}, key=boss)
            self.assertIn(answer.status, (403, 404), answer.text)


class Volume(ApiTest):
    """No number visible to a tenant reveals others' use."""

    @classmethod
    def setUpClass(cls):
        cls.keys = {}
        for tenant in ("quiet", "busy"):
            for role in ("agent", "approver"):
                made = cls.server.request("POST", "/v1/keys", {
                    "tenant": tenant, "name": tenant, "roles": [role],
                    **({"agent": "crew"} if role == "agent" else {"user": "boss"})})
                cls.keys[tenant, role] = made.json()["secret"]

    def run_of(self, tenant):
        return self.call("POST", "/v1/executions?wait=60", {"language": "bash", "code": "true"},
                         key=self.keys[tenant, "agent"], status=200).json()

    def read(self, path, tenant="quiet", role="approver", status=200):
        return self.call("GET", path, key=self.keys[tenant, role], status=status)

    def test_audit(self):
        runs = [self.run_of("quiet")]
        for _ in range(5):
            self.run_of("busy")
        runs.append(self.run_of("quiet"))
        entries = self.read("/v1/audit?limit=1000").json()["entries"]
        self.assertGreaterEqual(len(entries), 6)
        self.assertEqual([entry["seq"] for entry in entries], list(range(1, len(entries) + 1)))
        exported = [json.loads(line) for line in self.read("/v1/audit/export").text.splitlines()]
        self.assertEqual([entry["seq"] for entry in exported[:len(entries)]], list(range(1, len(entries) + 1)))
        for entry in entries + exported:
            self.assertNotIn("position", entry)
        numbers = {entry["hash"]: entry["seq"] for entry in entries}
        for run in runs:
            receipt = self.read(f"/v1/executions/{run['id']}/receipt", role="agent").json()
            for name in ("accepted", "ended"):
                self.assertEqual(receipt["audit"][name]["seq"], numbers[receipt["audit"][name]["hash"]])
        self.assertEqual([entry["seq"] for entry in self.read("/v1/audit?after=2&limit=2").json()["entries"]], [3, 4])
        page = self.read("/v1/audit?order=newest&before=4&limit=2").json()
        self.assertEqual(([entry["seq"] for entry in page["entries"]], page["next_before"]), ([3, 2], 2))
        self.assertEqual(json.loads(self.read("/v1/audit/export?after=3").text.splitlines()[0])["seq"], 4)
        self.assertEqual(self.read(f"/v1/audit?action=execution.*&after={len(entries) + 100}").json()["next_after"], None)

    def test_administrators_see_positions(self):
        self.run_of("quiet")
        entries = [json.loads(line) for line in self.call("GET", "/v1/audit/export", status=200).text.splitlines()]
        self.assertEqual([entry["position"] for entry in entries], list(range(1, len(entries) + 1)))
        self.assertLess(max(entry["seq"] for entry in entries if entry["tenant"] == "quiet"), len(entries))
        page = self.call("GET", "/v1/audit?after=3&limit=1", status=200).json()
        self.assertEqual((page["entries"][0]["position"], page["next_after"]), (4, 4))

    def test_an_agents_audit(self):
        """An administrator of another tenant made its sandbox: the other tenant's numbers are not shown."""
        self.call("POST", "/v1/agents/other/sandbox?tenant=quiet", {"level": "standard"}, status=201)
        for tenant, key in (("quiet", self.keys["quiet", "approver"]), ("all", None)):
            path = "/v1/agents/other/sandbox/audit?tenant=quiet"
            answer = self.call("GET", path, key=key, status=200)
            DOCUMENT.check("GET", path.split("?")[0], answer)
            made = answer.json()["entries"][-1]
            self.assertEqual((made["seq"] is None, "position" in made), (tenant == "quiet", tenant == "all"), made)

    def test_cursors(self):
        ask = {"operation": "file_read", "path": "/etc/x", "reason": "r"}
        for tenant in ("quiet", "busy"):
            for _ in range(2):
                self.run_of(tenant)
                self.call("POST", "/v1/escalations", ask, key=self.keys[tenant, "agent"], status=201)
        cursors = {}
        for kind in ("executions", "escalations"):
            one, two = (self.read(f"/v1/{kind}?limit=1", role="agent").json() for _ in range(2))
            self.assertEqual(one[kind], two[kind])
            self.assertNotEqual(one["next_cursor"], two["next_cursor"], "two of one number are not alike")
            self.assertEqual(len(base64.urlsafe_b64decode(one["next_cursor"])), 48)
            self.assertNotIn(b"before", base64.urlsafe_b64decode(one["next_cursor"]))
            cursors[kind] = one["next_cursor"]
            after = self.read(f"/v1/{kind}?limit=1&cursor={one['next_cursor']}", role="agent").json()
            self.assertEqual(len(after[kind]), 1)
            self.assertNotEqual(after[kind], one[kind])
        forged = base64.b64encode(b"before:2").decode()
        flipped = ("B" if cursors["executions"][0] == "A" else "A") + cursors["executions"][1:]
        for kind, cursor, tenant in (("executions", forged, "quiet"), ("executions", flipped, "quiet"),
                                     ("executions", cursors["escalations"], "quiet"),
                                     ("escalations", cursors["executions"], "quiet"),
                                     ("executions", cursors["executions"], "busy")):
            with self.subTest(f"{kind} {cursor} {tenant}"):
                answer = self.read(f"/v1/{kind}?limit=1&" + harness.query(cursor=cursor), tenant, "agent", status=400)
                self.assertProblem(answer, 400, field="query.cursor")

    def test_escalations(self):
        """The second of a tenant follows its first, however many others request."""
        ask = {"operation": "file_read", "path": "/etc/x", "reason": "r"}
        numbers = []
        for tenant in ("quiet", "busy", "busy", "busy", "quiet"):
            made = self.call("POST", "/v1/escalations", ask, key=self.keys[tenant, "agent"], status=201).json()
            if tenant == "quiet":
                numbers.append(int(made["id"].rsplit("-", 1)[1]))
        self.assertEqual(numbers[1], numbers[0] + 1)


if __name__ == "__main__":
    unittest.main()
