# SPDX-License-Identifier: Apache-2.0
"""Ports of sessions under names of their own: <port>-<id>.<ports.domain>."""

import contextlib
import http.client
import unittest

import harness
from session_case import Session
from test_ports import SERVER
from websocket import TEXT, WebSocket

INNER = r'''
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_GET(self):
        host = self.headers["Host"]
        if self.path.startswith("/absolute"):
            self.send_response(302); self.send_header("Location", f"http://{host}/there")
        elif self.path.startswith("/local"):
            self.send_response(302); self.send_header("Location", "http://localhost:8010/there")
        else:
            self.send_response(200)
        self.send_header("Set-Cookie", "own=1; Path=/; HttpOnly")
        self.send_header("Set-Cookie", "wide=2; Domain=boxes.test; Path=/")
        self.send_header("Set-Cookie", "cloister-port=forged; Path=/")
        self.send_header("Strict-Transport-Security", "max-age=9")
        self.send_header("Content-Type", "text/html")
        body = (self.requestline + "\\n" + str(self.headers)).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
server = Server(("127.0.0.1", 8010), Handler)
print("ready", flush=True)
server.serve_forever()
'''


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server(config="ports:\n  domain: boxes.test\nhttp:\n  trusted_proxies: [127.0.0.1/32]\n"))
        cls.session = cls.enterClassContext(Session(cls.server, language="python", memory_mb=256))
        for program in (SERVER, INNER):
            cls.session.wait_output(cls.session.start(program, timeout_seconds=600), "ready")
        cls.sid = cls.session.id.replace("_", "-")

    def link(self, port=8010, **body):
        made = self.session.call("POST", f"/ports/{port}/tokens", body, status=201).json()
        return made["token"]

    def ask(self, target="/", port=8010, host=None, key=False, method="GET", body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.request(method, target, body, {"Host": host or f"{port}-{self.sid}.boxes.test", **headers}, key)

    def test_the_link_names_the_host(self):
        made = self.session.call("POST", "/ports/8010/tokens", {}, status=201).json()
        self.assertEqual(made["url"], f"http://8010-{self.sid}.boxes.test:{self.server.port}/?cloister_token={made['token']}")
        self.assertEqual(self.server.request("GET", made["path"], key=False).status, 200)
        said = self.server.cli("port", "link", self.session.id, "8010").stdout
        self.assertTrue(said.startswith(f"http://8010-{self.sid}.boxes.test:{self.server.port}/?cloister_token="), said)

    def test_a_page_swaps_the_token_for_a_cookie(self):
        token = self.link()
        opened = self.ask(f"/a/b?x=1&cloister_token={token}&y=2", Accept="text/html", Sec_Fetch_Mode="navigate")
        self.assertEqual((opened.status, opened.headers["location"]), (303, "/a/b?x=1&y=2"))
        cookie = opened.headers["set-cookie"]
        self.assertRegex(cookie, r"^cloister-port=[^;]+; Path=/; HttpOnly; SameSite=Lax; Max-Age=\d+$")
        page = self.ask("/a/b?x=1&y=2", Cookie=f"theirs=1; {cookie.split(';')[0]}; more=2")
        self.assertEqual(page.status, 200)
        self.assertTrue(page.text.startswith("GET /a/b?x=1&y=2 HTTP/1.1"), page.text)
        self.assertIn("Cookie: theirs=1; more=2", page.text)
        self.assertNotIn(token, page.text)
        self.assertNotIn("content-security-policy", page.headers)
        self.assertIn("Secure", self.ask(f"/?cloister_token={token}", Accept="text/html",
                                         X_Forwarded_Proto="https").headers["set-cookie"])
        elsewhere = self.ask(f"//evil.test/?cloister_token={token}", Accept="text/html")
        self.assertEqual((elsewhere.status, elsewhere.headers["location"]), (303, "/.//evil.test/"))

    def test_a_program_needs_no_second_request(self):
        token = self.link()
        got = self.ask(f"/api?cloister_token={token}")
        self.assertEqual(got.status, 200)
        self.assertTrue(got.text.startswith("GET /api HTTP/1.1"), got.text)
        self.assertNotIn(token, got.text)
        self.assertIn("cloister-port=", got.headers["set-cookie"])
        self.assertEqual(self.ask("/", key=self.server.key).status, 200)
        self.assertEqual(self.ask("/", X_API_Key=self.server.key).status, 200)

    def test_no_credential_of_ours_goes_inside(self):
        token = self.link()
        cookie = f"cloister-port={token}"
        for headers in ({"Authorization": f"Bearer {self.server.key}"}, {"X_API_Key": self.server.key, "Cookie": cookie},
                        {"Cookie": cookie, "Referer": f"http://x/?cloister_token={token}", "X_Original_URI": f"/?cloister_token={token}"},
                        {"Cookie": f"a=b;{cookie}", "Authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"}):
            with self.subTest(headers.keys()):
                seen = self.ask("/", **headers)
                self.assertEqual(seen.status, 200)
                for word in (self.server.key, "clo_", token, "cloister-port", "cloister_token", "eyJ", "api-key"):
                    self.assertNotIn(word, seen.text)
        self.assertIn("Bearer of-its-own", self.ask("/", Cookie=cookie, Authorization="Bearer of-its-own").text)

    def test_the_server_s_cookies_and_addresses_are_its_own(self):
        cookie = f"cloister-port={self.link()}"
        with contextlib.closing(http.client.HTTPConnection(self.server.host, self.server.port, timeout=20)) as connection:
            connection.request("GET", "/", headers={"Host": f"8010-{self.sid}.boxes.test", "Cookie": cookie})
            answer = connection.getresponse()
            told = answer.headers.get_all("Set-Cookie")
            answer.read()
        self.assertEqual(told, ["own=1; Path=/; HttpOnly", "wide=2; Path=/"])
        self.assertNotIn("strict-transport-security", self.ask("/", Cookie=cookie).headers)
        host = f"8010-{self.sid}.boxes.test:{self.server.port}"
        self.assertEqual(self.ask("/absolute", host=host, Cookie=cookie).headers["location"], f"http://{host}/there")
        self.assertEqual(self.ask("/local", host=host, Cookie=cookie).headers["location"], "/there")
        self.assertIn(f"Host: {host}\n", self.ask("/", host=host, Cookie=cookie).text)

    def test_a_cookie_is_for_its_own_host(self):
        cookie = f"cloister-port={self.link()}"
        own = f"http://8010-{self.sid}.boxes.test"
        self.assertEqual(self.ask("/", port=8000, Cookie=cookie).status, 401)
        with Session(self.server) as other:
            self.assertEqual(self.ask("/", host=f"8010-{other.id.replace('_', '-')}.boxes.test", Cookie=cookie).status, 401)
        self.assertEqual(self.ask("/", method="POST", body=b"x", Cookie=cookie, Origin=own).status, 200)
        for headers in ({"Origin": "http://8010-ses-x.boxes.test"}, {"Origin": "https://evil.test"}, {"Origin": "null"},
                        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
                        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "websocket"}):
            self.assertEqual(self.ask("/", Cookie=cookie, **headers).status, 403, headers)
        self.assertEqual(self.ask("/", Cookie=cookie, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status, 200)
        self.assertEqual(self.ask("/", Cookie=f"cloister-port=forged; {cookie}").status, 200)

    def test_websocket(self):
        host = f"8000-{self.sid}.boxes.test"
        cookie = f"cloister-port={self.link(8000)}"
        for path, headers in (("/ws", {"Cookie": cookie, "Origin": f"http://{host}"}), (f"/ws?cloister_token={self.link(8000)}", {})):
            with WebSocket(self.server.host, self.server.port, path, {"Host": host, **headers}) as ws:
                self.assertEqual(ws.status, 101)
                ws.send(TEXT, b"hello")
                self.assertEqual(ws.receive(), (TEXT, b"hello"))
        for headers in ({}, {"Cookie": cookie, "Origin": "http://8000-ses-x.boxes.test"}):
            with WebSocket(self.server.host, self.server.port, "/ws", {"Host": host, **headers}) as ws:
                self.assertIn(ws.status, (401, 403))

    def test_names_of_hosts(self):
        cookie = f"cloister-port={self.link()}"
        name = f"8010-{self.sid}.boxes.test"
        for host in (name, name + ".", name.upper(), name + ":8750", name.title() + ".:1"):
            self.assertEqual(self.ask("/", host=host, Cookie=cookie).status, 200, host)
        unknown = "ses-" + "0" * 26
        for host in ("x.boxes.test", f"0-{self.sid}.boxes.test", f"65536-{self.sid}.boxes.test", f"+80-{self.sid}.boxes.test",
                     f"8010-{self.sid[:-1]}.boxes.test", f"8010-{self.sid}.a.boxes.test", f"a.8010-{self.sid}.boxes.test",
                     f"8010{self.sid}.boxes.test", f"8010-{unknown}.boxes.test", f"{self.sid}.boxes.test", ".boxes.test"):
            for key in (False, self.server.key):
                self.assertEqual(self.ask("/", host=host, key=key, Cookie=cookie).status, 404, host)

    def test_who_may(self):
        self.assertEqual(self.ask("/").status, 401)
        self.assertEqual(self.ask("/?cloister_token=").status, 401)
        self.assertEqual(self.ask("/?cloister_token=1-2-3").status, 401)
        self.assertEqual(self.ask("/", key="clo_wrong").status, 401)
        stranger = self.server.request("POST", "/v1/keys", {"tenant": "stranger", "roles": ["agent"]}).json()["secret"]
        self.assertEqual(self.ask("/", key=stranger).status, 404)
        harness.wait_for("the link's end", lambda token=self.link(expires_seconds=1):
                         self.ask("/", Cookie=f"cloister-port={token}").status == 401)

    def test_the_api_is_not_there(self):
        for path in ("/v1/executions", "/healthz", "/openapi.yaml", "/metrics", "/mcp", "/", self.session.path):
            self.assertEqual(self.ask(path, host="x.boxes.test", key=self.server.key).status, 404, path)
            inside = self.ask(path, key=self.server.key)
            self.assertTrue(inside.text.startswith(f"GET {path} HTTP/1.1"), inside.text[:200])
        self.assertEqual(self.server.request("GET", "/v1/sessions", headers={"Host": f"127.0.0.1:{self.server.port}"}).status, 200)

    def test_it_ends_with_the_session(self):
        with Session(self.server, language="python") as session:
            session.wait_output(session.start(SERVER, timeout_seconds=600), "ready")
            token = session.call("POST", "/ports/8000/tokens", {}, status=201).json()["token"]
            host = f"8000-{session.id.replace('_', '-')}.boxes.test"
            self.assertEqual(self.ask("/", host=host, Cookie=f"cloister-port={token}").status, 200)
        self.assertEqual(self.ask("/", host=host, Cookie=f"cloister-port={token}").status, 404)


if __name__ == "__main__":
    unittest.main()
