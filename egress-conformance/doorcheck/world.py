# SPDX-License-Identifier: Apache-2.0
"""The fake internet, seen from the machine under test.

    with World() as world:
        start = world.mark()
        ...                                  # a program in a sandbox tries something
        events = world.since(start)          # everything that arrived meanwhile
        assert not world.reached(events, zone.EVIL)

The caller's network namespace gets a link whose other end is the fake internet, and a default route to it. The caller
needs CAP_NET_ADMIN there, and the namespace should have no other device (tests/jail.py, or unshare --net): nothing
here may touch a machine's own network.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from doorcheck.internet import zone

HERE = pathlib.Path(__file__).resolve().parent
LINK, PEER = "world0", "world1"
RESOLVER = f"{zone.RESOLVER}:53"
CANARY_PORTS = (80, 443)
START_SECONDS, MARK_SECONDS = 30, 30
DAYS = "30"


def run(*command, **how):
    return subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, **how)


def alone():
    """Whether this network namespace has no device but loopback, so that it may be changed."""
    return {name for _, name in socket.if_nameindex()} <= {"lo"}


def missing():
    """The first program that the fake internet needs and this machine lacks; None if it has all."""
    return next((name for name in ("ip", "openssl") if shutil.which(name) is None), None)


def make_certificates(directory):
    """An authority, and a certificate of it for every name of the zone. openssl(1)"""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", DAYS)
    run("openssl", "req", "-x509", *curve, "-keyout", directory / "ca.key", "-out", directory / "ca.pem",
        "-subj", "/CN=fake internet", "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    run("openssl", "req", "-new", *curve[:-2], "-keyout", directory / "server.key", "-out", directory / "server.csr", "-subj", "/CN=server")
    names = ",".join([*(f"DNS:{name}" for name in zone.CERTIFIED), f"IP:{zone.EVIL}", f"IP:{zone.ALLOWED}"])
    (directory / "extensions").write_text(f"subjectAltName={names}\n")
    run("openssl", "x509", "-req", "-in", directory / "server.csr", "-CA", directory / "ca.pem", "-CAkey", directory / "ca.key",
        "-CAcreateserial", "-days", DAYS, "-out", directory / "server.pem", "-extfile", directory / "extensions")
    (directory / "server.key").chmod(0o600)


class Canary(threading.Thread):
    """Listens on the machine under test itself: no sandbox may reach the machine that holds it."""

    def __init__(self, log):
        super().__init__(daemon=True)
        self._log = log
        self._listeners = [socket.create_server(("0.0.0.0", port)) for port in CANARY_PORTS]

    def run(self):
        threads = [threading.Thread(target=self._accept, args=(each,), daemon=True) for each in self._listeners]
        for thread in threads:
            thread.start()

    def _accept(self, listener):
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            address, port = connection.getsockname()
            self._log(kind="home", address=address, port=port, source=peer[0])
            connection.close()

    def close(self):
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()


class World:
    """`h2`: with an HTTP/2 server, which needs node(1). `ssh`: with dropbear(8). `fill`: a function that puts files into
    the directory that the web servers serve. `ttl`: how long answers of the authoritative server live, in seconds."""

    def __init__(self, h2=False, ssh=False, fill=None, ttl=None):
        self._wanted = {"h2": h2, "ssh": ssh}
        self._fill, self._ttl = fill, ttl
        self._marks = 0
        self.directory = self.process = None

    def __enter__(self):
        if not alone():
            raise RuntimeError("this network namespace has devices of its own: run in tests/jail.py, or in unshare --net")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="fake-internet."))
        self.directory.chmod(0o755)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            (self.directory / "files").mkdir()
            if self._fill is not None:
                self._fill(self.directory / "files")
            make_certificates(self.directory)
            if self._ttl is not None:
                (self.directory / "ttl").write_text(str(self._ttl))
            if self._wanted["h2"]:
                (self.directory / "h2").touch()
            if self._wanted["ssh"]:
                self._prepare_ssh()
            self._start()
            undo.pop_all()
        return self

    def __exit__(self, *exception):
        self.close()

    @property
    def ca(self):
        """The authority's certificate, as PEM."""
        return (self.directory / "ca.pem").read_text()

    @property
    def resolver(self):
        return RESOLVER

    # - life -

    def _prepare_ssh(self):
        """Keys, and the command that serves root's account (dropbear(8)), with a home directory of its own."""
        run("dropbearkey", "-t", "ed25519", "-f", self.directory / "host_key")
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / "client_key")
        (self.directory / "ssh.sh").write_text(
            "set -e\nmount -t tmpfs -o mode=700 none /root\nmkdir -m 700 /root/.ssh\n"
            f"install -m 600 {self.directory}/client_key.pub /root/.ssh/authorized_keys\n"
            f"exec /usr/sbin/dropbear -F -s -r {self.directory}/host_key -P {self.directory}/ssh.pid -p 127.0.0.1:10022\n")

    def _start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "doorcheck.internet", str(self.directory)], cwd=HERE.parent, text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._expect("made")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", LINK, "type", "veth", "peer", "name", PEER, "netns", str(self.process.pid))
        run("ip", "address", "add", f"{zone.HOME}/24", "dev", LINK)
        run("ip", "address", "add", f"{zone.HOME6}/64", "dev", LINK, "nodad")
        run("ip", "link", "set", LINK, "up")
        run("ip", "route", "add", "default", "via", zone.RESOLVER)
        self._ask({})
        self._expect("ready")
        run("ip", "-6", "route", "add", "default", "via", zone.RESOLVER6, "dev", LINK)
        self.canary = Canary(self._log_home)
        self.canary.start()

    def _expect(self, word):
        timer = threading.Timer(START_SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline().strip()
        timer.cancel()
        if line != word:
            raise RuntimeError(f"the fake internet said {line!r} instead of {word!r}")

    def _ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def close(self):
        """Ends the servers; the link goes with their namespace."""
        if getattr(self, "canary", None):
            self.canary.close()
        if self.process is not None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None
        subprocess.run(["ip", "link", "delete", LINK], capture_output=True, check=False)
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    # - the oracle -

    @property
    def _log_path(self):
        return self.directory / "world.jsonl"

    def _log_home(self, **event):
        with open(self._log_path, "ab", buffering=0) as log:
            log.write(json.dumps({**event, "at": time.time()}).encode() + b"\n")

    def mark(self):
        """→ a position of the log behind everything that has arrived by now."""
        self._marks += 1
        self._ask({"mark": self._marks})
        wanted = json.dumps({"kind": "mark", "number": self._marks})[:-1].encode()
        end = time.monotonic() + MARK_SECONDS
        while time.monotonic() < end:
            at = self._log_path.read_bytes().rfind(wanted)
            if at >= 0:
                return at
            time.sleep(0.005)
        raise AssertionError("the fake internet does not answer")

    def since(self, position):
        """All events from a mark on until now."""
        end = self.mark()
        with open(self._log_path, "rb") as log:
            log.seek(position)
            events = [json.loads(line) for line in log.read(end - position).splitlines()]
        return [event for event in events if event["kind"] != "mark"]

    def reset(self):
        """Changing names begin anew."""
        self._ask({"reset": True})
        self.mark()

    # - questions about events -

    @staticmethod
    def of(events, kind, **fields):
        """The events of a kind that have these fields."""
        return [event for event in events if event["kind"] == kind and all(event.get(key) == value for key, value in fields.items())]

    @staticmethod
    def reached(events, *addresses):
        """The events of connections, datagrams and packets to the addresses; to any but the resolver without addresses."""
        def counts(event):
            if event["kind"] == "dns" or "address" not in event:
                return False
            if addresses:
                return event["address"] in addresses
            return event["address"] not in (zone.RESOLVER, zone.RESOLVER6) or event.get("port") != 53
        return [event for event in events if counts(event)]

    @staticmethod
    def asked(events, text=""):
        """The names of DNS queries that contain the text."""
        return sorted({event["name"].lower() for event in events if event["kind"] == "dns" and text in event["name"].lower()})
