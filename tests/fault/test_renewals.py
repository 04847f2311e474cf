# SPDX-License-Identifier: Apache-2.0
"""Sessions renewed just before their end: a session whose renewal was acknowledged lives on, a session whose renewal
was refused has ended in time, and there is nothing between."""

import concurrent.futures
import datetime
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
from session_case import Session  # noqa: E402

ATTEMPTS, CLIENTS = (10_000, 20) if harness.LONG else (60, 6) if harness.SANITIZED else (200, 10)
NEAR = 0.005   # seconds before and after its end
GRACE = 2.0  # seconds for an ended session to have its end on record


def moment(text):
    return datetime.datetime.fromisoformat(text).timestamp()


class Renewals(unittest.TestCase):
    def attempt(self, server, session, end, chance):
        """Renews near `end` → its new end; None if refused and ended."""
        time.sleep(max(0.0, end + chance.uniform(-NEAR, NEAR) - time.time()))
        answer = session.call("POST", "/renew", {})
        if answer.status == 200:
            renewed = moment(answer.json()["expires_at"])
            self.assertGreater(renewed, end)
            time.sleep(max(0.0, end + 0.05 - time.time()))
            self.assertEqual(session.show()["status"], "running", "it was told that it lives on")
            return renewed
        self.assertEqual(answer.status, 409, answer.body)
        ended = session.wait_ended(10)
        self.assertEqual((ended["end_reason"]["type"], ended["end_reason"]["details"]["limit"]), ("TIMEOUT", "ttl"))
        self.assertTrue(-0.1 <= moment(ended["ended_at"]) - end <= GRACE, (end, ended))
        return None

    def worker(self, server, number):
        chance, outcomes = random.Random(number), {True: 0, False: 0}
        session = end = None
        for _ in range(ATTEMPTS // CLIENTS):
            if end is None:
                session = Session(server, language="bash", ttl_seconds=harness.limit(1), memory_mb=32)
                end = moment(session.made["expires_at"])
            end = self.attempt(server, session, end, chance)
            outcomes[end is not None] += 1
        if end is not None:
            session.end()
        return outcomes

    def test_at_the_end(self):
        with harness.Server() as server:
            Session(server, language="bash").end()
            before = harness.Snapshot(server)
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                results = list(pool.map(lambda number: self.worker(server, number), range(CLIENTS)))
            renewed, refused = (sum(each[kind] for each in results) for kind in (True, False))
            print(f"{renewed} renewed, {refused} refused and ended in time", flush=True)
            self.assertGreater(renewed, 0)
            self.assertGreater(refused, 0)
            harness.assert_clean(before, server, ignore=("cloisterd",))  # keeps connections of so many clients


if __name__ == "__main__":
    unittest.main()
