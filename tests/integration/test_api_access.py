# SPDX-License-Identifier: Apache-2.0
"""The HTTP API, every answer checked against spec/openapi.yaml: permissions, keys, the audit log."""

import json
import unittest

import harness
import websocket
from api_case import DOCUMENT, ApiTest, start_server

setUpModule = start_server


class Access(ApiTest):
    def test_needs_a_key(self):
        free = {"/healthz", "/readyz", "/openapi.yaml"}
        for method, template in sorted(DOCUMENT.operations()):
            if template == "/" or template.startswith("/ui"):
                continue  # for browsers: integration/ui_session
            with self.subTest(f"{method} {template}"):
                path = template.replace("{id}", "x")
                answer = self.call(method, path, key=False)
                if template.startswith("/.well-known/"):
                    self.assertEqual(answer.status, 404)  # no identity provider is configured
                elif template in free:
                    self.assertEqual(answer.status, 200)
                elif method == "HEAD":
                    self.assertEqual(answer.status, 401)
                else:
                    self.assertProblem(answer, 401, "PERMISSION_DENIED")
                    self.assertEqual(answer.headers["www-authenticate"], "Bearer")

    def test_both_headers_work(self):
        self.call("GET", "/v1/languages", headers={"X-API-Key": self.server.key}, key=False, status=200)
        self.call("GET", "/v1/languages", headers={"Authorization": f"bearer {self.server.key}"},
                  status=200)
        for bad in ("", "Bearer", f"Basic {self.server.key}", f"Bearer {self.server.key}x",
                    f"Bearer  {self.server.key}", "Bearer " + "x" * 5000):
            with self.subTest(bad[:20]):
                self.call("GET", "/v1/languages", headers={"Authorization": bad}, status=401)

    def test_another_tenants_do_not_exist(self):
        theirs = self.run_code("open('f','w').write('secret'); print('secret')")
        artifact = theirs["artifacts"][0]["id"]
        key = self.new_key("stranger")["secret"]
        unknown_id = theirs["id"][:-4] + "zzzz"
        unknown_artifact = artifact[:-4] + "zzzz"
        for method, path, other in (
                ("GET", f"/v1/executions/{theirs['id']}", f"/v1/executions/{unknown_id}"),
                ("DELETE", f"/v1/executions/{theirs['id']}", f"/v1/executions/{unknown_id}"),
                ("GET", f"/v1/executions/{theirs['id']}/events", f"/v1/executions/{unknown_id}/events"),
                ("GET", f"/v1/executions/{theirs['id']}/logs", f"/v1/executions/{unknown_id}/logs"),
                ("GET", f"/v1/executions/{theirs['id']}/request", f"/v1/executions/{unknown_id}/request"),
                ("GET", f"/v1/artifacts/{artifact}", f"/v1/artifacts/{unknown_artifact}"),
                ("GET", f"/v1/artifacts/{artifact}/content", f"/v1/artifacts/{unknown_artifact}/content")):
            with self.subTest(path):
                answer = self.call(method, path, key=key, status=404)
                unknown = self.call(method, other, key=key, status=404)
                self.assertEqual(answer.body.replace(theirs["id"].encode(), b"ID").replace(
                    artifact.encode(), b"ID"), unknown.body.replace(unknown_id.encode(), b"ID").replace(
                    unknown_artifact.encode(), b"ID"))
        path = f"/v1/executions/{theirs['id']}/events"
        with websocket.WebSocket(self.server.host, self.server.port, path, {"X-API-Key": key}) as socket_:
            self.assertEqual(socket_.status, 404)
        mine = self.call("GET", "/v1/executions?limit=500", key=key).json()["executions"]
        self.assertEqual(mine, [])
        spoofed = self.call("GET", "/v1/executions", headers={"X-Tenant-Id": "default"}, key=key)
        self.assertEqual(spoofed.json()["executions"], [])

    def test_administration_needs_an_administrator(self):
        key = self.new_key("plain")["secret"]
        for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x"),
                             ("GET", "/v1/audit"), ("GET", "/v1/audit/verify"),
                             ("GET", "/v1/audit/export"), ("GET", "/v1/pool")):
            with self.subTest(path):
                answer = self.call(method, path, key=key)
                self.assertProblem(answer, 403, "PERMISSION_DENIED")

    def test_browsers_are_kept_out(self):
        def status(**headers):
            names = {name.title(): value for name, value in headers.items()}
            return self.server.request("GET", "/healthz", headers=names, key=False).status

        own = f"127.0.0.1:{self.server.port}"
        self.assertEqual(status(origin=f"http://{own}"), 200)
        self.assertEqual(status(origin="https://evil.test"), 403)
        self.assertEqual(status(origin="null"), 403)
        self.assertEqual(status(host="evil.test"), 421)
        self.assertEqual(status(host=f"localhost:{self.server.port}"), 200)
        self.assertEqual(status(host="127.0.0.1.evil.test"), 421)


