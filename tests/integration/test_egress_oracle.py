# SPDX-License-Identifier: Apache-2.0
"""Random connections from inside a sandbox, under random rules: each is allowed exactly where `egress explain` says so, and
the fake internet's log agrees. The seed is in each message, and CLOISTER_SEED repeats a run."""

import os
import random
import unittest

import harness
from egress_case import EgressCase, door, start_world, zone

CONNECTIONS = 10_000 if harness.LONG else 500
A_POLICY = 250  # connections under one policy
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
HOSTS = ("allowed.test", "sub.allowed.test", "deep.sub.allowed.test", "api.test", "neighbour.test", "evil.test", "www.evil.test",
         "notallowed.test", "x.wild.test", "wild.test", "ten.trap.test", "nothing.test", zone.ALLOWED, zone.METADATA)
PATTERNS = (*(host for host in HOSTS if not host[0].isdigit()), "*.allowed.test", "*.wild.test", "*.sub.allowed.test")
PLAIN_PORTS, TLS_PORTS = (80, 3128, 8080), (443, 8443)
METHODS, PATHS = ("GET", "PUT", "DELETE"), ("/", "/v1/items", "/v1/items/7", "/v2/items", "/admin")
GLOBS = ("/v1/*", "/v1/items", "/*", "/admin")
# Names that policy may allow, and that lead to no public address: the dial refuses these after the verdict.
DEAD_ENDS = {"ten.trap.test", "nothing.test"}

PROGRAM = r'''
import concurrent.futures
def one(number, host, port, tls, method, path):
    with contextlib.closing(dial(host, port)) as connection:
        if tls: connection = secure(connection, host, check=False)
        with contextlib.closing(connection):
            status, body = whole(connection, request(host if port in (80, 443) else f"{host}:{port}", f"{path}?n={number}", method))
    if status >= 400: raise OSError(f"status {status}")
def outcome(each):
    try: one(*each); return each[0]
    except (OSError, EOFError, ValueError, IndexError): return None
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print("good", *(number for number in pool.map(outcome, ASKED) if number is not None))
'''


def random_entry(choice):
    ports = choice.sample((*PLAIN_PORTS, *TLS_PORTS), choice.randint(1, 2))
    entry = {"name": choice.choice(PATTERNS), "ports": sorted(ports)}
    if choice.random() < 0.8:
        entry["protocol"] = choice.choice(("tls", "http", "tcp"))
    elif len(ports) > 1:  # an entry's protocol is that of its ports
        entry["protocol"] = "tcp"
    if entry.get("protocol") == "http" or "protocol" not in entry and ports[0] == 80:
        if choice.random() < 0.5:
            entry["methods"] = sorted(choice.sample(METHODS, choice.randint(1, 2)))
        if choice.random() < 0.5:
            entry["paths"] = sorted(choice.sample(GLOBS, choice.randint(1, 2)))
    return entry


def random_attempt(choice, number):
    tls = choice.random() < 0.5
    return (number, choice.choice(HOSTS), choice.choice(TLS_PORTS if tls else PLAIN_PORTS), tls, choice.choice(METHODS), choice.choice(PATHS))


def setUpModule():
    start_world()


class Oracle(EgressCase):
    EGRESS = "  connections_per_second: 10000\n"  # the rules decide, not the rate

    def explained(self, attempt):
        _, host, port, tls, method, path = attempt
        url = f"http{'s' if tls else ''}://{host}:{port}{path}"
        answer = self.server.request("POST", "/v1/egress:explain", {"url": url, "method": method})
        self.assertEqual(answer.status, 200, (url, answer.body[:500]))
        return answer.json()["allowed"]

    def under_one_policy(self, choice, count):
        entries = [random_entry(choice) for _ in range(choice.randint(3, 12))]
        self.apply(door(*entries))
        asked = [random_attempt(choice, number) for number in range(count)]
        start = self.world.mark()
        done = self.run_code(self.text(PROGRAM, ASKED=asked), network_policy={"tier": "restricted"}, artifacts=[], timeout_seconds=120)
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        events = self.world.since(start)
        good = {int(word) for word in done["stdout"].rsplit("good", 1)[1].split()}
        arrived = {int(event["target"].rsplit("?n=", 1)[1]) for event in self.world.of(events, "http")}
        for attempt in asked:
            told = f"seed {SEED}, attempt {attempt}, rules {entries}"
            allowed = self.explained(attempt)
            reaches = allowed and attempt[1] not in DEAD_ENDS
            self.assertEqual(attempt[0] in good, reaches, told)
            self.assertEqual(attempt[0] in arrived, reaches, told)
        return sum(attempt[0] in good for attempt in asked)

    def test_explain_agrees_with_what_arrives(self):
        choice, good = random.Random(SEED), 0
        for _ in range(CONNECTIONS // A_POLICY):
            good += self.under_one_policy(choice, A_POLICY)
        self.assertGreater(good, CONNECTIONS // 100, f"seed {SEED}: too few were allowed to say anything")


if __name__ == "__main__":
    unittest.main()
