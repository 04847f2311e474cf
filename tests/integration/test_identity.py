# SPDX-License-Identifier: Apache-2.0
"""Permissions: every role against every route, and keys that give no more than their maker has."""

import datetime
import itertools
import re
import unittest

import harness
import websocket
from api_case import CONFIG, DOCUMENT, ApiTest

ROLES = ("viewer", "agent", "operator", "approver", "tenant-admin", "admin", "metrics")


def setUpModule():
    ApiTest.server = harness.Server(config=CONFIG + "auth:\n  failures_per_minute: 100000\n")
    unittest.enterModuleContext(ApiTest.server)


def documented():
    """{permission: roles}, of docs/IDENTITY.md."""
    text = (harness.REPO / "docs" / "IDENTITY.md").read_text()
    rows = re.findall(r"^\| `([a-z.]+)` \|[^|]*\|(.*)\|$", text, re.MULTILINE)
    return {name: [role for role, cell in zip(ROLES, cells.split("|")) if cell.strip()]
            for name, cells in rows}


def operations():
    """Every (method, template, permission) with a permission."""
    for method, template in sorted(DOCUMENT.operations()):
        operation = DOCUMENT.root["paths"][template][method.lower()]
        if operation["x-permission"] != "none":
            yield method, template, operation["x-permission"]


def fill(template, value):
    return re.sub(r"\{[^}]+\}", value, template)


class IdentityCase(ApiTest):
    def secret(self, *roles, tenant="acme", **more):
        return self.new_key(tenant, roles=list(roles), **more)["secret"]


class Roles(IdentityCase):
    def test_every_role_at_every_route(self):
        """403 with the permission's name without the permission; with it, anything but 401 and 403."""
        table = documented()
        keys = {role: self.secret(role) for role in ROLES}
        # The operation's effect does not matter here, and must not disturb other tests.
        for (method, template, permission), role in itertools.product(operations(), ROLES):
            if (method, template) == ("DELETE", "/v1/tenants/{id}/artifacts") and role == "admin":
                continue
            with self.subTest(f"{role}: {method} {template}"):
                answer = self.server.request(method, fill(template, "x"), key=keys[role])
                if role in table[permission]:
                    self.assertNotIn(answer.status, (401, 403), answer.text)
                elif method == "HEAD":
                    self.assertEqual(answer.status, 403)
                else:
                    problem = self.assertProblem(answer, 403, "PERMISSION_DENIED")
                    self.assertEqual(problem["error"]["details"]["permission"], permission)
                    self.assertIn(permission, problem["detail"])

    def test_who_may_not_run_cannot_write_over_the_web_socket(self):
        agent, viewer = self.secret("agent"), self.secret("viewer")
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, key=agent, status=201).json()["id"]
        run = self.call("POST", f"/v1/sessions/{session}/exec", key=agent, status=202,
                        body={"command": ["cat"], "keep_input": True, "background": True}).json()["id"]
        path = f"/v1/executions/{run}/events"
        for message in ('{"type": "input", "data": "x"}', '{"type": "signal", "signal": "SIGKILL"}'):
            with websocket.WebSocket(self.server.host, self.server.port, path,
                                     {"Authorization": f"Bearer {viewer}"}) as stream:
                stream.send(websocket.TEXT, message.encode())
                for told in stream.messages():
                    self.assertNotIn('"completed"', told)
                self.assertEqual(stream.closed, 1008)
        revoked = self.new_key("acme", roles=["agent"])
        with websocket.WebSocket(self.server.host, self.server.port, path,
                                 {"Authorization": f"Bearer {revoked['secret']}"}) as stream:
            self.call("DELETE", f"/v1/keys/{revoked['id']}", status=204)
            stream.send(websocket.TEXT, b'{"type": "input", "data": "x"}')
            self.assertFalse([told for told in stream.messages() if '"completed"' in told])
            self.assertEqual(stream.closed, 1008)
        done = self.call("GET", f"/v1/executions/{run}", key=agent, status=200).json()
        self.assertEqual((done["status"], done["stdout"]), ("running", ""))
        self.call("DELETE", f"/v1/sessions/{session}", key=agent)

    def test_a_permission_does_not_depend_on_what_exists(self):
        done = self.run_code("print(1)")
        viewer = self.secret("viewer", tenant="default")
        answers = {self.server.request("DELETE", f"/v1/executions/{id_}", key=viewer).text
                   for id_ in (done["id"], done["id"][:-3] + "zzz", "x")}
        self.assertEqual(len(answers), 1)

    def test_whoami(self):
        for role in ROLES:
            who = self.call("GET", "/v1/whoami", key=self.secret(role, user="u"), status=200).json()
            self.assertEqual((who["tenant"], who["user"], who["roles"]), ("acme", "u", [role]))
            self.assertEqual(set(who["permissions"]),
                             {name for name, roles in documented().items() if role in roles})
        two = self.call("GET", "/v1/whoami", key=self.secret("viewer", "operator"), status=200).json()
        self.assertIn("pool.read", two["permissions"])
        self.assertIn("file.read", two["permissions"])