class Keys(ApiTest):
    def test_life_of_a_key(self):
        key = self.new_key("keyed", app="a", agent="b", user="c")
        done = self.run_code(":", "bash", key=key["secret"])
        self.assertEqual(done["principal"],
                         {"tenant": "keyed", "app": "a", "agent": "b", "user": "c"})
        listed = self.call("GET", "/v1/keys", status=200)
        self.assertNotIn(key["secret"], listed.text)
        self.assertIn(key["id"], [k["id"] for k in listed.json()["keys"]])
        self.call("DELETE", f"/v1/keys/{key['id']}", status=204)
        self.call("GET", "/v1/executions", key=key["secret"], status=401)
        self.call("DELETE", "/v1/keys/key_none", status=404)
        revoked = [k for k in self.call("GET", "/v1/keys").json()["keys"] if k["id"] == key["id"]]
        self.assertIsNotNone(revoked[0]["revoked_at"])

    def test_expires(self):
        key = self.new_key("brief", expires_in_seconds=1)
        self.assertIsNotNone(key["expires_at"])
        harness.wait_for("the key to expire", lambda: self.call(
            "GET", "/v1/languages", key=key["secret"]).status == 401, 10)

    def test_refusals(self):
        for field, body in {"tenant": {"name": "x"}, "role": {"tenant": "t", "role": "root"},
                            "extra": {"tenant": "t", "extra": 1},
                            "name": {"tenant": "t", "name": "x" * 200},
                            "user": {"tenant": "t", "user": "a\nb"},
                            "expires_in_seconds": {"tenant": "t", "expires_in_seconds": 0}}.items():
            with self.subTest(field):
                self.assertProblem(self.call("POST", "/v1/keys", body), 422, field=field)
        for field in ("tenant", "app", "agent", "user"):
            for name in ("sam ", " sam", "sam\u00a0", "\u3000sam", " "):
                refused = self.call("POST", "/v1/keys", {"tenant": "t", field: name})
                self.assertProblem(refused, 422, field=field)
                self.assertIn("send the name without it", refused.json()["detail"])
        self.call("POST", "/v1/keys", {"tenant": "t", "user": "Sam Smith"}, status=201)
        reserved = self.call("POST", "/v1/keys", {"tenant": "t", "name": "admin.key"})
        self.assertProblem(reserved, 422, field="name")

    def test_a_new_admin_key_replaces_the_old(self):
        with harness.Server() as server:
            old = server.key
            server.stop()
            (server.state / "admin.key").unlink()
            server.start()
            self.assertNotEqual(server.key, old)
            self.assertEqual(server.request("GET", "/v1/keys").status, 200)
            self.assertEqual(server.request("GET", "/v1/keys", key=old).status, 401)

    def test_secrets_stay_out_of_the_log(self):
        key = self.new_key("quiet")["secret"]
        self.call("GET", "/v1/executions", key=key + "x", status=401)
        log = self.server.log.read_text(errors="replace")
        self.assertNotIn(key, log)
        self.assertNotIn(self.server.key, log)


class Audit(ApiTest):
    def test_list_export_verify(self):
        done = self.run_code(":", "bash")
        lines = self.call("GET", "/v1/audit/export", status=200).text.splitlines()
        entries = [json.loads(line) for line in lines]
        for entry in entries:
            DOCUMENT.validate(entry, "AuditEntry")
        self.assertEqual([e["position"] for e in entries], list(range(1, len(entries) + 1)))
        actions = [e["action"] for e in entries if e["subject"] == done["id"]]
        self.assertEqual(actions, ["execution.accepted", "execution.started", "execution.finished"])
        paged, after = [], 0
        while after is not None and len(paged) < len(entries):
            page = self.call("GET", f"/v1/audit?after={after}&limit=7", status=200).json()
            paged += page["entries"]
            after = page["next_after"]
        self.assertEqual(paged[:len(entries)], entries)
        rest = self.call("GET", f"/v1/audit/export?after={len(entries) - 2}").text.splitlines()
        self.assertEqual(rest[:2], lines[-2:])
        report = self.call("GET", "/v1/audit/verify", status=200).json()
        self.assertTrue(report["ok"], report)
        newest = self.call("GET", "/v1/audit?order=newest&limit=1000", status=200).json()
        self.assertEqual([e["position"] for e in newest["entries"]],
                         sorted((e["position"] for e in newest["entries"]), reverse=True))
        self.assertGreaterEqual(newest["entries"][0]["position"], entries[-1]["position"])
        about = self.call("GET", f"/v1/audit?execution_id={done['id']}", status=200).json()["entries"]
        self.assertEqual([e["action"] for e in about], actions)
        kind = self.call("GET", "/v1/audit?action=execution.*&limit=1000", status=200).json()["entries"]
        self.assertEqual({e["action"].split(".")[0] for e in kind}, {"execution"})
        self.assertEqual(self.call("GET", "/v1/audit?by=nobody", status=200).json()["entries"], [])
        self.assertEqual(self.call("GET", "/v1/audit?until=1971-01-01", status=200).json()["entries"], [])
        self.assertTrue(self.call("GET", "/v1/audit?since=1971-01-01T00:00:00%2B01:00", status=200).json()["entries"])
        for query in ("order=up", "action=Run", "action=accepted", "action=.x", "action=x.", "action=*x", "since=yesterday", "until=2026-02-30", "before=0"):
            field = "query." + query.split("=")[0]
            self.assertProblem(self.call("GET", f"/v1/audit?{query}"), 400, field=field)
        self.assertGreaterEqual(report["entries"], len(entries))


if __name__ == "__main__":
    unittest.main()
