# SPDX-License-Identifier: Apache-2.0
"""Receivers of notifications in tests: a webhook over HTTPS or HTTP, and a mail relay with STARTTLS."""

import base64
import http.server
import pathlib
import socketserver
import ssl
import subprocess
import tempfile
import threading


class Certificate:
    """A certificate of 127.0.0.1, signed by itself."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cloister-hooks."))
        self.dir.chmod(0o755)
        self.ca, key = self.dir / "ca.pem", self.dir / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", key, "-out", self.ca], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.ca, key)


def _serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def webhook(certificate=None, failures=0):
    """A server with `received`: (headers, body) of each request; the first `failures` get 503."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.received.append((dict(self.headers.items()), body))
            status = 503 if len(self.server.received) <= failures else self.server.answer
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):
            self.server.received.append((dict(self.headers.items()), b"GET " + self.path.encode()))
            self.send_error(404)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.received, server.answer = [], 204
    if certificate:
        server.socket = certificate.context.wrap_socket(server.socket, server_side=True)
    return _serve(server)


class Relay(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def mail_relay(certificate=None, user=None, ways="PLAIN"):
    """RFC 5321 as far as a client needs. `received`: (secured, from, [to], text) of each mail. With a `user`, takes
    mail only from clients with `password`, by any of the `ways`."""

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line):
            self.wfile.write(line.encode() + b"\r\n")
            self.wfile.flush()

        def authenticate(self, way, first=None):
            if way == "PLAIN":
                return base64.b64decode(first) == f"\0{user}\0{self.server.password}".encode()
            said = []
            for question in ("Username:", "Password:"):
                self.say("334 " + base64.b64encode(question.encode()).decode())
                said.append(base64.b64decode(self.rfile.readline()).decode())
            return said == [user, self.server.password]

        def handle(self):
            secured, sender, to = False, None, []
            known = user is None
            self.say("220 test")
            while line := self.rfile.readline().decode().rstrip("\r\n"):
                verb = line.split(" ")[0].upper()
                if verb == "EHLO":
                    self.say("250-test")
                    if user and secured:
                        self.say(f"250-AUTH {ways}")
                    self.say("250 STARTTLS" if certificate and not secured else "250 8BITMIME")
                elif verb == "AUTH" and line.split(" ")[1] in ways.split(" "):
                    known = self.authenticate(*line.split(" ")[1:])
                    self.say("235 welcome" if known else f"535 not {line}")
                elif verb == "MAIL" and not known:
                    self.say("530 who are you?")
                elif verb == "STARTTLS":
                    self.say("220 go")
                    self.request = certificate.context.wrap_socket(self.request, server_side=True)
                    self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb")
                    secured = True
                elif verb == "MAIL":
                    sender = line[len("MAIL FROM:"):]
                    self.say("250 ok")
                elif verb == "RCPT":
                    to.append(line[len("RCPT TO:"):])
                    self.say("250 ok")
                elif verb == "DATA":
                    self.say("354 go")
                    lines = []
                    while (part := self.rfile.readline().decode()) != ".\r\n":
                        lines.append(part)
                    self.server.received.append((secured, sender, to, "".join(lines)))
                    self.say("250 ok")
                elif verb == "QUIT":
                    return self.say("221 bye")
                else:
                    self.say("500 what?")

    server = Relay(("127.0.0.1", 0), Handler)
    server.received, server.password = [], None
    return _serve(server)


def mail_body(text):
    return base64.b64decode(text.split("\r\n\r\n", 1)[1]).decode()
