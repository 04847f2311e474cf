# SPDX-License-Identifier: Apache-2.0
"""/v1/sessions/{id}/ports: servers in a session, through the service; lying clients and servers."""

import contextlib
import hashlib
import http.client
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

import api_case
import harness
from session_case import Session
from websocket import TEXT, WebSocket

HOWTO = harness.REPO / "docs" / "howto" / "open-a-port.md"
CONFIG = api_case.CONFIG + "session:\n  max_connections: 4\n  answer_seconds: 3\n"
MIB = 1 << 20

# A server for most tests: echoes requests, and can answer badly.
SERVER = r'''
import base64, hashlib, socket, struct, sys, threading, time
def head(s):
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(65536)
        if not more: return data, b""
        data += more
    at = data.index(b"\r\n\r\n") + 4
    return data[:at], data[at:]
def websocket(s, h, rest):
    key = [l.split(b": ", 1)[1] for l in h.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Set-Cookie: a=b\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    while True:
        while len(rest) < 2:
            more = s.recv(65536)
            if not more: return
            rest += more
        op, n = rest[0] & 15, rest[1] & 127
        while len(rest) < 6 + n: rest += s.recv(65536)
        body = bytes(b ^ rest[2 + i % 4] for i, b in enumerate(rest[6:6 + n]))
        rest = rest[6 + n:]
        s.sendall(bytes([0x80 | op, len(body)]) + body)
        if op == 8: return
def answer(s):
    h, rest = head(s)
    if not h: return
    path = h.split()[1].decode()
    ok = b"HTTP/1.1 200 OK\r\n"
    if path == "/ws": return websocket(s, h, rest)
    if path == "/sse":
        s.sendall(ok + b"Content-Type: text/event-stream\r\n\r\n")
        for i in range(3):
            s.sendall(b"data: %d\n\n" % i)
            if s.recv(1) == b"": return   # one byte of the body for each event
        return
    if path.startswith("/bytes/"):
        n = int(path[7:])
        s.sendall(ok + b"Content-Length: %d\r\n\r\n" % n)
        piece = b"x" * 65536
        while n > 0: n -= s.send(piece[:min(n, 65536)])
        return
    if path == "/sum":
        left = int([l.split(b": ")[1] for l in h.split(b"\r\n") if l.lower().startswith(b"content-length")][0])
        d = hashlib.sha256(rest); left -= len(rest)
        while left > 0:
            more = s.recv(65536)
            if not more: return
            d.update(more); left -= len(more)
        t = d.hexdigest().encode()
        s.sendall(ok + b"Content-Length: %d\r\n\r\n" % len(t) + t); return
    if path == "/early":
        s.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 5\r\n\r\nearly"); return
    if path == "/never": time.sleep(60); return
    if path == "/interim":
        s.sendall(b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" + ok + b"Content-Length: 2\r\n\r\nhi"); return
    if path == "/401":
        s.sendall(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"the service\"\r\n"
                  b"Authentication-Info: x=y\r\nProxy-Authenticate: Basic realm=\"x\"\r\n"
                  b"Set-Cookie: __Host-a=b; Secure; Path=/\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 2\r\n\r\nno")
        return
    if path in BAD: s.sendall(BAD[path]); return
    if path == "/half": s.sendall(ok + b"Content-Length: 100\r\n\r\nonly this"); return
    s.sendall(ok + b"Content-Type: text/html\r\nSet-Cookie: id=1; Path=/\r\nX-Mine: yes\r\n"
              b"Content-Security-Policy: default-src 'self'\r\nService-Worker-Allowed: /\r\n"
              b"Access-Control-Allow-Origin: https://evil.test\r\nAccess-Control-Allow-Credentials: true\r\n"
              b"Strict-Transport-Security: max-age=9\r\nConnection: x-hop\r\nX-Hop: no\r\n"
              b"Clear-Site-Data: \"*\"\r\nContent-Length: %d\r\n\r\n" % len(h) + h)
BAD = {
    "/both": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "/lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "/negative": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabcd",
    "/coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "/old": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "/not": b"SSH-2.0-OpenSSH\r\n\r\n",
    "/none": b"",
    "/large": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200000 + b"\r\n\r\n",
    "/many": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "/control": b"HTTP/1.1 200 OK\r\nX: a\x01b\r\nContent-Length: 0\r\n\r\n",
    "/name": b"HTTP/1.1 200 OK\r\nX Y: a\r\nContent-Length: 0\r\n\r\n",
    "/switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "/interims": b"HTTP/1.1 103 Early\r\n\r\n" * 100,
    "/status": b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
}
listener = socket.create_server(("127.0.0.1", 8000), backlog=64)
print("ready", flush=True)
def serve(s):
    try: answer(s)
    except OSError: pass
    try: s.shutdown(socket.SHUT_WR); s.settimeout(5); s.recv(65536)
    except OSError: pass
    s.close()
while True:
    s, _ = listener.accept()
    threading.Thread(target=serve, args=(s,), daemon=True).start()
'''


