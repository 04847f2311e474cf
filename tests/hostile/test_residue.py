# SPDX-License-Identifier: Apache-2.0
"""P30 to P32 and P41: traces after a run, changes to the image, and reachable places."""
import re
import time
import unittest

import residue
from hostile import HostileTest, harness
from session_case import Session

COPY_SECONDS = 60  # until a run gets a copy of a zygote, on a machine whose processors are busy

REACH = r'''
import errno, socket, time
A = socket
def attempt(name, make):
    began = time.monotonic()
    try:
        make(); result = "worked"
    except OSError as e: result = errno.errorcode.get(e.errno, str(e))
    print(name, result, "slow" if time.monotonic() - began > 2 else "fast")
def connect(family, kind, where):
    s = socket.socket(family, kind); s.settimeout(2); s.connect(where)
    if kind == socket.SOCK_DGRAM: s.send(b"x")
for host in HOSTS:
    for port in (53, 80, 443, CANARY):
        attempt(f"tcp {host}:{port}", lambda: connect(A.AF_INET, A.SOCK_STREAM, (host, port)))
        attempt(f"udp {host}:{port}", lambda: connect(A.AF_INET, A.SOCK_DGRAM, (host, port)))
attempt("tcp6", lambda: connect(A.AF_INET6, A.SOCK_STREAM, ("2001:db8::1", 80)))
attempt("tcp6-ll", lambda: connect(A.AF_INET6, A.SOCK_STREAM, ("fe80::1", 80, 0, 2)))
attempt("icmp", lambda: socket.socket(A.AF_INET, A.SOCK_DGRAM, 1).sendto(b"\x08\0\0\0\0\0\0\0", ("198.51.100.10", 0)))
attempt("raw", lambda: socket.socket(A.AF_INET, A.SOCK_RAW, 255))
attempt("packet", lambda: socket.socket(A.AF_PACKET, A.SOCK_RAW, 3))
attempt("netlink", lambda: socket.socket(A.AF_NETLINK, A.SOCK_RAW, 0))
attempt("sctp", lambda: connect(A.AF_INET, A.SOCK_SEQPACKET, ("198.51.100.10", 80)))
attempt("vsock", lambda: socket.socket(A.AF_VSOCK, A.SOCK_STREAM).connect((2, 1)))
attempt("alg", lambda: socket.socket(A.AF_ALG, A.SOCK_SEQPACKET))
attempt("bluetooth", lambda: socket.socket(31, A.SOCK_RAW))
attempt("xdp", lambda: socket.socket(44, A.SOCK_RAW))
attempt("dns", lambda: socket.getaddrinfo("evil.test", 80))
import os
print("interfaces", sorted(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line))
s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); print("loopback works")
'''

SOCKETS = r'''
import os, socket, stat
for top in ("/run", "/var", "/tmp", "/dev", "/etc", "/workspace", "/home", "/usr/local", "/proc/1/root/run"):
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode): print("socket", folder, name)
            except OSError: pass
print("unix", sorted({line.split()[7] for line in open("/proc/net/unix").read().splitlines()[1:] if len(line.split()) > 7}))
for name in ("\0/tmp/.X11-unix/X0", "\0/containerd-shim", "/run/docker.sock", "/run/containerd/containerd.sock",
             "/run/dbus/system_bus_socket", "/run/systemd/private", "/var/run/docker.sock", "/run/node.sock"):
    try: socket.socket(socket.AF_UNIX).connect(name); print("connected", repr(name))
    except OSError: pass
print("end")
'''

REWRITE = r'''
for f in /usr/bin/python3 /usr/lib/python3/dist-packages/evil.py /usr/local/lib/evil.so /etc/ld.so.preload \
         /etc/profile /etc/bash.bashrc /etc/passwd /bin/sh; do
  (echo evil >> "$f") 2>/dev/null && echo "wrote $f"
done
mv /usr/bin/env /usr/bin/env2 2>/dev/null && echo moved
ln -s /workspace /usr/lib/evil 2>/dev/null && echo linked
rm -f /usr/bin/true 2>/dev/null; test -e /usr/bin/true || echo removed
touch /x 2>/dev/null && echo touched; echo end
'''


