# SPDX-License-Identifier: Apache-2.0
"""egress-conformance itself: the fake internet sees what it must see, and the cases find the holes of a weak sandbox."""

import socket
import ssl
import struct
import sys
import unittest

import pathlib

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "egress-conformance"))
sys.path.insert(0, str(REPO / "tests" / "integration"))
import doorcheck.cases  # noqa: E402, F401
import harness  # noqa: E402
from doorcheck import report  # noqa: E402
from doorcheck.driver import BROKER, Driver, Policy  # noqa: E402
from doorcheck.drivers.control import Control  # noqa: E402
from doorcheck.internet import dns, zone  # noqa: E402
from doorcheck.trial import BROKEN, CASES, FAILED, PASSED, UNSUPPORTED, judge  # noqa: E402
from doorcheck.world import World  # noqa: E402

# Each takes less than a second with the control, and has to fail.
WEAK = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 21, 22, 23, 26)
NEEDS_ROOT = "needs root: a network namespace with a link to another"


def udp(address, port, data, answer=True):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(data, (address, port))
        return client.recv(4096) if answer else None


@unittest.skipUnless(harness.ROOT, NEEDS_ROOT)
class FakeInternet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = cls.enterClassContext(World())

    def setUp(self):
        self.world.reset()
        self.start = self.world.mark()

    def look_up(self, name, kind):
        query = b"\1\2\1\0\0\1\0\0\0\0\0\0" + dns.packed_name(name) + struct.pack("!HH", dns.TYPES[kind], 1)
        return udp(zone.RESOLVER, 53, query)

    def test_every_address_answers_and_is_logged(self):
        for address in (zone.EVIL, zone.EVIL6, zone.METADATA, "10.0.0.1", "8.8.8.8", "fd00:ec2::254"):
            with socket.create_connection((address, 80), 5) as connection:
                connection.sendall(b"GET /x HTTP/1.1\r\nHost: h.test\r\n\r\n")
                self.assertIn(b"hello from h.test", connection.recv(4096))
            events = self.world.since(self.start)
            self.assertTrue(self.world.of(events, "http", address=address, host="h.test", path="/x"), address)
            self.assertTrue(self.world.of(events, "packet", address=address, port=80, protocol="tcp"), address)

    def test_packets_without_a_server_are_logged(self):
        with socket.socket() as client, self.assertRaises(OSError):
            client.settimeout(5)
            client.connect((zone.EVIL, 4321))
        udp(zone.EVIL, 4322, b"x", answer=False)
        udp(zone.EVIL6, 4323, b"x", answer=False)
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, 47) as client:
            client.sendto(b"x", (zone.EVIL, 0))
        seen = {(event["protocol"], event["port"]) for event in self.world.of(self.world.since(self.start), "packet")}
        self.assertLessEqual({("tcp", 4321), ("udp", 4322), ("udp", 4323), ("47", 0)}, seen)

    def test_handshakes_are_logged_with_their_names(self):
        context = ssl.create_default_context(cadata=self.world.ca)
        for name in ("allowed.test", "sub.allowed.test", "evil.test", "x.wild.test"):
            with socket.create_connection((zone.ALLOWED, 443), 5) as plain:
                context.wrap_socket(plain, server_hostname=name).close()
        self.world.mark()
        names = [event["sni"] for event in self.world.of(self.world.since(self.start), "tls", address=zone.ALLOWED)]
        self.assertEqual(sorted(names), ["allowed.test", "evil.test", "sub.allowed.test", "x.wild.test"])

    def test_names(self):
        self.assertIn(socket.inet_aton(zone.ALLOWED), self.look_up("allowed.test", "A"))
        self.assertIn(socket.inet_aton(zone.EVIL), self.look_up("anything.evil.test", "A"))
        self.assertEqual(self.look_up("nothing.test", "A")[3] & 15, dns.NXDOMAIN)
        answers = [self.look_up("flip.test", "A")[-4:] for _ in range(3)]
        self.assertEqual([socket.inet_ntoa(each) for each in answers], [zone.FLIP, "10.0.0.1", zone.METADATA])
        self.assertIn("anything.evil.test", self.world.asked(self.world.since(self.start), "evil"))

    def test_the_machine_itself_has_a_canary(self):
        socket.create_connection((zone.HOME, 443), 5).close()
        harness.wait_for("the canary", lambda: self.world.of(self.world.since(self.start), "home"))


class Nothing(Driver):
    """Lacks every feature."""

    name = "nothing"

    def start(self, world):
        pass

    def stop(self):
        pass

    def begin(self, program, policy, seconds=60):
        raise OSError("no sandbox")


@unittest.skipUnless(harness.ROOT, NEEDS_ROOT)
class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = cls.enterClassContext(World())

    def test_the_control_fails(self):
        control = Control()
        control.start(self.world)
        self.addCleanup(control.stop)
        verdicts = [judge(CASES[number], control, self.world, 0.01) for number in WEAK]
        self.assertEqual([v.case.number for v in verdicts if v.outcome != FAILED], [], report.details(verdicts))
        self.assertGreaterEqual(len(verdicts), 8)
        self.assertEqual(judge(CASES[24], control, self.world, 0.01).outcome, PASSED)
        self.assertEqual(judge(CASES[18], control, self.world).outcome, UNSUPPORTED)
        told = report.as_json("control", verdicts)
        self.assertEqual(told["totals"], {PASSED: 0, FAILED: len(WEAK), UNSUPPORTED: 0, BROKEN: 0})
        self.assertIn("| 3 | failed |", report.as_table("control", verdicts))

    def test_a_driver_that_breaks_neither_passes_nor_fails(self):
        self.assertEqual(judge(CASES[1], Nothing(), self.world).outcome, BROKEN)
        self.assertEqual(judge(CASES[19], Nothing(), self.world).problems, [f"nothing has no {BROKER}"])

    def test_a_program_that_tries_nothing_proves_nothing(self):
        control = Control()
        control.start(self.world)
        self.addCleanup(control.stop)
        result = control.run("print('quiet')", Policy())
        self.assertEqual((result.exit, result.tries()), (0, {}))


if __name__ == "__main__":
    unittest.main()