class Keys(IdentityCase):
    def test_roles_that_do_not_go_together(self):
        for roles in (["agent", "approver"], ["tenant-admin", "agent"], ["admin", "viewer"], ["root"],
                      ["approver", "tenant-admin", "viewer"]):
            answer = self.call("POST", "/v1/keys", {"tenant": "t", "roles": roles})
            self.assertProblem(answer, 422, field="roles")
        self.assertProblem(self.call("POST", "/v1/keys", {"tenant": "t", "roles": ["agent"],
                                                          "role": "agent"}), 422, field="role")

    def test_nobody_makes_a_key_stronger_than_their_own(self):
        keeper = self.secret("tenant-admin")

        def make(key=keeper, **body):
            return self.call("POST", "/v1/keys", body, key=key)

        made = make(role="agent")
        self.assertEqual((made.status, made.json()["tenant"]), (201, "acme"))
        self.assertEqual(make(tenant="acme", role="tenant-admin").status, 201)
        for body in ({"role": "admin"}, {"role": "operator"}, {"role": "metrics"}, {"role": "agent", "tenant": "rival"},
                     {"roles": ["viewer", "operator"]}):
            self.assertProblem(make(**body), 403, "PERMISSION_DENIED")
        admin = self.new_key("acme", role="admin")
        for method, path in (("DELETE", ""), ("POST", ":rotate")):
            answer = self.call(method, f"/v1/keys/{admin['id']}{path}", {} if path else None, key=keeper)
            self.assertProblem(answer, 403, "PERMISSION_DENIED")
        self.call("DELETE", f"/v1/keys/{admin['id']}", status=204)
        brief = self.secret("tenant-admin", expires_in_seconds=600, networks=["127.0.0.0/8"])
        inside = {"networks": ["127.0.0.1"], "expires_in_seconds": 300}
        self.assertEqual(make(brief, **inside).status, 201)
        for field, change in {"expires_in_seconds": {"expires_in_seconds": 6000},
                              "networks": {"networks": ["0.0.0.0/0"]}}.items():
            self.assertProblem(make(brief, **{**inside, **change}), 403, "PERMISSION_DENIED", field)
        self.assertProblem(make(brief, networks=["127.0.0.1"]), 403, "PERMISSION_DENIED")
        self.assertProblem(make(brief, expires_in_seconds=300), 403, "PERMISSION_DENIED")

    def test_addresses(self):
        near = self.secret("agent", networks=["127.0.0.1", "2001:db8::/32"])
        far = self.secret("agent", networks=["10.0.0.0/8"])
        self.call("GET", "/v1/whoami", key=near, status=200)
        refused = self.call("GET", "/v1/whoami", key=far, status=401)
        self.assertEqual(refused.json(), self.call("GET", "/v1/whoami", key="clo_x").json())
        for bad in (["10.0.0.1/8"], ["x"], ["10.0.0.0/33"], [7], ["::/0"] * 33):
            answer = self.call("POST", "/v1/keys", {"tenant": "t", "networks": bad})
            self.assertProblem(answer, 422, field="networks")

    def test_rotation(self):
        old = self.new_key("acme", roles=["viewer"], networks=["127.0.0.0/8"])
        new = self.call("POST", f"/v1/keys/{old['id']}:rotate", {"overlap_seconds": 2}, status=201).json()
        self.assertEqual((new["replaces"], new["roles"], new["networks"], new["tenant"]),
                         (old["id"], old["roles"], old["networks"], "acme"))
        self.assertNotEqual(new["secret"], old["secret"])
        self.call("GET", "/v1/whoami", key=new["secret"], status=200)
        harness.wait_for("the overlap to end", lambda: self.call(
            "GET", "/v1/whoami", key=old["secret"]).status == 401, 15)
        self.call("GET", "/v1/whoami", key=new["secret"], status=200)
        again = self.call("POST", f"/v1/keys/{old['id']}:rotate", {}, status=409)
        self.assertIn(f"rotate {new['id']}, which succeeded it", again.text)
        for key, by in ((old["id"], [new["id"]]), (new["id"], [])):
            self.assertEqual(self.call("GET", f"/v1/keys/{key}", status=200).json()["replaced_by"], by)
        listed = self.call("GET", "/v1/keys", status=200).json()["keys"]
        self.assertEqual(next(row["replaced_by"] for row in listed if row["id"] == old["id"]), [new["id"]])
        own = self.call("GET", "/v1/whoami").json()["credential"]
        self.call("POST", f"/v1/keys/{own}:rotate", {}, status=409)
        at_once = self.call("POST", f"/v1/keys/{new['id']}:rotate", {"overlap_seconds": 0}, status=201)
        self.call("GET", "/v1/whoami", key=new["secret"], status=401)
        self.call("GET", "/v1/whoami", key=at_once.json()["secret"], status=200)

    def test_a_second_rotation_gives_the_same_life(self):
        """The first rotation ends the old key with its overlap, and a repeated one must not hand on that short life."""
        def life(key):
            if key["expires_at"] is None:
                return None
            begin, end = (datetime.datetime.fromisoformat(key[name]) for name in ("created_at", "expires_at"))
            return round((end - begin).total_seconds())

        for asked, expected in (({}, None), ({"expires_in_seconds": 864000}, 864000)):
            old = self.new_key("acme", role="viewer", **asked)
            for _ in range(2):
                new = self.call("POST", f"/v1/keys/{old['id']}:rotate", {"overlap_seconds": 3600}, status=201).json()
                self.assertEqual(life(new), expected)
            other = self.call("POST", f"/v1/keys/{old['id']}:rotate", {"expires_in_seconds": 7200}, status=201).json()
            self.assertEqual(life(other), 7200)
            again = self.call("POST", f"/v1/keys/{old['id']}:rotate", {}, status=201).json()
            self.assertEqual(life(again), expected)

    def test_the_last_administrator(self):
        own = self.call("GET", "/v1/whoami").json()["credential"]
        self.call("DELETE", f"/v1/keys/{own}", status=409)
        other = self.new_key("ops", role="admin")
        self.call("DELETE", f"/v1/keys/{other['id']}", status=204)

    def test_last_use(self):
        key = self.new_key("acme", role="viewer")
        self.assertIsNone(key["last_used_at"])
        self.call("GET", "/v1/whoami", key=key["secret"], status=200)
        used = harness.wait_for("its use to be noted", lambda: self.call(
            "GET", f"/v1/keys/{key['id']}", status=200).json()["last_used_at"])
        self.assertGreaterEqual(used, key["created_at"], "not before it was made")
        if used != key["created_at"]:
            self.assertRegex(used, r":(00|15|30|45):00\.000Z$")

    def test_command_line(self):
        made = self.server.cli("key", "create", "--tenant", "acme", "--role", "viewer", "--role",
                               "operator", "--from", "127.0.0.0/8", "--expires-in-days", "2")
        self.assertEqual(made.returncode, 0, made.stderr)
        secret = made.stdout.strip()
        who = self.server.cli("whoami", env={"CLOISTER_API_KEY": secret})
        self.assertIn("viewer, operator", who.stdout)
        self.assertIn("127.0.0.0/8", who.stdout)
        id_ = re.search(r"key_[0-9a-z]{26}", made.stderr).group()
        self.assertRegex(made.stderr, r"for tenant acme, which expires at 20\S+Z; its secret")
        lasting = self.server.cli("key", "create", "--tenant", "acme")
        self.assertIn("which never expires; its secret is not shown again", lasting.stderr)
        self.assertIn("viewer, operator", self.server.cli("key", "show", id_).stdout)
        rotated = self.server.cli("key", "rotate", "--overlap-hours", "0", id_)
        self.assertRegex(rotated.stdout, r"^clo_[0-9a-f]{64}\n$")
        self.assertNotEqual(self.server.cli("whoami", env={"CLOISTER_API_KEY": secret}).returncode, 0)
        refused = self.server.cli("pool", env={"CLOISTER_API_KEY": self.secret("viewer")})
        self.assertIn("pool.read", refused.stderr)


class Attempts(unittest.TestCase):
    def test_wrong_credentials_are_limited(self):
        with harness.Server(config="auth:\n  failures_per_minute: 20\n") as server:
            def status(key):
                return server.request("GET", "/v1/whoami", key=key).status

            good = server.key
            stranger = server.request("POST", "/v1/keys", {"tenant": "t"}).json()["secret"]
            answers = [status(f"clo_{i:064x}") for i in range(60)]
            self.assertEqual(answers[:20], [401] * 20)
            self.assertIn(429, answers)
            limited = server.request("GET", "/v1/whoami", key="clo_wrong")
            while limited.status != 429:  # its bucket was being refilled meanwhile
                limited = server.request("GET", "/v1/whoami", key="clo_wrong")
            self.assertGreaterEqual(int(limited.headers["retry-after"]), 1)
            self.assertEqual(limited.json()["error"]["type"], "QUOTA_EXCEEDED")
            for key in (good, stranger):
                self.assertEqual(status(key), 200, "nobody is shut out by a neighbour")
            self.assertEqual(status(False), 401, "no credential is no guess")
            harness.wait_for("the address to be let off", lambda: status("clo_wrong") == 401, 20)


if __name__ == "__main__":
    unittest.main()
