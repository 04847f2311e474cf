# SPDX-License-Identifier: Apache-2.0
"""A service whose only network is the fake internet of egress-conformance, and programs that use it."""

import json
import sys
import unittest

import harness
from api_case import CONFIG, ApiTest

sys.path.insert(0, str(harness.REPO / "egress-conformance"))
from doorcheck import inside  # noqa: E402
from doorcheck.driver import Result  # noqa: E402
from doorcheck.internet import zone  # noqa: E402, F401
from doorcheck.world import World, missing  # noqa: E402

NEEDS_ROOT = "needs root: a namespace with a network of its own for the service"
NONE = {"name": "no-network", "why": "code without a network", "effect": "allow", "tier": "Auto", "match": {"network_tiers": ["none"]}}
# For programs inside, which have no netlink socket and so no if_nameindex().
INTERFACES = """
def interfaces():
    found = []
    for number in range(1, 9):
        with contextlib.suppress(OSError): found.append(socket.if_indextoname(number))
    return found
"""


def door(*entries, tiers=("restricted",), **members):
    """A policy document whose one rule with a network grants the entries. JSON is YAML as well."""
    rule = {"name": "door", "why": "for tests", "effect": "allow", "tier": "Auto", "match": {"network_tiers": list(tiers)},
            **({"network": list(entries)} if entries else {}), **members}
    return json.dumps({"version": 2, "rules": [NONE, rule]}, indent=1)


def start_world(**options):
    """For setUpModule: a fake internet for all tests of the module."""
    if not harness.ROOT:
        raise unittest.SkipTest(NEEDS_ROOT)
    if missing():
        raise unittest.SkipTest(f"not in the guest's image: {missing()}")
    EgressCase.world = unittest.enterModuleContext(World(**options))


class EgressCase(ApiTest):
    """`EGRESS`: lines of the configuration's section, beside the resolver. `DOCUMENT`: the first policy document."""

    world = None
    EGRESS = ""
    DOCUMENT = door("allowed.test:443", "allowed.test:80", "neighbour.test:9000")

    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server(f"{CONFIG}egress:\n  resolver: {cls.world.resolver}\n{cls.EGRESS}")
        cls.enterClassContext(cls.server)

    def setUp(self):
        self.apply(self.DOCUMENT)
        self.start_mark = self.world.mark()

    def apply(self, document, status=201):
        return self.call("POST", "/v1/policies", {"document": document}, status=status)

    @staticmethod
    def text(code, **values):
        return inside.program(code, CA=EgressCase.world.ca, PROXY=("proxy.cloister.internal", 3128), **values)

    def reach(self, code, tier="restricted", key=None, values=None, **request):
        """Runs a program of attempts → (execution, its attempts)."""
        policy = {"tier": tier, **request.pop("network_policy", {})}
        done = self.run_code(self.text(code, **(values or {})), key=key, network_policy=policy, artifacts=[], **request)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        return done, Result(0, done["stdout"]).tries()

    def works(self, code, **request):
        """Whether the single attempt "it" of the program works."""
        return self.reach(code, **request)[1]["it"]["ok"]

    def events(self):
        """Everything that has arrived since the test began."""
        return self.world.since(self.start_mark)

    def denied(self, execution, host, port, transport="tcp"):
        """The result's row about a refused destination."""
        rows = [row for row in execution["network"]["denied"]
                if (row["host"], row["port"], row["transport"]) == (host, port, transport)]
        self.assertEqual(len(rows), 1, execution["network"])
        return rows[0]

    def wait_escalation(self, host, key=None):
        """The open escalation that asks for the host."""
        def found():
            asked = self.call("GET", "/v1/escalations", key=key, status=200).json()["escalations"]
            return next((each for each in asked if each.get("operation") == "network" and host in json.dumps(each)
                         and each.get("status") == "pending"), None)

        return harness.wait_for(f"an escalation for {host}", found, 15)
