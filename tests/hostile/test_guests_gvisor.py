# SPDX-License-Identifier: Apache-2.0
"""Broken guests (guest_case.py) in gVisor."""

import unittest

from guest_case import FINE, Broken
from session_case import Session


class Gvisor(Broken, unittest.TestCase):
    RUNTIME, PROGRAM, BESIDE = "gvisor", "cloister-runner", 3
    RUNNER_SECONDS = 15  # the guest kernel alone takes 6 to start on a busy machine

    def test_who_makes_sandboxes_within_takes_no_harm(self):
        with Session(self.server, runtime="gvisor", language="bash", memory_mb=512, nested=True) as session:
            done = self.exec(session, "asks_within", seconds=150, timeout_seconds=120)
            self.assertEqual((done["status"], done["stdout"]), ("completed", "bounded\n"), done)
            self.assertEnded(self.exec(session, "plain"), FINE)


if __name__ == "__main__":
    unittest.main()
