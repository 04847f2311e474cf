# SPDX-License-Identifier: Apache-2.0
"""P32 to P42: ways out of a sandbox, by the cases of egress-conformance. The service has a fake internet of its own, whose
log says what arrived."""

import sys
import unittest

from hostile import AS_USER, GVISOR, MICROVM, RUNTIME, HostileTest, harness

sys.path.insert(0, str(harness.REPO / "egress-conformance"))
import doorcheck.cases  # noqa: E402, F401
from doorcheck.drivers.cloister import Cloister  # noqa: E402
from doorcheck.trial import CASES, PASSED, judge  # noqa: E402
from doorcheck.world import World, missing  # noqa: E402

COUNT = 1.0 if harness.LONG else 0.34  # of the sizes of long cases
SECONDS = 240 if GVISOR or MICROVM else 60
IN_MACHINES = {1, 2, 4, 6, 7}  # an emulated machine is slow: it tries these alone
LATER = {19}  # secrets that the mediator sets


@unittest.skipUnless(harness.ROOT, "needs root: a namespace with a network of its own for the service")
class Egress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if missing():
            raise unittest.SkipTest(f"not in the guest's image: {missing()}")
        cls.world = cls.enterClassContext(World())
        cls.driver = Cloister(user=AS_USER, request=HostileTest.in_runtime({}), config=HostileTest.CONFIG or "")
        cls.driver.start(cls.world)
        cls.addClassCleanup(cls.driver.stop)
        cls.server = cls.driver.server
        cls.server.run("print(1)", **HostileTest.in_runtime({}))

    def setUp(self):
        self.before = harness.Snapshot(self.server)

    def tearDown(self):
        harness.assert_clean(self.before, self.server, seconds=30)
        self.assertEqual(self.server.request("GET", "/healthz").status, 200)

    def holds(self, *numbers):
        for number in numbers:
            if MICROVM and number not in IN_MACHINES:
                continue
            with self.subTest(CASES[number].title, runtime=RUNTIME):
                verdict = judge(CASES[number], self.driver, self.world, COUNT)
                self.assertEqual(verdict.outcome, PASSED, "\n".join(verdict.problems))

    def test_p32_default_deny(self):
        self.holds(1, 22)

    def test_p33_metadata_private_and_the_host(self):
        self.holds(9, 25)

    def test_p34_spellings_of_addresses(self):
        self.holds(4, 5)

    def test_p35_exactly_what_is_allowed(self):
        self.holds(6, 3, 23, 27)

    def test_p36_names_carry_nothing_out(self):
        self.holds(2, 10)

    def test_p37_another_name_in_the_handshake(self):
        self.holds(7, 21)

    def test_p38_rebinding(self):
        self.holds(8)

    def test_p39_redirects_and_second_hosts(self):
        self.holds(11, 12, 13)

    def test_p40_abuse_of_the_proxy(self):
        self.holds(14, 20, 26)

    def test_p41_local_sockets(self):
        self.holds(29)

    def test_p42_lateral_and_datagrams(self):
        self.holds(15, 16)

    def test_changes_while_programs_run(self):
        self.holds(17, 18, 24, 28)

    def test_every_case_is_tried(self):
        tried = set()
        self.holds = lambda *numbers: tried.update(numbers)
        for name in dir(self):
            if name.startswith("test_") and name != "test_every_case_is_tried":
                getattr(self, name)()
        self.assertEqual(tried, set(CASES) - LATER)


if __name__ == "__main__":
    unittest.main()