def setUpModule():
    PortTest.server = unittest.enterModuleContext(harness.Server(config=CONFIG))
    PortTest.session = unittest.enterModuleContext(
        Session(PortTest.server, language="python", memory_mb=512))
    serving = PortTest.session.start(SERVER, timeout_seconds=600)
    PortTest.session.wait_output(serving, "ready")


class PortTest(unittest.TestCase):
    server = None
    session = None

    def path(self, inside="/", port="8000"):
        return f"{self.session.path}/ports/{port}{inside}"

    def ask(self, inside="/", method="GET", body=None, headers=None, key=None, port="8000"):
        return self.server.request(method, self.path(inside, port), body, headers, key)

    def raw(self, request, read=True):
        """Sends bytes unchanged → all bytes of the answer."""
        with socket.create_connection((self.server.host, self.server.port), timeout=20) as s:
            s.sendall(request)
            data = b""
            while read:
                try:
                    more = s.recv(65536)
                except ConnectionError:
                    break
                if not more:
                    break
                data += more
            return data

    def token(self, port=8000, **body):
        answer = self.session.call("POST", f"/ports/{port}/tokens", body, status=201)
        return answer.json()


class Passing(PortTest):
    def test_get(self):
        answer = self.ask("/a%20b/../c?x=1&x=2&y=%zz;", headers={"X-Own": "1"})
        self.assertEqual(answer.status, 200)
        lines = answer.text.split("\r\n")
        self.assertEqual(lines[0], "GET /a%20b/../c?x=1&x=2&y=%zz; HTTP/1.1")
        self.assertEqual(lines[1], "Host: localhost:8000")
        self.assertIn("x-own: 1", lines)
        self.assertIn(f"X-Forwarded-Prefix: {self.path('')}", lines)
        self.assertIn(f"X-Forwarded-Host: {self.server.host}:{self.server.port}", lines)
        self.assertEqual(answer.headers["x-mine"], "yes")

    def test_no_credential_of_ours_goes_inside(self):
        for headers, key in (({}, None), ({"X-API-Key": self.server.key}, False),
                             ({"X-API-Key": self.server.key, "Authorization": "Bearer " + self.server.key}, False)):
            with self.subTest(headers.keys()):
                answer = self.ask("/", headers={**headers, "Cookie": "a=b", "Referer": "http://x/secret",
                                                "X-Forwarded-For": "1.2.3.4", "Forwarded": "for=1.2.3.4"}, key=key)
                self.assertEqual(answer.status, 200)
                for word in (self.server.key, "clo_", "Cookie", "cookie", "secret", "1.2.3.4", "api-key"):
                    self.assertNotIn(word, answer.text)

    def test_authorization_for_the_inside(self):
        answer = self.ask("/", headers={"X-API-Key": self.server.key, "Authorization": "Basic eDp5"}, key=False)
        self.assertIn("authorization: Basic eDp5", answer.text)

    def test_headers_of_the_answer(self):
        headers = self.ask("/").headers
        for name in ("set-cookie", "service-worker-allowed", "access-control-allow-origin", "clear-site-data",
                     "access-control-allow-credentials", "strict-transport-security", "x-hop"):
            self.assertNotIn(name, headers)
        self.assertIn("sandbox allow-scripts", headers["content-security-policy"])
        self.assertNotIn("allow-same-origin", headers["content-security-policy"])
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.assertEqual(headers["referrer-policy"], "no-referrer")

    def test_a_challenge_stays_inside(self):
        link = self.token()["url"]
        for answer in (self.ask("/401"), self.server.request("GET", link + "401", key=False)):
            self.assertEqual((answer.status, answer.body), (401, b"no"))
            for name in ("www-authenticate", "proxy-authenticate", "authentication-info", "set-cookie"):
                self.assertNotIn(name, answer.headers)

    def test_methods(self):
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
            self.assertTrue(self.ask("/m", method).text.startswith(f"{method} /m HTTP/1.1\r\n"), method)
        head = self.ask("/", "HEAD")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertGreater(int(head.headers["content-length"]), 0)
        for method in ("TRACE", "CONNECT"):
            self.assertEqual(self.ask("/", method).status, 405, method)

    def test_root_and_redirect(self):
        answer = self.ask("")
        self.assertEqual((answer.status, answer.headers["location"]), (308, self.path("/")))

    def test_interim_answers(self):
        self.assertEqual(self.ask("/interim").body, b"hi")

    def test_body_in_chunks(self):
        answer = self.ask("/", "POST", body=iter([b"ab", b"cd"]), headers={"Transfer-Encoding": "chunked"})
        self.assertIn("Transfer-Encoding: chunked", answer.text)

    def test_python_http_server(self):
        server = self.session.start("exec python3 -m http.server 8081 --directory /workspace",
                                    language="bash", timeout_seconds=600)
        self.session.call("PUT", "/files/dir/a.txt", {"n": 1}, status=200)
        harness.wait_for("the server", lambda: self.ask("/", port="8081").status == 200)
        self.assertEqual(self.ask("/dir/a.txt", port="8081").json(), {"n": 1})
        self.assertEqual(self.ask("/none", port="8081").status, 404)
        moved = self.ask("/dir", port="8081")
        self.assertEqual((moved.status, moved.headers["location"]), (301, self.path("/dir/", "8081")))
        self.session.cancel(server)
        self.assertEqual(self.ask("/", port="8081").status, 404)

    def test_ipv6_only(self):
        server = self.session.start(
            "import http.server, socket\n"
            "class S(http.server.HTTPServer): address_family = socket.AF_INET6\n"
            "s = S(('::1', 8082), http.server.SimpleHTTPRequestHandler)\n"
            "print('ready', flush=True)\ns.serve_forever()", timeout_seconds=600)
        self.session.wait_output(server, "ready")
        self.assertEqual(self.ask("/", port="8082").status, 200)
        self.session.cancel(server)


