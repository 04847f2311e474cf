# SPDX-License-Identifier: Apache-2.0
"""A conversation with a session, told twice: over HTTP and with the command line. A table goes up, a cell draws it,
its picture comes back and is kept, a server is reached, vim edits, the work is forked."""

import base64
import contextlib
import fcntl
import hashlib
import io
import json
import os
import pathlib
import pty
import select
import shutil
import struct
import subprocess
import tarfile
import tempfile
import termios
import time
import unittest
import urllib.parse

import harness
import machine
from session_case import Session
from websocket import TEXT, WebSocket

CSV = "day,visits\n1,3\n2,7\n3,5\n4,9\n"
WEB_PORT, ECHO_PORT = 8000, 8001

# A bar for each row, as a PNG written by hand: a picture without any library.
DRAW = r'''
import csv, struct, zlib
rows = list(csv.DictReader(open("data.csv")))
class Figure:
    def _repr_png_(self):
        values = [int(row["visits"]) for row in rows]
        lines = b"".join(b"\0" + b"".join(b"\0\0\0\0" if v > y else b"\xff\xff\xff\xff" for v in values)
                         for y in reversed(range(max(values))))
        def chunk(kind, body):
            return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        head = struct.pack(">IIBBBBB", 4 * len(values), max(values), 8, 0, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
figure = Figure()
open("plot.png", "wb").write(figure._repr_png_())
figure
'''
PLOT = r'''
import csv, matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
rows = list(csv.DictReader(open("data.csv")))
pyplot.bar([row["day"] for row in rows], [int(row["visits"]) for row in rows])
pyplot.savefig("plot.png")
'''

# A WebSocket server that echoes (RFC 6455, short frames).
ECHO = r'''
import base64, hashlib, socket, sys
def need(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more: raise SystemExit
        data += more
    return data
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    s, _ = server.accept()
    head = b""
    while not head.endswith(b"\r\n\r\n"): head += need(s, 1)
    key = next(l.split(b": ")[1] for l in head.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    first, size = need(s, 2)
    mask = need(s, 4)
    body = bytes(b ^ mask[i % 4] for i, b in enumerate(need(s, size & 127)))
    s.sendall(bytes([first, len(body)]) + body)
    s.close()
'''


def editor():
    return "vim" if shutil.which("vim") else "vim.tiny"


def png_size(data):
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), data[:16]
    return struct.unpack(">II", data[16:24])


class Http:
    """The conversation over HTTP."""

    def __init__(self, case, server):
        self.case, self.server = case, server

    def create(self):
        return Session(self.server, language="python", memory_mb=192, ttl_seconds=600, timeout_seconds=300).id

    def call(self, method, path, body=None, status=200, **options):
        answer = self.server.request(method, path, body, **options)
        self.case.assertEqual(answer.status, status, (method, path, answer.body[:2000]))
        return answer

    def upload(self, session, name, data):
        self.call("PUT", f"/v1/sessions/{session}/files/{name}", data)

    def download(self, session, name):
        return self.call("GET", f"/v1/sessions/{session}/files/{name}").body

    def cell(self, session, code):
        """→ (the text of its results, its pictures)"""
        done = self.call("POST", f"/v1/sessions/{session}/exec?wait=60", {"code": code}).json()
        self.case.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        pictures = [base64.b64decode(each["image/png"]) for each in done["results"] if "image/png" in each]
        return "\n".join(each.get("text/plain", "") for each in done["results"]), pictures

    def program(self, session, *command):
        request = {"command": list(command), "background": True}
        return self.call("POST", f"/v1/sessions/{session}/exec", request, status=202).json()["id"]

    def keep(self, name, data):
        path = f"/v1/artifacts?path={urllib.parse.quote(name)}"
        return self.call("POST", path, data, status=201).json()["id"]

    def kept(self, artifact):
        return self.call("GET", f"/v1/artifacts/{artifact}/content").body

    @contextlib.contextmanager
    def port(self, session, port):
        """(host, port, prefix, headers) for a server inside."""
        yield (self.server.host, self.server.port, f"/v1/sessions/{session}/ports/{port}",
               {"Authorization": f"Bearer {self.server.key}"})

    def edit(self, session, keys):
        """vim on a terminal, over a WebSocket: (text to wait for, text to type), and then its end."""
        body = {"command": [editor(), "-u", "NONE", "notes.txt"], "background": True, "tty": {"cols": 80, "rows": 24}}
        execution = self.call("POST", f"/v1/sessions/{session}/exec", body, status=202).json()["id"]
        with WebSocket(self.server.host, self.server.port, f"/v1/executions/{execution}/events",
                       {"Authorization": f"Bearer {self.server.key}"}) as ws:
            messages, text = ws.messages(), ""
            for wanted, typed in keys:
                while wanted not in text:
                    message = json.loads(next(messages))
                    if message["type"] == "stdout":
                        text += base64.b64decode(message["data"]).decode(errors="replace")
                text = text.split(wanted, 1)[1]
                ws.send(TEXT, json.dumps({"type": "input", "data": typed}).encode())
            self.case.assertEqual([json.loads(message) for message in messages][-1]["status"], "completed")
        self.case.assertEqual(self.server.get(execution)["exit_code"], 0)

    def fork(self, session, count):
        taken = self.call("POST", f"/v1/sessions/{session}/snapshots", status=201).json()["id"]
        forks = [Session(self.server, language="python", from_snapshot=taken).id for _ in range(count)]
        self.call("DELETE", f"/v1/snapshots/{taken}", status=204)
        return forks

    def tree(self, session):
        """Every file of the workspace: path → bytes."""
        archive = self.call("GET", f"/v1/sessions/{session}/archive").body
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            return {member.name.removeprefix("./"): tar.extractfile(member).read() for member in tar if member.isfile()}

    def end(self, session):
        self.call("DELETE", f"/v1/sessions/{session}")

    def status(self, session):
        return self.call("GET", f"/v1/sessions/{session}").json()["status"]


