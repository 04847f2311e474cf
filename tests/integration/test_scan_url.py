#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The scan of artifacts by a server: the bytes are the body of a POST, the status is the verdict, and without a verdict nothing is
kept."""

import http.server
import os
import pathlib
import re
import ssl
import subprocess
import tempfile
import threading
import unittest

import harness

STATUS = {b"BAD": 403, b"VIRUS": 406, b"WRONG": 422, b"ODD": 500, b"MOVED": 302, b"NONE": 404}


class Scanner:
    """Answers by the first word of the body. `context`: speaks TLS."""

    def __init__(self, context=None):
        self.context, self.seen = context, []

    def __enter__(self):
        scanner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def body(self):
                if "Content-Length" in self.headers:
                    return self.rfile.read(int(self.headers["Content-Length"]))
                whole = b""
                while (size := int(self.rfile.readline(), 16)) > 0:
                    whole += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return whole

            def do_POST(self):
                body = self.body()
                scanner.seen.append((self.path, self.headers.get("Authorization"), self.headers.get("Content-Type"), body))
                word = (body.split() or [b""])[0]
                if word == b"SLOW":
                    return scanner.held.wait(60)
                self.send_response(STATUS.get(word, 200))
                self.send_header("Content-Length", "0")
                self.end_headers()

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that went

        self.held = threading.Event()
        self.listener = Listener(("127.0.0.1", 0), Handler)
        if self.context:
            self.listener.socket = self.context.wrap_socket(self.listener.socket, server_side=True)
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.held.set()
        self.listener.shutdown()
        self.listener.server_close()

    @property
    def url(self):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.listener.server_address[1]}/scan?from=cloister"


class Url(unittest.TestCase):
    def serve(self, url, more=""):
        return self.enterContext(harness.Server(f"artifacts:\n  scan: {{url: '{url}', timeout_seconds: 2{more}}}\n"))

    def put(self, server, body, status):
        answer = server.request("POST", "/v1/artifacts?path=x", body)
        self.assertEqual(answer.status, status, answer.body[:500])
        return answer.json()

    def test_verdicts(self):
        scanner = self.enterContext(Scanner())
        server = self.serve(scanner.url)
        body = b"clean " + os.urandom(3_000_000)
        made = self.put(server, body, 201)
        self.assertEqual(server.request("GET", f"/v1/artifacts/{made['id']}/content").body, body)
        self.assertEqual(scanner.seen, [("/scan?from=cloister", None, "application/octet-stream", body)])
        for word in (b"BAD", b"VIRUS", b"WRONG"):
            self.assertIn("artifacts.scan.url", self.put(server, word + b" x", 403)["detail"])
        for word in (b"ODD", b"MOVED", b"NONE", b"SLOW"):
            self.put(server, word + b" x", 503)
        self.put(server, b"", 201)
        listed = server.request("GET", "/v1/artifacts").json()["artifacts"]
        self.assertEqual(len(listed), 2)

    def test_artifacts_of_runs(self):
        scanner = self.enterContext(Scanner())
        server = self.serve(scanner.url)
        done = server.run("for n in ('BAD', 'fine'): open(n, 'w').write(n)")
        self.assertEqual([each["path"] for each in done["artifacts"]], ["fine"])

    def test_a_server_that_is_not_there(self):
        server = self.serve(f"http://127.0.0.1:{harness.free_port()}/scan")
        self.put(server, b"clean", 503)

    def test_the_token(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "token").write_text("t0ken-of-the-scanner\n")
        scanner = self.enterContext(Scanner())
        server = self.serve(scanner.url, f", token_file: {folder}/token")
        self.put(server, b"clean", 201)
        self.assertEqual(scanner.seen[0][1], "Bearer t0ken-of-the-scanner")

    def test_authorities(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=scanner", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "ca"],
                       check=True, capture_output=True, timeout=60)
        (folder / "ca").chmod(0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca", folder / "key")
        scanner = self.enterContext(Scanner(context))
        self.put(self.serve(scanner.url), b"clean", 503)
        self.put(self.serve(scanner.url, f", ca_file: {folder}/ca"), b"clean", 201)


class Checks(unittest.TestCase):
    def test_mistakes_end_the_start(self):
        for setting, text in (("url: 'ftp://x'", r"artifacts\.scan\.url: must be"), ("url: 'http://scanner.test/'", r"artifacts\.scan\.url: must be"),
                              ("url: 'https://x', command: [/bin/true]", r"artifacts\.scan\.url: is given beside artifacts\.scan\.command"),
                              ("url: 'https://x', token_file: /nonexistent", r"artifacts\.scan\.token_file"),
                              ("url: 'https://x', ca_file: /nonexistent", r"artifacts\.scan\.ca_file")):
            server = harness.Server(f"artifacts:\n  scan: {{{setting}}}\n", ready=False)
            with self.subTest(setting):
                try:
                    server.__enter__()
                    harness.wait_for("the reason", lambda: re.search(text, server.log_tail()), 20)
                finally:
                    server.kill()
                    server._remove()


if __name__ == "__main__":
    unittest.main()