class Streaming(PortTest):
    def test_events_come_as_they_are_sent(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=20)
        with contextlib.closing(connection):
            connection.putrequest("POST", self.path("/sse"))
            connection.putheader("Authorization", f"Bearer {self.server.key}")
            connection.putheader("Content-Length", "3")
            connection.endheaders()
            with connection.sock.makefile("rb") as stream:
                while stream.readline().strip():
                    pass
                for i in range(3):  # each only after the former was seen
                    while stream.readline() != b"data: %d\n" % i:
                        pass
                    connection.send(b"+")

    def test_large_bodies_in_bounded_memory(self):
        size = 200 * MIB
        pid = self.server.pid_of("cloisterd")
        before = rss(pid)
        with Watch(pid) as watch:
            connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
            with contextlib.closing(connection):
                connection.request("GET", self.path(f"/bytes/{size}"),
                                   headers={"Authorization": f"Bearer {self.server.key}"})
                answer = connection.getresponse()
                seen = 0
                while piece := answer.read(MIB):
                    seen += len(piece)
            self.assertEqual(seen, size)
            piece = b"0123456789abcdef" * 65536
            sent = self.ask("/sum", "POST", body=(piece for _ in range(size // MIB)),
                            headers={"Content-Length": str(size)})
        digest = hashlib.sha256()
        for _ in range(size // MIB):
            digest.update(piece)
        self.assertEqual(sent.text, digest.hexdigest())
        if not harness.SANITIZED:
            self.assertLess(watch.most - before, 32 * MIB)

    def test_a_reader_that_stands_still_holds_nothing_up(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=20) as slow:
            slow.sendall(self.request(f"/bytes/{50 * MIB}"))
            slow.recv(100)
            self.assertEqual(self.ask("/interim").body, b"hi")

    def test_early_answer(self):
        answer = self.raw(self.request("/early", "POST", "Content-Length: 1000000") + b"x" * 1000)
        self.assertIn(b" 413 ", answer.split(b"\r\n")[0])
        self.assertTrue(answer.endswith(b"early"), answer)

    def test_100_continue(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=20) as s:
            s.sendall(self.request("/sum", "POST", "Content-Length: 2", "Expect: 100-continue"))
            self.assertIn(b"100 Continue", s.recv(1000))
            s.sendall(b"ab")
            self.assertIn(b"200", s.recv(1000))

    def request(self, inside, method="GET", *headers):
        lines = [f"{method} {self.path(inside)} HTTP/1.1", "Host: localhost",
                 f"Authorization: Bearer {self.server.key}", *headers]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def test_answer_cut_short(self):
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            self.ask("/half")

    def test_body_cut_short_is_not_whole_inside(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=20) as s:
            s.sendall(self.request("/sum", "POST", "Content-Length: 10") + b"half")
        self.assertEqual(self.ask("/interim").body, b"hi")
        harness.wait_for("its connection to go", lambda: self.session.show()["executions_running"] <= 1)


class Switching(PortTest):
    def test_websocket(self):
        for path, headers in ((self.path("/ws"), {"Authorization": f"Bearer {self.server.key}"}),
                              (self.token()["url"] + "ws", {"Origin": "null"})):
            with WebSocket(self.server.host, self.server.port, path, headers, timeout=20) as ws:
                self.assertEqual(ws.status, 101)
                for text in (b"hello", b"again"):
                    ws.send(TEXT, text)
                    self.assertEqual(ws.receive(), (TEXT, text))

    def test_websocket_needs_a_key(self):
        with WebSocket(self.server.host, self.server.port, self.path("/ws")) as ws:
            self.assertEqual(ws.status, 401)

    def test_refused_by_the_server(self):
        with WebSocket(self.server.host, self.server.port, self.path("/"),
                       {"Authorization": f"Bearer {self.server.key}"}) as ws:
            self.assertEqual(ws.status, 200)

    def test_unasked(self):
        self.assertEqual(self.ask("/switch").status, 502)

    def test_cli_forwards(self):
        port = harness.free_port()
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key}
        opened = subprocess.Popen(
            [self.server.bin / "cloister", "port", "open", self.session.id, "8000", "--local", str(port)],
            env=env, stdout=subprocess.PIPE, text=True)
        try:
            self.assertIn(f"http://127.0.0.1:{port}/", opened.stdout.readline())
            answer = harness.http_request("127.0.0.1", port, "GET", "/x", headers={"Cookie": "a=b"})
            # The bytes are the two sides' own: nothing is added, and nothing taken away.
            self.assertIn("Cookie: a=b", answer.text)
            self.assertEqual(answer.headers["set-cookie"], "id=1; Path=/")
            with WebSocket("127.0.0.1", port, "/ws") as ws:
                ws.send(TEXT, b"hi")
                self.assertEqual(ws.receive(), (TEXT, b"hi"))
        finally:
            opened.send_signal(signal.SIGINT)
            self.assertEqual(opened.wait(10), 0)
            opened.stdout.close()


class Refusing(PortTest):
    def problem(self, answer, status):
        self.assertEqual(answer.status, status, answer.body[:500])
        self.assertEqual(answer.headers["content-type"], "application/problem+json")
        return answer.json()

    def test_nothing_listens(self):
        self.assertIn("no server listens", self.problem(self.ask(port="8999"), 404)["detail"])

    def test_no_port(self):
        for port in ("0", "65536", "-1", "x", "80x", "+80", "%38000~"):
            self.assertIn(self.ask(port=port).status, (400, 401, 404), port)

    def test_bad_answers(self):
        for path in ("/both", "/lengths", "/negative", "/coding", "/old", "/not", "/none", "/large", "/many",
                     "/control", "/name", "/interims", "/status"):
            with self.subTest(path):
                self.problem(self.ask(path), 502)

    def test_no_answer_in_time(self):
        self.problem(self.ask("/never"), 504)

    def test_smuggling_in(self):
        head = f"POST {self.path('/')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.key}\r\n"
        for lines in ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n",
                      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: xchunked\r\n",
                      "Content-Length: +3\r\n", "Transfer-Encoding : chunked\r\n"):
            with self.subTest(lines):
                answer = self.raw((head.replace("Host: x", "Host: localhost") + lines + "\r\n0\r\n\r\n").encode())
                self.assertIn(b" 400 ", answer.split(b"\r\n")[0])

    def test_header_injection(self):
        target = self.path("/a%0d%0aX-Evil:%201")
        answer = self.server.request("GET", target)
        self.assertIn("%0d%0aX-Evil:%201 HTTP/1.1", answer.text)
        bad = self.raw(f"GET {self.path('/')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.server.key}\r\n"
                       "X-A: b\rX-Evil: 1\r\n\r\n".encode())
        self.assertNotIn(b"\r\nX-Evil", bad.split(b"\r\n\r\n", 1)[-1])

    def test_hop_headers_go_no_further(self):
        text = self.ask("/", headers={"Connection": "close, x-mine", "X-Mine": "1", "TE": "trailers",
                                      "Proxy-Authorization": "x", "Upgrade": "h2c"}).text.lower()
        for word in ("x-mine", "\r\nte:", "proxy-authorization", "h2c"):
            self.assertNotIn(word, text)

    def test_too_many_connections(self):
        with contextlib.ExitStack() as open_ones:
            for _ in range(4):
                open_ones.enter_context(WebSocket(self.server.host, self.server.port, self.path("/ws"),
                                                  {"Authorization": f"Bearer {self.server.key}"}))
            self.assertIn("session.max_connections", self.problem(self.ask(), 429)["detail"])
        harness.wait_for("room", lambda: self.ask().status == 200)

    def test_of_another_tenant(self):
        key = self.server.request("POST", "/v1/keys", {"tenant": "other", "name": "other"}).json()["secret"]
        for method, path, body in (("GET", "/ports/8000/", None), ("GET", "/ports/8000", None), ("POST", "/ports/8000/x", b""),
                                   ("POST", "/ports/8000/tokens", {})):
            theirs = self.server.request(method, self.session.path + path, body, key=key)
            none = self.server.request(method, "/v1/sessions/ses_00000000000000000000000000" + path, body, key=key)
            self.assertEqual(theirs.status, 404)
            strip = lambda a: re.sub(r"(ses|req)_\w+", "", a.text)
            self.assertEqual(strip(theirs), strip(none))
        with WebSocket(self.server.host, self.server.port, self.path("/ws"), {"Authorization": f"Bearer {key}"}) as ws:
            self.assertEqual(ws.status, 404)


class Links(PortTest):
    def test_link(self):
        made = self.token(expires_seconds=60)
        self.assertTrue(made["url"].startswith(f"{self.session.path}/ports/8000~"))
        answer = self.server.request("GET", made["url"] + "x?y=1", key=False)
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.text.startswith("GET /x?y=1 HTTP/1.1"))
        self.assertEqual(answer.headers["access-control-allow-origin"], "*")
        posted = self.server.request("POST", made["url"], b"x", {"Origin": "null"}, key=False)
        self.assertEqual(posted.status, 200)
        preflight = self.server.request("OPTIONS", made["url"], None, {
            "Origin": "null", "Access-Control-Request-Method": "PUT"}, key=False)
        self.assertEqual((preflight.status, preflight.headers["access-control-allow-methods"]), (204, "PUT"))

    def test_is_for_one_port_of_one_session(self):
        token = self.token()["token"]
        other_end = "1" if token.endswith("0") else "0"
        with Session(self.server) as other:
            for path in (self.path("/", f"8001~{token}"), f"{other.path}/ports/8000~{token}/",
                         self.path("/", f"8000~{token[:-1]}{other_end}"), self.path("/", "8000~"), self.path("/", "8000~9-"),
                         f"/v1/sessions/ses_00000000000000000000000000/ports/8000~{token}/"):
                self.assertEqual(self.server.request("GET", path, key=False).status, 404, path)
        for path in (f"{self.session.path}", f"{self.session.path}/files", self.path("/", "8000")):
            self.assertEqual(self.server.request("GET", path, key=False).status, 401, path)

    def test_nobody_makes_one_to_anothers_session(self):
        mine = self.server.request("POST", "/v1/keys", {"tenant": "owner", "roles": ["agent"]}).json()["secret"]
        with Session(self.server, key=mine) as session:
            refused = self.server.request("POST", f"{session.path}/ports/8000/tokens", {})  # an administrator
            self.assertEqual((refused.status, refused.json()["error"]["type"]), (403, "PERMISSION_DENIED"))
            self.assertIn("another tenant's", refused.json()["detail"])

    def test_what_may_be_a_credential_stays_outside(self):
        url = self.token()["url"] + "x"
        token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"
        for value in (f"Bearer {token}", f"bearer  {token}", f"Bearer {self.server.key}", token):
            seen = self.server.request("GET", url, headers={"Authorization": value}, key=False)
            self.assertEqual(seen.status, 200, seen.text)
            self.assertNotIn("authorization", seen.text.lower())
        own = self.server.request("GET", url, headers={"Authorization": "Bearer of-its-own"}, key=False)
        self.assertIn("of-its-own", own.text)

    def test_a_password_for_the_service_stays_outside(self):
        seen = self.server.request("GET", self.token()["url"], key=False,
                                   headers={"Authorization": "Basic eDp5", "Cookie": "__Host-session=1"})
        self.assertEqual(seen.status, 200, seen.text)
        for word in ("authorization", "eDp5", "cookie", "__Host"):
            self.assertNotIn(word, seen.text.lower() if word.islower() else seen.text)

    def test_the_server_does_not_learn_the_token(self):
        made = self.token()
        url = f"{self.server.url}{made['url']}page"
        seen = self.server.request("GET", made["url"] + "x", key=False, headers={
            "Referer": url, "X-Original-URI": made["url"], "X-Forwarded-Uri": made["url"], "X-Own": "1",
            "X-Forwarded-Prefix": made["url"], "Destination": url})
        self.assertEqual(seen.status, 200, seen.text)
        self.assertIn("x-own: 1", seen.text)
        self.assertNotIn(made["token"], seen.text)
        self.assertNotIn("X-Forwarded-Prefix", seen.text)

    def status_of(self, url):
        """None of an answer whose body ends with the link."""
        try:
            return self.server.request("GET", url, key=False).status
        except http.client.IncompleteRead:
            return None

    def test_ends(self):
        short = self.token(expires_seconds=1)["url"]
        harness.wait_for("its end", lambda: self.status_of(short) == 401)
        with Session(self.server) as other:
            url = other.call("POST", "/ports/8000/tokens", {}, status=201).json()["url"]
        self.assertEqual(self.server.request("GET", url, key=False).status, 404)

    def test_bounds(self):
        for body in ({"expires_seconds": 0}, {"expires_seconds": 10**9}, {"x": 1}):
            self.assertIn(self.session.call("POST", "/ports/8000/tokens", body).status, (400, 422), body)

    def test_cli(self):
        made = self.server.cli("port", "link", self.session.id, "8000", "--expires", "60")
        self.assertEqual(made.returncode, 0, made.stderr)
        url = made.stdout.strip()
        self.assertTrue(url.startswith(self.server.url + self.session.path))
        self.assertEqual(self.server.request("GET", url.removeprefix(self.server.url), key=False).status, 200)
        self.assertIn("PORT", self.server.cli("port", "link", self.session.id, "x").stderr)


