# SPDX-License-Identifier: Apache-2.0
"""The network of virtual machines: an emulated machine reaches what the policy grants and nothing else, with the same rules,
refusals and records as a sandbox without a machine. The fake internet's log says what arrived."""

import os
import pathlib
import tempfile
import unittest

import firecracker_case
import harness
import kvm_case
from api_case import CONFIG
from egress_case import INTERFACES, EgressCase, Result, door, start_world, zone
from kvm_case import QEMU, machines
from session_case import Session

IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))
LACKS = (f"no {QEMU}" if not os.path.exists(QEMU) else
         "no image: CLOISTER_MICROVM names none" if not (IMAGE / "root.squashfs").exists() else "")
SECONDS = 120  # for a run in an emulated machine, beside other suites
EMULATED = "microvm:\n  image: {}\n  accelerator: tcg\n  emulate: true\n"
LINKED = b"070701" + b"".join(f"{field:08x}".encode() for field in (1, 0o40755, 0, 0, 1, 0, 0, 0, 0, 0, 0, 16, 0)) \
    + b"modules-network\0\0\0"


def setUpModule():
    start_world()


def namespaces(server):
    """The network namespaces of the server's processes."""
    found = set()
    for pid in server.pids():
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            pass
    return found


@unittest.skipIf(LACKS, LACKS)
class Emulated(EgressCase):
    EGRESS = EMULATED.format(IMAGE)

    def reach(self, code, values=None, **request):
        done = self.server.run(self.text(code, **(values or {})), network_policy={"tier": "restricted"}, runtime="microvm",
                               timeout_seconds=SECONDS, wait=SECONDS, artifacts=[], **request)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        return done, Result(0, done["stdout"]).tries()

    # One program, since each has a machine of its own. The attempts of "refused" must fail within their seconds.
    CODE = r"""
import urllib.request
""" + INTERFACES + r"""
context = ssl.create_default_context(cadata=CA)
attempt("urllib", lambda: urllib.request.urlopen("https://allowed.test/", timeout=20, context=context).read())
attempt("plain", fetch, "allowed.test", tls=False)
attempt("tcp", lambda: answer(dial("neighbour.test", 9000), b"echo"))
attempt("large", lambda: len(urllib.request.urlopen("http://allowed.test/bytes?n=2000000", timeout=60).read()))
attempt("proxy", lambda: tunnel("allowed.test", 443, PROXY))
attempt("any server", lambda: dns("203.0.113.53", "allowed.test")[1] or 1 / 0)
attempt("over tcp", lambda: dns("203.0.113.53", "allowed.test", tcp=True)[1] or 1 / 0)
attempt("unknown", lambda: dns("198.18.0.1", "evil.test")[0])
attempt("name", fetch, "evil.test", check=False)
attempt("port", lambda: answer(dial("allowed.test", 22), b"x"))
attempt("literal", lambda: answer(dial(EVIL, 443), b"x"))
attempt("metadata", lambda: answer(dial("169.254.169.254", 80), request("169.254.169.254")))
attempt("IPv6", lambda: answer(dial("2001:db8::66", 443), b"x"))
for n in range(20): attempt(f"udp {n}", datagram, EVIL, 443, b"x")
attempt("its gateway", lambda: answer(dial("198.18.0.2", 22), b"x"))
own = socket.create_server(("127.0.0.1", 0))
attempt("own server", lambda: dial(*own.getsockname()))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
attempt("resolv.conf", lambda: open("/etc/resolv.conf").read())
attempt("etc", lambda: open("/etc/passwd").read()[:5])
attempt("interfaces", interfaces)
"""
    WORK = ("urllib", "plain", "tcp", "large", "proxy", "any server", "over tcp", "unknown", "own server", "resolv.conf", "etc")
    REFUSED = ("name", "port", "literal", "metadata", "IPv6", "its gateway", "raw", "packets", *(f"udp {n}" for n in range(20)))

    def test_a_machine_reaches_what_is_granted_and_nothing_else(self):
        before = namespaces(self.server)
        done, tried = self.reach(self.CODE, values={"EVIL": zone.EVIL})
        works = {name for name, told in tried.items() if told["ok"]}
        self.assertEqual(works, {*self.WORK, "interfaces"}, tried)
        self.assertEqual(tried["unknown"]["said"], "3", "a name that does not exist")
        self.assertEqual(tried["resolv.conf"]["said"], "nameserver 198.18.0.1\n")
        self.assertEqual((tried["large"]["said"], tried["etc"]["said"]), ("2000000", "root:"))
        self.assertEqual(tried["interfaces"]["said"], "['lo', 'eth0']")
        slow = {name: told["seconds"] for name, told in tried.items() if name in self.REFUSED and told["seconds"] > 1.5}
        self.assertEqual(slow, {}, "each is refused at once")
        for name, port, transport in ((zone.EVIL, 443, "tcp"), (zone.METADATA, 80, "tcp"), (zone.EVIL, 443, "udp"), ("evil.test", 0, "dns")):
            if transport != "dns":
                self.denied(done, name, port, transport)
            else:
                self.assertIn(name, str(done["network"]["denied"]))
        weakened = done["provenance"]["weakened"]
        self.assertEqual([each for each in weakened if "IPv6" in each and "record" in each][1:], [], weakened)
        self.assertTrue(any("over IPv6" in each for each in weakened), weakened)
        events = self.events()
        self.assertEqual({event["sni"] for event in self.world.of(events, "tls")}, {"allowed.test"})
        self.assertNotIn(zone.EVIL, str(events))
        harness.wait_for("the machine and its network to be gone",
                         lambda: not machines(self.server) and namespaces(self.server) <= before, 20)

    def test_a_session_has_ports_and_the_plans_that_change(self):
        code = self.text("attempt('it', fetch, 'allowed.test', tls=False)")
        with Session(self.server, self.call, language="python", runtime="microvm", network_policy={"tier": "restricted"}) as session:
            self.assertIn('"ok": true', session.exec(code, timeout_seconds=SECONDS)["stdout"])
            serves = ("import http.server, threading\n"
                      "server = http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)\n"
                      "print('serves', flush=True); server.serve_forever()")
            running = session.start(serves, timeout_seconds=SECONDS)
            harness.wait_for("the server", lambda: session.call("GET", "/ports/8000/").status == 200, 60)
            self.apply(door("api.test:443"))
            self.assertIn('"ok": false', session.exec(code, timeout_seconds=SECONDS)["stdout"])
            session.call("DELETE", f"/v1/executions/{running}")
        harness.wait_for("the machine to be gone", lambda: not machines(self.server), 20)

    @unittest.skipUnless(harness.LONG, "boots more machines: with --long")
    def test_a_machine_from_a_template_has_its_own_network(self):
        config = f"{CONFIG}egress:\n  resolver: {self.world.resolver}\n{self.EGRESS}  ready: 1\npool:\n  ready: 1\n  floor: 1\n{harness.CALM}"
        with harness.Server(config=config) as self.server:
            self.apply(self.DOCUMENT)
            code = "attempt('it', fetch, 'allowed.test', tls=False)\nattempt('evil', fetch, 'evil.test')"
            self.reach(code)
            harness.wait_for("a template", lambda: "template made" in self.server.log.read_text(), 90)
            for _ in range(2):
                done, tried = self.reach(code)
                self.assertEqual([told["ok"] for told in tried.values()], [True, False], tried)
                self.assertTrue([each for each in done["provenance"]["weakened"] if "template" in each], done)

    def test_without_a_network_there_is_no_interface(self):
        code = "import contextlib, socket\n" + INTERFACES + "print(interfaces(), open('/etc/resolv.conf').read())"
        done = self.run_code(code, runtime="microvm", timeout_seconds=SECONDS)
        self.assertEqual(done["stdout"], "['lo'] \n", done)


