# SPDX-License-Identifier: Apache-2.0
"""People in browsers: signing in to the web interface, its cookie as a credential, and its files."""

import contextlib
import gzip
import http.client
import json
import socket
import tempfile
import time
import unittest

import harness
import ui_case
from held import WEBSOCKET, Held
from session_case import Session
from test_tls import SERVER_NAMES, Authority, config_of
from ui_case import Browser, share_with_files

COOKIE = "cloister_ui"
SECONDS = 1  # docs/IDENTITY.md: everything ends within
SECURE = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloister.test"}


class Case(unittest.TestCase):
    def refused(self, answer, status, *words):
        self.assertEqual(answer.status, status, answer.text)
        for word in words:
            self.assertIn(word, answer.text)


class ByKey(Case):
    @classmethod
    def setUpClass(cls):
        cls.share = cls.enterClassContext(share_with_files())
        cls.server = cls.enterClassContext(harness.Server(env={"CLOISTER_SHARE": str(cls.share)}))

    def browser(self, key=None, **headers):
        browser = Browser(self.server, **headers)
        browser.sign_in(key or self.server.key)
        return browser

    def key(self, **fields):
        made = self.server.request("POST", "/v1/keys", {"tenant": "acme", "role": "agent", **fields}).json()
        return made["secret"], made["id"]

    # - signing in and out -

    def test_signing_in_gives_a_cookie_and_a_token(self):
        browser = Browser(self.server)
        answer = browser.sign_in(self.server.key)
        self.assertRegex(answer.headers["set-cookie"], rf"^{COOKIE}=[0-9a-f]{{64}}; Path=/; HttpOnly; SameSite=Strict$")
        body = answer.json()
        self.assertEqual(set(body), {"principal", "csrf", "expires_at"})
        self.assertEqual(body["principal"], self.server.request("GET", "/v1/whoami").json())
        self.assertEqual(browser.get("/ui/session").json(), body)
        self.assertEqual(browser.get("/v1/whoami").json(), body["principal"])
        made = browser.send("POST", "/v1/executions?wait=30", {"language": "bash", "code": "echo hi"})
        self.assertEqual((made.status, made.json()["stdout"]), (200, "hi\n"))
        self.assertEqual(browser.send("DELETE", "/ui/session").status, 204)
        for path in ("/ui/session", "/v1/whoami"):
            self.refused(browser.get(path), 401)

    def test_strangers_send_little(self):
        answer = self.server.request("POST", "/ui/session", {"key": "x" * 100_000}, key=False)
        self.assertEqual(answer.status, 413, "held for nobody's account")

    def test_slow_readers_cost_little(self):
        pid = self.server.pid_of("cloisterd")
        size = len(self.server.request("GET", "/openapi.yaml", key=False).body)
        self.assertGreater(size, 200_000)
        before = harness.memory_of(pid)
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                reader = stack.enter_context(socket.socket())
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.connect((self.server.host, self.server.port))
                reader.sendall(f"GET /openapi.yaml HTTP/1.1\r\nHost: {self.server.host}:{self.server.port}\r\n\r\n".encode())
                reader.recv(1)  # the answer has begun
            self.assertLess(harness.memory_of(pid) - before, 200 * size / 3)

    def test_sign_ins_are_in_the_audit_log_and_the_cookie_is_nowhere(self):
        secret, key = self.key()
        browser = self.browser(secret)
        cookie = browser.cookies[COOKIE]
        browser.send("DELETE", "/ui/session")
        Browser(self.server).sign_in("clo_" + "0" * 64, status=401)
        rows = self.server.request("GET", "/v1/audit?action=ui.*&order=newest&limit=50").json()["entries"]
        actions = [(row["action"], row["key"]) for row in rows]
        self.assertIn(("ui.signed_in", key), actions)
        self.assertIn(("ui.signed_out", key), actions)
        refused = next(row for row in rows if row["action"] == "ui.sign_in_refused")
        self.assertEqual((refused["tenant"], refused["details"]["by"]), ("system", "key"))
        found = [path for path in self.server.state.rglob("*") if path.is_file() and cookie.encode() in path.read_bytes()]
        self.assertEqual(found, [])

    def test_what_is_no_key_signs_nobody_in(self):
        browser = Browser(self.server)
        self.refused(browser.sign_in("wrong", status=401), 401)
        self.refused(browser.sign_in("", status=422), 422, "key: required")
        for body in ({"key": 1}, {}, {"key": self.server.key, "more": 1}, []):
            self.assertIn(browser.send("POST", "/ui/session", body).status, (400, 422))
        self.assertEqual(browser.send("POST", "/ui/session", {"key": "x" * 5000}).status, 413)
        self.assertEqual(browser.cookies, {})

    def test_signing_in_again_ends_the_older_session(self):
        browser = self.browser()
        old = dict(browser.cookies)
        browser.sign_in(self.server.key)
        self.assertNotEqual(browser.cookies, old)
        self.refused(Browser(self.server, cookies=old).get("/v1/whoami"), 401)

    def test_a_session_survives_a_restart(self):
        browser = self.browser()
        self.server.stop()
        self.server.start()
        self.assertEqual(browser.get("/ui/session").status, 200)

    # - what else a request must show -

    def test_unsafe_methods_need_origin_and_token(self):
        browser = self.browser()
        port = self.server.port
        wrong_origins = [None, "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}", "http://127.0.0.1",
                         f"http://localhost:{port}", f"http://127.0.0.1:{port}.evil.test", f"http://evil.test/?http://127.0.0.1:{port}",
                         f"http://127.0.0.1:{port}/", f"http://x@127.0.0.1:{port}", f"http://127.0.0.1:{port}, http://evil.test", ""]
        for method, path in (("POST", "/v1/executions"), ("DELETE", "/v1/keys/key_none"), ("PUT", "/v1/secrets/a"),
                             ("DELETE", "/ui/session")):
            for origin in wrong_origins:
                with self.subTest(method=method, origin=origin):
                    self.refused(browser.send(method, path, {} if method != "DELETE" else None, origin=origin), 403, "Origin")
            for csrf in (None, "", "0" * 64, browser.csrf[:-1], browser.csrf + "0", browser.cookies[COOKIE]):
                with self.subTest(method=method, csrf=csrf):
                    self.refused(browser.send(method, path, {} if method != "DELETE" else None, csrf=csrf), 403, "X-CSRF-Token")
        other = self.browser()
        self.refused(browser.send("DELETE", "/v1/keys/key_none", csrf=other.csrf), 403, "X-CSRF-Token")
        self.assertEqual(browser.send("DELETE", "/v1/keys/key_none").status, 404)

    def test_other_sites_reads_are_refused(self):
        browser = self.browser()
        for site in ("cross-site", "same-site", "none", "nonsense"):
            self.refused(browser.get("/v1/whoami", **{"Sec-Fetch-Site": site}), 403, "Sec-Fetch-Site")
            self.refused(browser.get("/ui/session", **{"Sec-Fetch-Site": site}), 403, "Sec-Fetch-Site")
        self.assertEqual(browser.get("/v1/whoami", **{"Sec-Fetch-Site": "same-origin"}).status, 200)
        self.refused(browser.sign_in(self.server.key, status=403, **{"Sec-Fetch-Site": "cross-site"}), 403)

    def test_a_shown_key_comes_before_the_cookie(self):
        browser = self.browser()
        self.refused(browser.get("/v1/whoami", Authorization="Bearer clo_wrong"), 401)
        self.refused(browser.get("/v1/whoami", **{"X-API-Key": "clo_wrong"}), 401)
        secret, key = self.key()
        self.assertEqual(browser.get("/v1/whoami", Authorization=f"Bearer {secret}").json()["credential"], key)

    def test_forms_of_the_cookie(self):
        good = self.browser().cookies[COOKIE]
        ask = lambda cookie: self.server.request("GET", "/v1/whoami", headers={"Cookie": cookie}, key=False).status  # noqa: E731
        self.assertEqual(ask(f"{COOKIE}={good}"), 200)
        self.assertEqual(ask(f"a=b;  {COOKIE}={good} ;c"), 200)
        for cookie in (f"__Host-cloister={good}", f"{COOKIE}=x; {COOKIE}={good}", f"{COOKIE}={good}; {COOKIE}={good}",
                       f"{COOKIE.upper()}={good}", f"{COOKIE}=\"{good}\"", f"{COOKIE}={good[:-1]}", f"{COOKIE}={'0' * 64}",
                       f"{COOKIE}=", f"x{COOKIE}={good}", f"{COOKIE}={good.upper()}", ""):
            with self.subTest(cookie):
                self.assertEqual(ask(cookie), 401)

    def test_a_websocket_needs_the_origin(self):
        browser = self.browser()
        made = browser.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 30"}).json()
        path = f"/v1/executions/{made['id']}/events"
        try:
            for origin in ("null", f"http://127.0.0.1:{self.server.port + 1}", f"https://127.0.0.1:{self.server.port}", None):
                headers = {**WEBSOCKET, "Cookie": browser.cookie, **({"Origin": origin} if origin else {})}
                self.assertEqual(self.server.request("GET", path, headers=headers, key=False).status, 403, origin)
            Held(self.server, "GET", path, headers={**WEBSOCKET, "Cookie": browser.cookie, "Origin": self.server.url},
                 until=b"101 Switching").close()
        finally:
            browser.send("DELETE", f"/v1/executions/{made['id']}")

    # - where the cookie is no credential -

    def test_bytes_of_sandboxes_are_for_scripts_alone(self):
        browser = self.browser()
        done = browser.send("POST", "/v1/executions?wait=30", {
            "language": "bash", "code": "echo '<script>alert(1)</script>' > page.html", "artifacts": ["**"]}).json()
        kept = f"/v1/artifacts/{done['artifacts'][0]['id']}/content"
        with Session(self.server, language="bash") as session:
            session.call("PUT", "/files/page.html", b"<script></script>", status=200)
            base = f"/v1/sessions/{session.id}"
            for path in (kept, f"{base}/files/page.html", f"{base}/archive", f"/v1/executions/{done['id']}/logs", "/v1/audit/export"):
                for dest in ("document", "iframe", "script", "image", "object", "worker", None):
                    with self.subTest(path=path, dest=dest):
                        self.refused(browser.get(path, **({"Sec-Fetch-Dest": dest} if dest else {})), 403, "Sec-Fetch-Dest")
                self.assertEqual(browser.get(path, **{"Sec-Fetch-Dest": "empty"}).status, 200, path)
            self.assertEqual(browser.get(f"{base}", **{"Sec-Fetch-Dest": "document"}).status, 200, "an answer of ours")

    def test_ports_and_other_interfaces_take_no_cookie(self):
        browser = self.browser()
        with Session(self.server, language="python", memory_mb=256) as session:
            session.wait_output(session.start(ui_case.ECHO, timeout_seconds=600), "ready")
            path = f"/v1/sessions/{session.id}/ports/8020"
            for method in ("GET", "POST", "DELETE"):
                self.refused(browser.send(method, f"{path}/x"), 401)
            self.refused(browser.get(f"{path}/x", **{"Sec-Fetch-Dest": "empty"}), 401)
            token = browser.send("POST", f"{path}/tokens", {}).json()
            seen = browser.get(token["path"] + "x")
            self.assertEqual(seen.status, 200)
            self.assertNotIn(browser.cookies[COOKIE], seen.text)
            self.assertNotIn("set-cookie", seen.headers)
        for method, target in (("POST", "/mcp"), ("GET", "/e2b/sandboxes"), ("GET", "/v1/x/../whoami")):
            self.assertIn(browser.send(method, target, {} if method == "POST" else None).status, (401, 404), target)
        self.refused(browser.get("/metrics"), 401)

    # - the end -

    def test_a_revoked_key_is_signed_out(self):
        secret, key = self.key()
        browser = self.browser(secret)
        made = browser.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 30"}).json()
        path = f"/v1/executions/{made['id']}/events"
        stream = Held(self.server, "GET", path, headers={"Cookie": browser.cookie}, until=b"data:")
        socket = Held(self.server, "GET", path, headers={**WEBSOCKET, "Cookie": browser.cookie, "Origin": self.server.url},
                      until=b"101 Switching")
        self.assertTrue(stream.goes_on() and socket.goes_on())
        self.server.request("DELETE", f"/v1/keys/{key}")
        since = time.monotonic()
        harness.wait_for("the streams to end", lambda: not stream.goes_on() and not socket.goes_on(), SECONDS)
        self.refused(browser.get("/ui/session"), 401)
        self.refused(browser.get("/v1/whoami"), 401)
        self.assertLess(time.monotonic() - since, harness.limit(SECONDS))

    def test_signing_out_ends_its_streams_alone(self):
        secret, _ = self.key()
        one, two = self.browser(secret), self.browser(secret)
        made = one.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 30"}).json()
        path = f"/v1/executions/{made['id']}/events"
        mine = Held(self.server, "GET", path, headers={"Cookie": one.cookie}, until=b"data:")
        other = Held(self.server, "GET", path, headers={"Cookie": two.cookie}, until=b"data:")
        one.send("DELETE", "/ui/session")
        harness.wait_for("the stream to end", lambda: not mine.goes_on(), SECONDS)
        self.assertTrue(other.goes_on())
        two.send("DELETE", f"/v1/executions/{made['id']}")

    def test_an_administrator_ends_a_session(self):
        secret, key = self.key()
        one, two = self.browser(secret), self.browser(secret)
        boss = self.server.request("POST", "/v1/keys", {"tenant": "acme", "role": "tenant-admin", "user": "boss"}).json()["secret"]
        stranger = self.server.request("POST", "/v1/keys", {"tenant": "rival", "role": "tenant-admin"}).json()["secret"]
        made = one.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 30"}).json()
        stream = Held(self.server, "GET", f"/v1/executions/{made['id']}/events", headers={"Cookie": one.cookie}, until=b"data:")
        shown = [each for each in self.server.request("GET", "/v1/sign-ins", key=boss).json()["sign_ins"] if each["key_id"] == key]
        self.assertEqual(len(shown), 2)
        self.assertEqual((shown[0]["tenant"], shown[0]["issuer"]), ("acme", None))
        self.assertNotIn(one.cookies[COOKIE], json.dumps(shown))
        self.assertEqual(self.server.request("GET", "/v1/sign-ins", key=stranger).json()["sign_ins"], [])
        self.assertEqual(self.server.request("GET", "/v1/sign-ins", key=secret).status, 403)
        first = shown[-1]["id"]
        self.assertEqual(self.server.request("DELETE", f"/v1/sign-ins/{first}", key=stranger).status, 404)
        self.assertEqual(self.server.request("DELETE", f"/v1/sign-ins/{first}", key=secret).status, 403)
        admin, high = self.key(role="admin")
        self.browser(admin)
        theirs = [each["id"] for each in self.server.request("GET", "/v1/sign-ins").json()["sign_ins"] if each["key_id"] == high]
        self.assertEqual(self.server.request("DELETE", f"/v1/sign-ins/{theirs[0]}", key=boss).status, 403, "a stronger person")
        self.assertTrue(stream.goes_on())
        self.assertEqual(self.server.request("DELETE", f"/v1/sign-ins/{first}", key=boss).status, 204)
        harness.wait_for("the stream to end", lambda: not stream.goes_on(), SECONDS)
        self.refused(one.get("/v1/whoami"), 401)
        self.assertEqual(two.get("/v1/whoami").status, 200)
        self.assertEqual(self.server.request("DELETE", f"/v1/sign-ins/{first}", key=boss).status, 404)
        rows = self.server.request("GET", "/v1/audit?action=ui.sign_in_ended&limit=5").json()["entries"]
        self.assertEqual([(row["subject"], row["user"]) for row in rows], [(first, "boss")])

    def test_the_command_ends_a_session(self):
        secret, key = self.key(user="carl")
        browser = self.browser(secret)
        listed = self.server.cli("sign-in", "list", "--json")
        found = [each for each in json.loads(listed.stdout)["sign_ins"] if each["key_id"] == key]
        self.assertEqual([each["user"] for each in found], ["carl"])
        self.assertIn("carl", self.server.cli("sign-in", "list").stdout)
        self.assertEqual(self.server.cli("sign-in", "end", found[0]["id"]).stdout, f"{found[0]['id']}: signed out\n")
        self.refused(browser.get("/v1/whoami"), 401)
        self.assertEqual(self.server.cli("sign-in", "end", found[0]["id"]).returncode, 4)

    def test_an_expired_key_is_signed_out_and_a_rotated_key_is_not(self):
        secret, key = self.key(expires_in_seconds=2)
        browser = self.browser(secret)
        harness.wait_for("the key to end", lambda: browser.get("/ui/session").status == 401, 4)
        secret, key = self.key()
        browser = self.browser(secret)
        self.server.request("POST", f"/v1/keys/{key}:rotate", {"overlap_seconds": 0})
        self.assertEqual(browser.get("/ui/session").status, 200)

    def test_a_key_s_networks_hold(self):
        secret, _ = self.key(networks=["10.0.0.0/8"])
        self.refused(Browser(self.server).sign_in(secret, status=401), 401)

    # - files -

    def test_files_of_the_interface(self):
        ask = lambda path, **headers: self.server.request("GET", path, headers=headers, key=False)  # noqa: E731
        index = ask("/ui/")
        self.assertEqual((index.status, index.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertIn('<base href="/ui/">', index.text)
        self.assertEqual(index.headers["cache-control"], "no-cache")
        for path in ("/ui/approvals", "/ui/executions/exec_1?tab=log", "/ui/index.html", "/ui/a/b/c"):
            self.assertEqual(ask(path).body, index.body, path)
        script = ask("/ui/assets/app-1a2b.js")
        self.assertEqual((script.status, script.headers["content-type"]), (200, "text/javascript; charset=utf-8"))
        self.assertEqual(script.headers["cache-control"], "public, max-age=31536000, immutable")
        packed = ask("/ui/assets/app-1a2b.js", **{"Accept-Encoding": "br, gzip;q=0.5"})
        self.assertEqual(packed.headers["content-encoding"], "gzip")
        self.assertEqual(gzip.decompress(packed.body), script.body)
        self.assertNotEqual(packed.headers["etag"], script.headers["etag"])
        for refusing in ("", "br", "gzip;q=0", "gzip;q=0.0"):
            self.assertNotIn("content-encoding", ask("/ui/assets/app-1a2b.js", **{"Accept-Encoding": refusing}).headers)
        for path in ("/ui/", "/ui/assets/app-1a2b.js"):
            etag = ask(path).headers["etag"]
            self.assertEqual(ask(path, **{"If-None-Match": f'"x", W/{etag}'}).status, 304)
            head = self.server.request("HEAD", path, key=False)
            self.assertEqual((head.status, head.body, head.headers["etag"]), (200, b"", etag))
        for path in ("/ui/assets/none.js", "/ui/assets/none", "/ui/none.png", "/ui/..%2f..%2fpolicies/default.yaml",
                     "/ui/../policies/default.yaml", "/ui/%2e%2e/policies/default.yaml", "/ui/link.txt", "/ui/.hidden.txt",
                     "/ui/assets/app-1a2b.js.gz", "/ui//etc/passwd.txt"):
            self.assertEqual(ask(path).status, 404, path)
        self.assertEqual(ask("/ui").headers["location"], "/ui/")

    def test_the_root_leads_browsers_to_the_interface(self):
        answer = self.server.request("GET", "/", headers={"Accept": "text/html,*/*;q=0.8"}, key=False)
        self.assertEqual((answer.status, answer.headers["location"]), (303, "/ui/"))
        self.assertEqual(self.server.request("GET", "/", key=False).status, 404)

    def test_headers_of_every_answer(self):
        browser = self.browser()
        for answer in (browser.get("/ui/"), browser.get("/ui/none.png"), browser.get("/ui/config"), browser.get("/ui/session"),
                       browser.get("/ui/assets/app-1a2b.js"), browser.get("/ui/login"), browser.sign_in("wrong", status=401)):
            policy = dict(each.strip().split(" ", 1) for each in answer.headers["content-security-policy"].split(";"))
            own = f"{browser.origin}/ui/assets/"  # not 'self': what sandboxes make is on the origin, too
            self.assertEqual(policy, {
                "default-src": "'none'", "script-src": own, "style-src": "'self' 'unsafe-inline'",
                "img-src": "'self' blob: data:", "font-src": "'self'", "connect-src": "'self'", "worker-src": own,
                "frame-src": "'self' blob:", "frame-ancestors": "'none'", "base-uri": "'self'", "form-action": "'self'"})
            for name, value in (("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"),
                                ("referrer-policy", "no-referrer"), ("cross-origin-opener-policy", "same-origin")):
                self.assertEqual(answer.headers[name], value)

    def test_config_needs_no_credential(self):
        config = self.server.request("GET", "/ui/config", key=False).json()
        self.assertEqual((config["oidc"], config["base_path"]), (False, ""))
        self.assertTrue(config["version"])
        self.refused(self.server.request("GET", "/ui/login", key=False), 404, "auth.oidc.client_id")


class Settings(Case):
    """Settings with other values than the default."""

    def test_without_files_the_answer_says_how_to_get_them(self):
        with tempfile.TemporaryDirectory() as folder, harness.Server(env={"CLOISTER_SHARE": str(share_with_files(files={}, into=folder))}) as server:
            self.refused(server.request("GET", "/ui/", key=False), 404, "share/cloister/web", "npm run build")
            self.assertEqual(Browser(server).sign_in(server.key).status, 201)

    def ends_within(self, browser, seconds):
        """Asks as often as a page in use, and → when the session ended."""
        begun = time.monotonic()
        while time.monotonic() - begun < harness.limit(seconds):
            if browser.get("/v1/whoami").status == 401:
                return time.monotonic() - begun
            time.sleep(0.1)
        self.fail("the session goes on")

    def test_length_ends_a_session(self):
        with harness.Server(config="ui:\n  session_seconds: 3\n") as server:
            browser = Browser(server)
            browser.sign_in(server.key)
            made = browser.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 20"}).json()
            stream = Held(server, "GET", f"/v1/executions/{made['id']}/events", headers={"Cookie": browser.cookie}, until=b"data:")
            self.assertGreater(self.ends_within(browser, 6), 2)
            harness.wait_for("the stream to end", lambda: not stream.goes_on(), SECONDS)
            server.request("DELETE", f"/v1/executions/{made['id']}")

    def test_idle_ends_a_session(self):
        with harness.Server(config="ui:\n  idle_seconds: 2\n") as server:
            used, idle = Browser(server), Browser(server)
            used.sign_in(server.key)
            idle.sign_in(server.key)
            made = idle.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 20"}).json()
            stream = Held(server, "GET", f"/v1/executions/{made['id']}/events", headers={"Cookie": idle.cookie}, until=b"data:")
            end = time.monotonic() + 3.5
            left = Browser(server)  # its page asks by itself
            left.sign_in(server.key)
            while time.monotonic() < end:
                self.assertEqual(used.get("/ui/session").status, 200)
                left.get("/v1/whoami", **{"X-Cloister-Unattended": "1"})
                time.sleep(0.1)
            self.assertEqual([each.get("/ui/session").status for each in (idle, left)], [401, 401])
            self.assertFalse(stream.goes_on(), "a stream is no use of the session")
            server.request("DELETE", f"/v1/executions/{made['id']}")

    def test_sessions_are_bounded(self):
        with harness.Server(config="ui:\n  sessions: 2\n") as server:
            keys = [server.request("POST", "/v1/keys", {"tenant": "t", "role": "viewer"}).json()["secret"] for _ in range(3)]
            people = [Browser(server) for _ in range(3)]
            for person, key in zip(people[:2], keys):
                person.sign_in(key)
            self.refused(people[2].sign_in(keys[2], status=429), 429, "ui.sessions")
            again = Browser(server)
            again.sign_in(keys[0])  # in place of the same person's session
            self.assertEqual([each.get("/ui/session").status for each in (again, people[0], people[1])], [200, 401, 200])
            again.send("DELETE", "/ui/session")
            people[2].sign_in(keys[2])

    def test_wrong_keys_are_bounded(self):
        with harness.Server(config="auth:\n  failures_per_minute: 3\n") as server:
            statuses = [Browser(server).sign_in("guess", status=None).status for _ in range(6)]
            self.assertEqual(statuses[:3], [401] * 3)
            self.assertEqual(statuses[-1], 429)
            self.assertEqual(Browser(server).sign_in(server.key).status, 201)

    def test_base_path(self):
        with tempfile.TemporaryDirectory() as folder, harness.Server(config="ui:\n  base_path: /team/cloister\n",
                                                                     env={"CLOISTER_SHARE": str(share_with_files(into=folder))}) as server:
            self.assertIn('<base href="/team/cloister/ui/">', server.request("GET", "/ui/", key=False).text)
            self.assertEqual(server.request("GET", "/", headers={"Accept": "text/html"}, key=False).headers["location"], "/team/cloister/ui/")
            self.assertEqual(server.request("GET", "/ui/config", key=False).json()["base_path"], "/team/cloister")
            other = server.request("GET", "/ui/", headers={"X-Forwarded-Prefix": "/evil"}, key=False)
            self.assertIn('<base href="/team/cloister/ui/">', other.text, "not from a trusted proxy")

    def test_ports_may_be_framed(self):
        with harness.Server(config="ports:\n  domain: boxes.test\n") as server:
            policy = server.request("GET", "/ui/config", key=False).headers["content-security-policy"]
            self.assertIn(f"frame-src 'self' blob: *.boxes.test:{server.port};", policy)


class Hosts(Case):
    """Ports under names of their own, which are of the same site as the interface."""

    def test_the_cookie_neither_goes_in_nor_comes_out(self):
        with harness.Server(config="ports:\n  domain: boxes.test\n") as server:
            browser = Browser(server)
            browser.sign_in(server.key)
            with Session(server, language="python", memory_mb=256) as session:
                session.wait_output(session.start(ui_case.ECHO, timeout_seconds=600), "ready")
                host = f"8020-{session.id.replace('_', '-')}.boxes.test"
                good = browser.cookie
                self.refused(browser.get("/", Host=host), 401)
                self.refused(browser.send("POST", "/", Host=host, origin=f"http://{host}"), 401)
                token = browser.send("POST", f"/v1/sessions/{session.id}/ports/8020/tokens", {}).json()["token"]
                cookies = f"{good}; cloister-port={token}; mine=1; __Host-cloister=a; CLOISTER_UI=b"
                connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
                with contextlib.closing(connection):
                    connection.request("GET", "/", headers={"Host": host, "Cookie": cookies})
                    answer = connection.getresponse()
                    text = answer.read().decode()
                    self.assertEqual(answer.headers.get_all("Set-Cookie"), ["own=1; Path=/"])
                self.assertIn("Cookie: mine=1\n", text)
                for word in (browser.cookies[COOKIE], "cloister", "CLOISTER"):
                    self.assertNotIn(word, text.replace(host, ""))
                for path in ("/ui/", "/ui/session", "/v1/whoami"):
                    self.refused(browser.get(path, Host=host), 401)


class Https(Case):
    """The service's own TLS, with certificates of clients."""

    def test_the_cookie_comes_before_a_certificate(self):
        with Authority("the company") as authority:
            config = config_of(authority, authority.issue("server", SERVER_NAMES, "serverAuth"),
                               "  clients:\n    - dns:alice.example = tenant:acme user:alice roles:viewer\n")
            shown = authority.trusting(authority.issue("alice", "DNS:alice.example"))
            with harness.Server(config=config, tls=shown) as server:
                browser = Browser(server)
                self.assertEqual(browser.get("/v1/whoami").json()["user"], "alice")
                self.assertEqual(browser.get("/ui/session").status, 401, "a certificate is no session")
                answer = browser.sign_in(server.key)
                self.assertRegex(answer.headers["set-cookie"], r"^__Host-cloister=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict; Secure$")
                self.assertEqual(browser.get("/v1/whoami").json()["user"], "admin")
                self.assertEqual(browser.send("DELETE", "/v1/keys/key_none").status, 404)
                self.refused(browser.send("DELETE", "/v1/keys/key_none", csrf=None), 403, "X-CSRF-Token")


class Proxies(Case):
    """Behind a reverse proxy that speaks HTTPS."""

    @classmethod
    def setUpClass(cls):
        cls.share = cls.enterClassContext(share_with_files())
        cls.server = cls.enterClassContext(harness.Server(
            config="http:\n  trusted_proxies: [127.0.0.1]\napi:\n  cors_origins: ['https://app.test']\n",
            env={"CLOISTER_SHARE": str(cls.share)}))

    def browser(self):
        return Browser(self.server, origin="https://cloister.test", **SECURE)

    def test_the_cookie_is_of_the_host(self):
        browser = self.browser()
        answer = browser.sign_in(self.server.key)
        self.assertRegex(answer.headers["set-cookie"],
                         r"^__Host-cloister=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict; Secure$")
        self.assertEqual(browser.get("/v1/whoami").status, 200)
        self.assertEqual(browser.send("DELETE", "/v1/keys/key_none").status, 404)
        value = browser.cookies["__Host-cloister"]
        self.assertEqual(Browser(self.server, cookies={"__Host-cloister": value}).get("/v1/whoami").status, 401, "over HTTP")
        self.assertEqual(Browser(self.server, cookies={"cloister_ui": value}, **SECURE).get("/v1/whoami").status, 401, "over HTTPS")
        for origin in ("http://cloister.test", "https://cloister.test:444", self.server.url, "https://cloister.test.evil", "null"):
            self.refused(browser.send("DELETE", "/v1/keys/key_none", origin=origin), 403, "Origin")

    def test_a_listed_origin_never_uses_the_cookie(self):
        browser = self.browser()
        browser.sign_in(self.server.key)
        self.refused(browser.get("/v1/whoami", Origin="https://app.test"), 401)
        self.refused(browser.send("DELETE", "/v1/keys/key_none", origin="https://app.test"), 401)
        answer = Browser(self.server, origin="https://app.test", **SECURE).sign_in(self.server.key, status=403)
        self.refused(answer, 403, "Origin")

    def test_plain_http_is_for_loopback_alone(self):
        away = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "cloister.test"}
        answer = Browser(self.server, origin="http://cloister.test", **away).sign_in(self.server.key, status=403)
        self.refused(answer, 403, "HTTPS")

    def test_prefixes(self):
        for prefix, base in (("/p", "/p"), ("/a/b/", "/a/b"), ("", ""), ("/", ""), ("//evil.test", ""), ("/x/../y", ""),
                             ("https://evil.test", ""), ('/"><script>', ""), ("/" + "x" * 300, ""), ("/e, /q", "/q"), ("/%2e", "")):
            with self.subTest(prefix):
                answer = self.server.request("GET", "/ui/", headers={"X-Forwarded-Prefix": prefix, **SECURE}, key=False)
                self.assertIn(f'<base href="{base}/ui/">', answer.text)

    def test_the_client_s_address_counts(self):
        key = self.server.request("POST", "/v1/keys", {"tenant": "t", "role": "viewer", "networks": ["192.0.2.0/24"]}).json()["secret"]
        for chain, status in (("192.0.2.7", 201), ("192.0.2.7, 127.0.0.1", 201), ("192.0.2.7, 198.51.100.1", 401),
                              ("198.51.100.1", 401), ("192.0.2.7, nonsense", 401)):
            with self.subTest(chain):
                Browser(self.server, origin="https://cloister.test", **{**SECURE, "X-Forwarded-For": chain}).sign_in(key, status=status)


class Untrusted(Case):
    def test_nobody_else_s_headers_count(self):
        with harness.Server() as server:
            answer = Browser(server, **{**SECURE, "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Prefix": "/p"}).sign_in(server.key)
            self.assertTrue(answer.headers["set-cookie"].startswith("cloister_ui="))
            self.assertEqual(server.request("GET", "/ui/config", headers={"X-Forwarded-Prefix": "/p"}, key=False).json()["base_path"], "")
            refused = Browser(server, origin="https://cloister.test", **SECURE).sign_in(server.key, status=403)
            self.refused(refused, 403)


if __name__ == "__main__":
    unittest.main()
