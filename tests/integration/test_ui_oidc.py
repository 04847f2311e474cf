# SPDX-License-Identifier: Apache-2.0
"""Signing in to the web interface through a real OpenID Connect provider: authorization code with PKCE."""

import http.client
import pathlib
import ssl
import tempfile
import time
import unittest
import urllib.parse

import harness
from held import Held
from oidc_provider import Oidc
from ui_case import Browser

SECRET = "only-for-this-test"  # of tests/oidc/provider.mjs
LOGIN = "cloister_ui_login"


class Provider(Oidc):
    """The provider, and a browser's part of a sign-in there."""

    def settings(self, **more):
        file = pathlib.Path(self.dir) / "secret"
        file.write_text(SECRET + "\n")
        file.chmod(0o644)
        return self.config(client_id="web", **{"client_secret_file": str(file), **more})

    def register(self, server, **more):
        self.do("web", {"redirect_uri": f"{server.url}/ui/callback", **more})
        self.do("user", {"sub": "ann", "claims": {"tenant": "acme", "roles": ["keys"]}})
        self.do("id_token", None)

    def approve(self, url, server):
        """Follows the provider's redirects; → the address at our service."""
        context = ssl.create_default_context(cafile=self.ca)
        cookies = {}
        while not url.startswith(server.url):
            parts = urllib.parse.urlsplit(url)
            connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=context, timeout=30)
            connection.request("GET", f"{parts.path}?{parts.query}",
                               headers={"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())})
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status in (302, 303), (answer.status, text)
            for each in answer.headers.get_all("Set-Cookie") or ():
                name, _, rest = each.partition("=")
                cookies[name] = rest.split(";")[0]
            url = urllib.parse.urljoin(url, answer.headers["Location"])
            connection.close()
        return url


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.provider = cls.enterClassContext(Provider())

    def start(self, browser, next="/ui/approvals?x=1"):
        answer = browser.get("/ui/login?" + urllib.parse.urlencode({"next": next}))
        self.assertEqual(answer.status, 303, answer.text)
        return answer

    def sign_in(self, browser, change=lambda url: url, **start):
        url = self.provider.approve(self.start(browser, **start).headers["location"], browser.server)
        return browser.get(change(url)[len(browser.server.url):])

    def failed(self, answer, why="failed"):
        self.assertEqual((answer.status, answer.headers["location"]), (303, f"/ui/?sign_in={why}"))


class SignIn(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.enterClassContext(harness.Server(config=cls.provider.settings()))

    def setUp(self):
        self.provider.register(self.server)

    def test_a_person_signs_in(self):
        browser = Browser(self.server)
        self.assertTrue(self.server.request("GET", "/ui/config", key=False).json()["oidc"])
        start = self.start(browser)
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(start.headers["location"]).query))
        self.assertEqual({name: asked[name] for name in ("response_type", "client_id", "scope", "code_challenge_method", "redirect_uri")},
                         {"response_type": "code", "client_id": "web", "scope": "openid", "code_challenge_method": "S256",
                          "redirect_uri": f"{self.server.url}/ui/callback"})
        self.assertRegex(start.headers["set-cookie"], rf"^{LOGIN}=[0-9a-f]{{64}}\.[^;]+; Path=/; HttpOnly; SameSite=Lax; Max-Age=600$")
        done = self.sign_in(browser)
        self.assertEqual((done.status, done.headers["location"]), (303, "/ui/approvals?x=1"))
        session = browser.get("/ui/session").json()
        who = session["principal"]
        self.assertEqual((who["tenant"], who["user"], who["roles"]), ("acme", "ann", ["tenant-admin"]))
        self.assertTrue(who["credential"].startswith("uis_"))
        browser.csrf = session["csrf"]
        made = browser.send("POST", "/v1/keys", {"role": "viewer"})
        self.assertEqual((made.status, made.json()["tenant"]), (201, "acme"))
        rows = self.server.request("GET", f"/v1/audit?by={who['credential']}").json()["entries"]
        self.assertEqual([row["action"] for row in rows][:1], ["ui.signed_in"])
        self.assertIn("key.created", [row["action"] for row in rows])
        self.server.stop()
        self.server.start()
        self.assertEqual(browser.get("/ui/session").status, 200)

    def test_a_second_sign_in_ends_the_first_session(self):
        browser, other = Browser(self.server), Browser(self.server)
        self.sign_in(browser)
        self.sign_in(other)
        first = browser.get("/ui/session").json()["principal"]["credential"]
        back = self.provider.approve(self.start(browser).headers["location"], self.server)[len(self.server.url):]
        cookie = browser.cookies.pop("cloister_ui")  # Strict: it does not come with the provider's redirect
        self.assertEqual(browser.get(back).status, 303)
        self.assertEqual(Browser(self.server, cookies={"cloister_ui": cookie}).get("/ui/session").status, 401)
        self.assertEqual(browser.get("/ui/session").status, 200)
        row = self.server.request("GET", "/v1/audit?action=ui.signed_out&order=newest&limit=1").json()["entries"][0]
        self.assertEqual((row["subject"], row["details"]["reason"]), (first, "signed in again"))
        # An id is no proof: audit rows have it.
        theirs = other.get("/ui/session").json()["principal"]["credential"]
        back = self.provider.approve(self.start(browser).headers["location"], self.server)[len(self.server.url):]
        secret, replaces, next = browser.cookies[LOGIN].split(".", 2)
        browser.cookies[LOGIN] = f"{secret}.{theirs}{replaces[replaces.index('-'):]}.{next}"
        del browser.cookies["cloister_ui"]
        self.assertEqual(browser.get(back).headers["location"], "/ui/approvals?x=1")
        self.assertEqual(other.get("/ui/session").status, 200)

    def test_the_cookies_are_set_and_removed(self):
        browser = Browser(self.server)
        url = self.provider.approve(self.start(browser).headers["location"], self.server)
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        connection.request("GET", url[len(self.server.url):], headers={"Cookie": browser.cookie})
        told = connection.getresponse().headers.get_all("Set-Cookie")
        connection.close()
        self.assertEqual(len(told), 2)
        self.assertRegex(told[0], r"^cloister_ui=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict$")
        self.assertEqual(told[1], f"{LOGIN}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0")

    def test_a_code_is_of_one_browser_and_of_one_use(self):
        one, two = Browser(self.server), Browser(self.server)
        url = self.provider.approve(self.start(one).headers["location"], self.server)[len(self.server.url):]
        self.failed(two.get(url))
        self.start(two)
        self.failed(two.get(url))
        self.assertEqual(one.get(url).headers["location"], "/ui/approvals?x=1")
        self.start(one)
        self.failed(one.get(url))

    def test_two_tabs_sign_in(self):
        browser = Browser(self.server)
        tabs = [self.provider.approve(self.start(browser, next=f"/ui/{page}").headers["location"], self.server)[len(self.server.url):]
                for page in ("agents", "policy", "audit")]
        self.assertEqual(browser.get(tabs[1]).headers["location"], "/ui/policy")
        self.assertEqual(browser.get(tabs[0]).headers["location"], "/ui/agents", "the earlier tab, later")
        self.assertEqual(browser.get(tabs[2]).headers["location"], "/ui/audit")
        self.assertNotIn(LOGIN, browser.cookies)
        self.failed(browser.get(tabs[2]))
        for _ in range(6):  # as many as a cookie holds, the newest
            last = self.start(browser, next="/ui/" + "x" * 900)
        self.assertLess(len(last.headers["set-cookie"]), 4096)
        done = self.provider.approve(last.headers["location"], self.server)[len(self.server.url):]
        self.assertEqual(browser.get(done).headers["location"], "/ui/" + "x" * 900)

    def test_wrong_answers_sign_nobody_in(self):
        def change(**new):
            def changed(url):
                base, _, query = url.partition("?")
                return base + "?" + urllib.parse.urlencode({**dict(urllib.parse.parse_qsl(query)), **new})
            return changed
        for wrong in ({"state": "0" * 64}, {"state": ""}, {"iss": "https://evil.test"}, {"iss": ""}, {"code": ""}, {"code": "x"},
                      {"code": "x" * 5000}):
            with self.subTest(wrong):
                browser = Browser(self.server)
                self.failed(self.sign_in(browser, change(**wrong)))
                self.assertEqual(browser.get("/ui/session").status, 401)
        self.failed(self.sign_in(Browser(self.server), lambda url: url.partition("?")[0] + "?code=a&code=b"))

    def test_forged_id_tokens_sign_nobody_in(self):
        now = int(time.time())
        for claims in ({"nonce": "other"}, {"nonce": None}, {"aud": "another"}, {"aud": ["web", "another"]}, {"azp": "another"},
                       {"iss": "https://evil.test"}, {"exp": now - 1}, {"iat": now + 600}, {"sub": ""}):
            with self.subTest(claims):
                self.provider.do("id_token", {"claims": claims})
                browser = Browser(self.server)
                self.failed(self.sign_in(browser))
                self.assertEqual(browser.get("/ui/session").status, 401)
        self.provider.do("id_token", {"claims": {"email": "ann@acme.test"}})
        self.assertEqual(self.sign_in(Browser(self.server)).headers["location"], "/ui/approvals?x=1", "a good token passes")
        for claims in ({"tenant": None}, {"roles": ["nobody"]}, {"tenant": "cloister.deps"}):
            with self.subTest(claims):
                self.provider.do("id_token", {"claims": claims})
                answer = self.sign_in(Browser(self.server))
                self.assertIn(answer.headers["location"], ("/ui/?sign_in=denied", "/ui/?sign_in=failed"))

    def test_a_refusal_of_the_provider(self):
        self.provider.do("user", None)
        self.failed(self.sign_in(Browser(self.server)), "denied")
        rows = self.server.request("GET", "/v1/audit?action=ui.sign_in_refused&order=newest&limit=1").json()["entries"]
        self.assertEqual(rows[0]["details"]["by"], "oidc")

    def test_next_stays_below_the_interface(self):
        for bad in ("https://evil.test/", "//evil.test", "/v1/whoami", "/ui", "/ui//evil.test", "/ui/../v1/whoami", "/ui/%2e%2e/v1", "/ui/.%2E/v1",
                    "/ui/\\evil.test", "/ui/a b", "/ui/\r\nX: 1", "/ui/" + "x" * 2000, ""):
            with self.subTest(bad):
                answer = Browser(self.server).get("/ui/login?" + urllib.parse.urlencode({"next": bad}))
                self.assertEqual(answer.status, 400, answer.text)
                self.assertIn("next", answer.text)
        for good in ("/ui/", "/ui/agents/a%2Fb?q=%20x"):
            self.assertEqual(self.sign_in(Browser(self.server), next=good).headers["location"], good)

    def test_signing_out_ends_streams(self):
        self.provider.do("user", {"sub": "bob", "claims": {"tenant": "acme", "roles": ["runner"]}})
        browser = Browser(self.server)
        self.sign_in(browser)
        browser.csrf = browser.get("/ui/session").json()["csrf"]
        made = browser.send("POST", "/v1/executions", {"language": "bash", "code": "sleep 20"}).json()
        stream = Held(self.server, "GET", f"/v1/executions/{made['id']}/events", headers={"Cookie": browser.cookie}, until=b"data:")
        kept = browser.send("POST", "/v1/executions?wait=30", {"language": "bash", "code": "echo x > f", "artifacts": ["f"]}).json()
        link = browser.get(f"/v1/artifacts/{kept['artifacts'][0]['id']}/url?expires_seconds=600").json()["url"]
        content = lambda: self.server.request("GET", link, key=False)
        self.assertEqual(content().text, "x\n")
        self.assertEqual(browser.send("DELETE", "/ui/session").status, 204)
        harness.wait_for("the stream to end", lambda: not stream.goes_on(), 1)
        self.assertEqual(content().status, 401, "a link ends with the sign-in that made it")

    def test_a_token_is_no_key(self):
        answer = Browser(self.server).sign_in(self.provider.token("keeper"), status=None)
        self.assertIn(answer.status, (403, 422))


class Clients(Case):
    """Settings of the client."""

    def test_a_public_client(self):
        config = self.provider.config(client_id="web")
        with harness.Server(config=config) as server:
            self.provider.register(server, public=True)
            browser = Browser(server)
            self.assertEqual(self.sign_in(browser).headers["location"], "/ui/approvals?x=1")
            server.stop()
            server.start()
            self.assertEqual(browser.get("/ui/session").status, 200)

    def test_who_gave_the_rights_is_asked_again_when_they_change(self):
        with tempfile.TemporaryDirectory(prefix="cloister-test.") as folder:
            state = pathlib.Path(folder)
            state.chmod(0o755)
            browser = None
            for roles, status in ((["keys = tenant-admin"], 200), (["keys = viewer"], 401)):
                with harness.Server(config=self.provider.settings(roles=roles), state=state) as server:
                    if browser is None:
                        self.provider.register(server)
                        browser = Browser(server)
                        self.sign_in(browser)
                        shown = server.request("GET", "/v1/sign-ins").json()["sign_ins"]
                        self.assertEqual([each["issuer"] for each in shown], [self.provider.issuer])
                    browser.server = server
                    self.assertEqual(browser.get("/ui/session").status, status)

    def test_a_wrong_secret_is_told(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("wrong")
            file.flush()
            pathlib.Path(file.name).chmod(0o644)
            with harness.Server(config=self.provider.settings(client_secret_file=file.name)) as server:
                self.provider.register(server)
                self.failed(self.sign_in(Browser(server)), "unavailable")

    def test_without_the_provider(self):
        with harness.Server(config=self.provider.settings(issuer="https://127.0.0.1:1")) as server:
            answer = Browser(server).get("/ui/login")
            self.assertEqual(answer.status, 503, answer.text)
            self.assertEqual(Browser(server).sign_in(server.key).status, 201)

    def test_another_client_is_not_taken(self):
        with harness.Server(config=self.provider.config()) as server:
            self.assertFalse(server.request("GET", "/ui/config", key=False).json()["oidc"])
            self.assertEqual(Browser(server).get("/ui/login").status, 404)


if __name__ == "__main__":
    unittest.main()