@unittest.skipIf(LACKS, LACKS)
class Refused(EgressCase):
    """What has no network is refused, and says why; the same image runs programs without one."""

    EGRESS = ""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-old-")))
        cls.directory.chmod(0o755)
        for name in ("vmlinuz", "vmlinux", "root.squashfs"):
            (cls.directory / name).symlink_to(IMAGE / name)
        cls.image = (IMAGE / "modules.cpio").read_bytes()
        (cls.directory / "modules.cpio").write_bytes(cls.image.replace(b"modules-network", b"modules-nothing"))
        cls.EGRESS = EMULATED.format(cls.directory)
        super().setUpClass()

    def test_an_image_without_the_driver(self):
        self.assertIn(b"modules-network", self.image, "make the image anew")
        done = self.run_code("print(1)", runtime="microvm", network_policy={"tier": "restricted"})
        self.assertEqual((done["status"], done["error"]["type"]), ("failed", "SANDBOX_STARTUP_FAILED"), done)
        for part in ("microvm has no network here", "no driver for a network interface", "./dev images", "tier none"):
            self.assertIn(part, done["error"]["message"])
        self.assertRegex(self.server.cli("doctor").stdout, r"microvm .*no network: the image has no driver")


LACKS_DOUBLE = kvm_case.lacks() or kvm_case.lacks_compiler()


@unittest.skipIf(LACKS_DOUBLE, LACKS_DOUBLE)
class Firecracker(EgressCase):
    """Firecracker attaches by its name to the interface that was left to its user; here the double of tests/microvm does, whose
    programs stand for a guest that has escaped into the VMM."""

    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-fc-")))
        directory.chmod(0o755)
        for name in ("image", "root"):
            (directory / name).mkdir()
        image = firecracker_case.make_image(directory / "image")
        (image / "modules.cpio").write_bytes(LINKED)
        root = firecracker_case.make_root(directory / "root")
        machines = kvm_case.config(image, firecracker="/usr/bin/firecracker", vmm="firecracker", ready=1)
        cls.EGRESS = f"node:\n  image_root: {root}\n{machines}pool:\n  ready: 1\n  floor: 1\n{harness.CALM}"
        super().setUpClass()

    def test_the_link_is_its_own_and_leads_nowhere_else(self):
        code = INTERFACES + r"""
import fcntl
def make(name):
    with open("/dev/net/tun", "r+b", buffering=0) as device:
        fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name, 0x1002))
attempt("names", interfaces)
attempt("plain", fetch, "allowed.test", tls=False)
attempt("evil", fetch, "evil.test", tls=False)
attempt("literal", lambda: answer(dial(EVIL, 443), b"x"))
attempt("another", make, b"tap1")
attempt("the same", make, b"tap0")
"""
        def from_template():
            command = ["python3", "-c", self.text(code, EVIL=zone.EVIL)]  # the double takes no files
            done = self.server.run(language=None, command=command, runtime="microvm", network_policy={"tier": "restricted"})
            self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
            self.assert_holds(Result(0, done["stdout"]).tries())
            return any("template" in each for each in done["provenance"]["weakened"])

        self.assertFalse(from_template())
        harness.wait_for("a machine that begins from a template", from_template, 60)
        self.assertNotIn("nothing begun", self.server.log.read_text())

    def assert_holds(self, tried):
        self.assertEqual({name for name, told in tried.items() if told["ok"]}, {"names", "plain"}, tried)
        self.assertEqual(tried["names"]["said"], "['lo', 'tap0']")
        self.assertIn("Operation not permitted", tried["another"]["said"])
        self.assertIn("busy", tried["the same"]["said"])


if __name__ == "__main__":
    unittest.main()