class BetweenTenants(HostileTest):
    """P30: a tenant's programs leave all they can, and another tenant's programs look in the next sandboxes."""

    # So few sandboxes that the same uids and cgroups serve both, with interpreters that wait longer than the time
    # between two runs.
    CONFIG = f"pool:\n  ready: 2\n  idle_ms: {10_000 if harness.SLOW else 500}\n{harness.CALM}node:\n  max_sandboxes: 6\n"
    UNIQUE = ("slot", "copied")
    IN_COPIES = False  # look() checks for copies; other runs in between would take the places

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one, cls.other = (cls.server.request("POST", "/v1/keys", {"tenant": tenant, "name": "p30"}).json()["secret"]
                              for tenant in ("one", "other"))

    def setUp(self):
        super().setUp()
        self.slots = {self.one: set(), self.other: set()}

    def look(self, language, code, key):
        """The findings, by name. Python looks from a copy of a zygote."""
        end = time.monotonic() + COPY_SECONDS
        while time.monotonic() < end:
            result = self.run_code(language, code, key=key)
            self.assertEqual((result["exit_code"], result["stderr"]), (0, ""), result["stdout"])
            lines = dict(line.split(":", 1) for line in result["stdout"].splitlines())
            self.slots[key].add(self.slot(int(lines["slot"])))
            if lines.get("copied", " True") == " True":
                return {what: value for what, value in lines.items() if what not in self.UNIQUE}
        raise AssertionError("no run got a copy of a zygote")

    @staticmethod
    def slot(first):
        """The number of a sandbox from its first uid, in the host's or in a zygote's namespace."""
        return (first - harness.UID_FIRST if first >= harness.UID_FIRST else first - 1) // 16

    def leave(self, language):
        self.assertEnded(self.run_code(language, residue.LEAVE[language], key=self.one), "completed")

    def check(self, language):
        if not harness.have_language(self.server, language):
            self.skipTest(f"the toolchain of {language} is not on this machine")
        fresh = self.look(language, residue.LOOK[language], self.other)
        found = self.look(language, residue.BOTH[language], self.one)
        self.assertEqual([what for what in fresh if found[what] == fresh[what]], residue.NOT_LEFT[language])
        for leaver in residue.LEAVE:
            if not harness.have_language(self.server, leaver):
                continue
            with self.subTest(left_by=leaver):
                self.leave(leaver)
                for _ in range(2):
                    self.assertEqual(self.look(language, residue.LOOK[language], self.other), fresh)
        for _ in range(20):  # until both have been in the same place
            if self.slots[self.one] & self.slots[self.other]:
                return
            for key in (self.one, self.other, self.other):
                self.look(language, residue.LOOK[language], key)
        self.fail(f"no place was shared: {self.slots}")

    def test_p30_python(self):
        self.check("python")

    def test_p30_node(self):
        self.check("node")

    def test_p30_shell(self):
        self.check("bash")


class BetweenSessions(HostileTest):
    """P30 and P31 in sessions: a tenant's session leaves, another tenant's next session looks."""

    # So few places that sessions get each other's.
    CONFIG = "node:\n  max_sandboxes: 2\n"

    def look(self, session, language):
        done = session.exec(residue.LOOK[language], language=language)
        self.assertEqual((done["exit_code"], done["stderr"]), (0, ""), done["stdout"])
        shown = re.sub(r"\.cloister-\w+", "the program itself", done["stdout"])
        lines = dict(line.split(":", 1) for line in shown.splitlines())
        return {what: value for what, value in lines.items() if what not in BetweenTenants.UNIQUE}

    def test_p30_p31_nothing_is_left(self):
        one, other = (self.server.request("POST", "/v1/keys", {"tenant": tenant, "name": "p30"}).json()["secret"]
                      for tenant in ("first", "second"))
        languages = [each for each in residue.LEAVE if harness.have_language(self.server, each)]
        fresh = {}
        for language in languages:
            with Session(self.server, key=other) as session:
                fresh[language] = self.look(session, language)
                digest = session.show()["provenance"]["image_digest"]
        for leaver in languages:
            with Session(self.server, key=one) as session:
                self.assertEnded(session.exec(residue.LEAVE[leaver], language=leaver), "completed")
                self.assertEqual(session.exec(REWRITE, language="bash")["stdout"], "end\n")
                self.assertIn("left", session.exec("ls -A . /tmp /dev/shm", language="bash")["stdout"])
            for language in languages:
                with self.subTest(left_by=leaver, found_by=language), Session(self.server, key=other) as session:
                    self.assertEqual(self.look(session, language), fresh[language])
                    self.assertEqual(session.show()["provenance"]["image_digest"], digest)


class Residue(HostileTest):
    def test_p31_image_is_immutable(self):
        result = self.run_code("bash", REWRITE)
        self.assertEqual(result["stdout"], "end\n")
        after = self.run_code("python", "print('clean')")
        self.assertEqual(after["stdout"], "clean\n")
        self.assertEqual(after["provenance"]["image_digest"], result["provenance"]["image_digest"])
        self.assertRegex(after["provenance"]["image_digest"], r"^sha256:[0-9a-f]{64}$")

    def test_p32_default_deny(self):
        hosts = ["198.51.100.10", "169.254.169.254", "10.0.0.1", "8.8.8.8"]
        code = f"HOSTS = {hosts!r}\nCANARY = {self.canaries.port}\n" + REACH
        result = self.run_code("python", code, timeout_seconds=60)
        lines = result["stdout"].splitlines()
        self.assertIn("loopback works", lines)
        self.assertIn("interfaces ['lo']", lines)
        for line in lines:
            self.assertNotIn("worked", line.replace("loopback works", ""))
            self.assertNotIn("slow", line)
        self.assertEqual(self.run_code(
            "python", f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {self.canaries.port})))"
        )["stdout"], "111\n")

    def test_p41_local_sockets(self):
        result = self.run_code("python", SOCKETS)
        self.assertTrue(result["stdout"].endswith("end\n"))
        self.assertNotIn("connected", result["stdout"])
        self.assertNotIn("socket ", result["stdout"])
        self.assertIn("unix []", result["stdout"])


if __name__ == "__main__":
    unittest.main()
