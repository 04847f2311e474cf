# SPDX-License-Identifier: Apache-2.0
"""The network of gVisor's sandboxes: programs on another kernel reach what a policy grants, and all else is refused at once and
named. Some cases of egress-conformance decide by the fake internet's log, as root and as an ordinary user."""

import os
import signal
import unittest

import harness
from egress_case import INTERFACES, EgressCase, Result, door, start_world, zone
from session_case import Session

import doorcheck.cases  # noqa: F401
from doorcheck.drivers.cloister import Cloister
from doorcheck.trial import CASES, PASSED, judge

RUNSC = "/usr/bin/runsc"
GVISOR = {"runtime": "gvisor"}
IPV6 = "attempts to connect over IPv6 are refused by the sandbox's own kernel, without a record"
# Every protocol with nothing allowed; names of all record types; literals; the SNI; metadata; QUIC; nothing on the host. The long
# tier has all cases (gvisor/hostile/egress).
TRIED = (1, 2, 4, 7, 9, 15, 29)
FOR_USERS = (1, 2)


def setUpModule():
    if not os.path.exists(RUNSC):
        raise unittest.SkipTest(f"no {RUNSC}: install Debian's from backports")
    start_world()


class Door(EgressCase):
    def reach(self, code, **request):
        return super().reach(code, **GVISOR, **request)

    def test_allowed_names_work_without_proxy_variables(self):
        code = INTERFACES + r'''
import subprocess, urllib.request
context = ssl.create_default_context(cadata=CA)
open("ca.pem", "w").write(CA)
attempt("urllib", lambda: urllib.request.urlopen("https://allowed.test/", timeout=5, context=context).read())
attempt("tcp", lambda: answer(dial("neighbour.test", 9000), b"echo"))
attempt("curl", subprocess.check_output, ["curl", "-sSf", "--cacert", "ca.pem", "https://allowed.test/"], timeout=10)
attempt("large", lambda: len(whole(dial("allowed.test", 80), request("allowed.test", "/bytes?n=3000000"))[1]) == 3000000 or 1 / 0)
attempt("interfaces", lambda: sorted(interfaces()))
'''
        done, tried = self.reach(code)
        self.assertEqual({name for name, told in tried.items() if not told["ok"]}, set(), tried)
        self.assertEqual(tried["interfaces"]["said"], "['eth0', 'lo']")
        self.assertEqual((done["network"]["denied"], done["network"]["connections"]), ([], 4))
        self.assertGreater(done["network"]["bytes_in"], 3_000_000)
        self.assertEqual(done["provenance"]["runtime"], "gvisor")
        self.assertEqual(done["provenance"]["weakened"].count(IPV6), 1, done["provenance"])

    def test_all_else_is_refused_at_once_and_named(self):
        code = """
attempt("name", fetch, "evil.test", check=False)
attempt("port", lambda: answer(dial("allowed.test", 22), b"x"))
attempt("literal", lambda: answer(dial(EVIL, 443), b"x"))
attempt("metadata", lambda: answer(dial(METADATA, 80), b"x"))
for number in range(4): attempt(f"udp {number}", datagram, EVIL, 443, b"x")
attempt("ipv6", lambda: answer(dial(EVIL6, 443), b"x"))
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0x300)
"""
        done, tried = self.reach(code, values={"EVIL": zone.EVIL, "EVIL6": zone.EVIL6, "METADATA": zone.METADATA})
        for name, told in tried.items():
            self.assertEqual((told["ok"], told["seconds"] < 1), (False, True), (name, told))
        self.assertEqual(self.world.reached(self.events()), [])
        refused = (("evil.test", 0, "dns"), ("allowed.test", 22, "tcp"), (zone.EVIL, 443, "tcp"), (zone.METADATA, 80, "tcp"),
                   (zone.EVIL, 443, "udp"))
        for destination in refused:
            row = self.denied(done, *destination)
            self.assertTrue(row["reason"] and row["remedy"], row)
        self.assertEqual(self.denied(done, zone.EVIL, 443, "udp")["count"], 4)

    def test_look_ups_of_every_server_are_answered_inside(self):
        code = """
for server in SERVERS:
    for tcp in (False, True):
        attempt(f"{server} {tcp}", lambda: dns(server, "allowed.test", tcp=tcp)[1] == 1 or 1 / 0)
for kind in (28, 65, 16, 15, 33):
    attempt(f"kind {kind}", lambda: dns(SERVERS[0], "allowed.test", kind)[1] == 0 or 1 / 0)
attempt("denied", lambda: dns(SERVERS[0], "evil.test")[0] == 3 or 1 / 0)
attempt("file", lambda: open("/etc/resolv.conf").read())
"""
        _, tried = self.reach(code, values={"SERVERS": ("198.18.0.1", "8.8.8.8", zone.EVIL)})
        self.assertEqual({name for name, told in tried.items() if not told["ok"]}, set(), tried)
        self.assertEqual(tried["file"]["said"], "nameserver 198.18.0.1\noptions timeout:1 attempts:5\n")
        self.assertEqual(self.world.asked(self.events()), [])

    def test_a_session_keeps_its_door_and_its_ports(self):
        serves = ["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"]
        with Session(self.server, self.call, language="python", network_policy={"tier": "restricted"}, **GVISOR) as session:
            first = session.exec(self.text("attempt('it', fetch, 'allowed.test')"))
            session.start(command=serves)
            harness.wait_for("the server inside", lambda: session.call("GET", "/ports/8000/").status == 200, 30)
            second = session.exec(self.text("attempt('it', fetch, 'evil.test', check=False)"))
            refused = session.call("POST", "/snapshots", {"memory": True}, status=422)
            self.assertIn("it has a network", refused.text)
        self.assertIn('"ok": true', first["stdout"])
        self.assertEqual((first["network"]["connections"], second["network"]["connections"]), (1, 0))
        self.assertEqual([row["host"] for row in second["network"]["denied"]], ["evil.test"])
        self.assertEqual(session.made["provenance"]["weakened"].count(IPV6), 1)

    def test_without_a_network_there_is_no_interface(self):
        done = self.run_code("import contextlib, socket\n" + INTERFACES + "print(interfaces())", artifacts=[], **GVISOR)
        self.assertEqual(done["stdout"], "['lo']\n", done)
        self.assertNotIn(IPV6, done["provenance"]["weakened"])

    def test_sandboxes_leave_nothing(self):
        fetches = "attempt('it', fetch, 'allowed.test', tls=False)"
        self.assertTrue(self.works(fetches))
        with harness.leakcheck(self.server):
            for _ in range(3):  # from the second on, some stand ready
                self.assertTrue(self.works(fetches))

    def test_a_killed_mediator_relays_nothing_and_comes_back(self):
        os.kill(self.server.pid_of("cloister-egress"), signal.SIGKILL)

        def works_again():
            done = self.run_code(self.text("attempt('it', fetch, 'allowed.test', tls=False)"), artifacts=[],
                                 network_policy={"tier": "restricted"}, **GVISOR)
            if done["status"] == "failed":
                self.assertIn("opening the network", done["error"]["message"])
                return False
            return Result(0, done["stdout"]).tries()["it"]["ok"]

        harness.wait_for("the network", works_again, 20)

    def test_the_policy_may_choose_the_runtime(self):
        self.apply(door("allowed.test:80", runtime="gvisor"))
        done, tried = super().reach("attempt('it', fetch, 'allowed.test', tls=False)")
        self.assertTrue(tried["it"]["ok"], tried)
        self.assertEqual(done["provenance"]["runtime"], "gvisor")


class Cases(unittest.TestCase):
    """Cases of egress-conformance."""

    USER, NUMBERS = False, TRIED

    @classmethod
    def setUpClass(cls):
        cls.driver = Cloister(user=cls.USER, request=GVISOR)
        cls.driver.start(EgressCase.world)
        cls.addClassCleanup(cls.driver.stop)

    def test_cases(self):
        for number in self.NUMBERS:
            with self.subTest(CASES[number].title):
                verdict = judge(CASES[number], self.driver, EgressCase.world, 0.2)
                self.assertEqual(verdict.outcome, PASSED, "\n".join(verdict.problems))


class CasesForUsers(Cases):
    """The same where the node is an ordinary user's."""

    USER, NUMBERS = True, FOR_USERS


if __name__ == "__main__":
    unittest.main()