class Cli:
    """The same with the command line."""

    def __init__(self, case, server):
        self.case, self.server = case, server
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="conversation."))
        case.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {**server._environment(), "CLOISTER_URL": server.url, "CLOISTER_API_KEY": server.key}

    def good(self, *args, **options):
        done = self.server.cli(*args, **options)
        self.case.assertEqual(done.returncode, 0, (args, done.stderr))
        return done.stdout

    def create(self):
        return self.good("session", "create", "--language", "python", "--memory", "192", "--ttl", "600",
                         "--timeout", "300").strip()

    def upload(self, session, name, data):
        (self.folder / "up").write_bytes(data)
        self.good("cp", self.folder / "up", f"{session}:{name}")

    def download(self, session, name):
        self.good("cp", f"{session}:{name}", self.folder / "down")
        return (self.folder / "down").read_bytes()

    def cell(self, session, code):
        images = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        said = self.good("exec", session, "--images", images, "-c", code)
        return said.strip(), [path.read_bytes() for path in sorted(images.glob("*.png"))]

    def program(self, session, *command):
        return self.good("exec", session, "--background", "--", *command).strip()

    def keep(self, name, data):
        (self.folder / name).write_bytes(data)
        return self.good("artifact", "put", self.folder / name).strip()

    def kept(self, artifact):
        return self.good("artifact", "get", artifact, "-", text=False)

    @contextlib.contextmanager
    def port(self, session, port):
        local = harness.free_port()
        tunnel = subprocess.Popen(
            [self.server.bin / "cloister", "port", "open", session, str(port), "--local", f"127.0.0.1:{local}"],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            self.case.assertIn(str(local).encode(), tunnel.stdout.readline())
            yield "127.0.0.1", local, "", {}
        finally:
            tunnel.kill()
            tunnel.wait()
            tunnel.stdout.close()

    def edit(self, session, keys):
        ours, theirs = pty.openpty()
        try:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            shell = subprocess.Popen(
                [self.server.bin / "cloister", "shell", session, "--", editor(), "-u", "NONE", "notes.txt"],
                env={**self.environment, "TERM": "vt100"}, stdin=theirs, stdout=theirs, stderr=theirs,
                start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
            self.case.addCleanup(shell.kill)
            text = ""
            for wanted, typed in keys:
                end = time.monotonic() + 30
                while wanted not in text:
                    ready, _, _ = select.select([ours], [], [], max(0, end - time.monotonic()))
                    self.case.assertTrue(ready, f"{wanted!r} not in {text!r}")
                    text += os.read(ours, 65536).decode(errors="replace")
                text = text.split(wanted, 1)[1]
                os.write(ours, typed.encode())
            self.case.assertEqual(shell.wait(30), 0)
        finally:
            os.close(ours)
            os.close(theirs)

    def fork(self, session, count):
        taken = self.good("session", "snapshot", session, "--name", "before").strip()
        self.good("snapshot", "rm", taken)
        return self.good("session", "fork", session, "-n", str(count)).split()

    def tree(self, session):
        target = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "tree"
        self.good("cp", "-r", f"{session}:", target)
        return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def end(self, session):
        self.good("session", "end", session)

    def status(self, session):
        return json.loads(self.good("session", "show", session, "--json"))["status"]


class Conversation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server())

    def tell(self, by):
        session = by.create()
        self.addCleanup(self.server.request, "DELETE", f"/v1/sessions/{session}")
        self.assertEqual(by.status(session), "running")

        with self.subTest("a table goes up, and a cell draws it"):
            by.upload(session, "data.csv", CSV.encode())
            self.assertEqual(by.download(session, "data.csv"), CSV.encode())
            _, pictures = by.cell(session, DRAW)
            self.assertEqual([png_size(each) for each in pictures], [(16, 9)])
            self.assertEqual(by.cell(session, "len(rows), sum(int(row['visits']) for row in rows)")[0], "(4, 24)",
                             "what a cell has made, the next one has")

        with self.subTest("its picture is kept as an artifact"):
            picture = by.download(session, "plot.png")
            self.assertEqual(picture, pictures[0])
            artifact = by.keep("plot.png", picture)
            self.assertEqual(by.kept(artifact), picture)
            record = self.server.request("GET", f"/v1/artifacts/{artifact}").json()
            self.assertEqual((record["content_type"], record["sha256"]),
                             ("image/png", hashlib.sha256(picture).hexdigest()))

        with self.subTest("a server inside is reached"):
            by.program(session, "python3", "-m", "http.server", str(WEB_PORT), "--bind", "127.0.0.1")
            with by.port(session, WEB_PORT) as (host, port, prefix, headers):
                def fetch():
                    with contextlib.suppress(OSError, EOFError):
                        answer = harness.http_request(host, port, "GET", f"{prefix}/data.csv", headers=headers)
                        return answer if answer.status == 200 else None
                self.assertEqual(harness.wait_for("the server inside", fetch, 30).text, CSV)
                self.assertEqual(harness.http_request(host, port, "GET", f"{prefix}/none", headers=headers).status, 404)

        with self.subTest("and a WebSocket"):
            echo = by.program(session, "python3", "-c", ECHO, str(ECHO_PORT))
            harness.wait_for("the echo server", lambda: "listening" in self.server.get(echo)["stdout"], 30)
            with by.port(session, ECHO_PORT) as (host, port, prefix, headers):
                with WebSocket(host, port, f"{prefix}/", headers) as ws:
                    self.assertEqual(ws.status, 101)
                    ws.send(TEXT, b"is anybody there")
                    self.assertEqual(ws.receive(), (TEXT, b"is anybody there"))

        with self.subTest("vim edits a file"):
            machine.need_program(self, editor())
            by.upload(session, "notes.txt", b"first line\n")
            by.edit(session, [("first line", "osecond line\x1b"), ("second line", ":wq\r")])
            self.assertEqual(by.download(session, "notes.txt"), b"first line\nsecond line\n")

        with self.subTest("two forks go their own ways"):
            forks = by.fork(session, 2)
            self.assertEqual(len(set(forks)), 2)
            for fork in forks:
                self.addCleanup(self.server.request, "DELETE", f"/v1/sessions/{fork}")
            before = by.tree(session)
            self.assertEqual(before["data.csv"], CSV.encode())
            by.cell(forks[0], "open('data.csv', 'a').write('5,1\\n');")
            by.cell(forks[1], "import os; os.unlink('plot.png')")
            first, second = by.tree(forks[0]), by.tree(forks[1])
            self.assertEqual({**before, "data.csv": CSV.encode() + b"5,1\n"}, first)
            self.assertEqual({path: data for path, data in before.items() if path != "plot.png"}, second)
            self.assertEqual(by.tree(session), before, "the one they came from is as it was")

        with self.subTest("and all of it ends"):
            for each in (session, *forks):
                by.end(each)
                self.assertEqual(by.status(each), "ended")
            self.assertEqual(by.kept(artifact), picture, "what was kept stays")

    def test_over_http(self):
        self.tell(Http(self, self.server))

    def test_with_the_command_line(self):
        self.tell(Cli(self, self.server))

    def test_matplotlib(self):
        by = Http(self, self.server)
        session = by.create()
        self.addCleanup(by.end, session)
        by.upload(session, "data.csv", CSV.encode())
        _, pictures = by.cell(session, PLOT)
        self.assertEqual(len(pictures), 1)
        self.assertGreater(min(png_size(pictures[0])), 100)
        self.assertGreater(min(png_size(by.download(session, "plot.png"))), 100)


if __name__ == "__main__":
    unittest.main()