class Activity(PortTest):
    def test_a_connection_keeps_the_session(self):
        with Session(self.server, language="python", idle_ttl_seconds=2) as session:
            # A process left behind by a program serves on, and keeps nothing alive.
            session.exec("import subprocess, sys, time, socket\n"
                         "subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True,"
                         " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
                         "while True:\n"
                         "    try: socket.create_connection(('127.0.0.1', 8000)).close(); break\n"
                         "    except OSError: time.sleep(0.05)\n", args=[SERVER])
            with WebSocket(self.server.host, self.server.port, f"{session.path}/ports/8000/ws",
                           {"Authorization": f"Bearer {self.server.key}"}) as ws:
                end = time.monotonic() + 4
                while time.monotonic() < end:
                    ws.send(TEXT, b"x")
                    self.assertEqual(ws.receive(), (TEXT, b"x"))
                    time.sleep(0.2)
                self.assertEqual(session.show()["status"], "running")
            self.assertEqual(session.wait_ended()["status"], "ended")

    def test_ends_with_the_session(self):
        with Session(self.server, language="python") as session:
            session.wait_output(session.start(SERVER, timeout_seconds=600), "ready")
            with WebSocket(self.server.host, self.server.port, f"{session.path}/ports/8000/ws",
                           {"Authorization": f"Bearer {self.server.key}"}) as ws:
                session.end()
                with self.assertRaises(OSError):
                    ws.receive()


def rss(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024


class Watch:
    """The peak memory of a process during the block."""

    def __init__(self, pid):
        self.pid, self.most = pid, 0

    def __enter__(self):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.wait(0.02):
            self.most = max(self.most, rss(self.pid))


if __name__ == "__main__":
    unittest.main()
