# SPDX-License-Identifier: Apache-2.0
"""Broken guests (guest_case.py) in virtual machines."""

import pathlib
import unittest

from guest_case import Broken
from hostile import EMULATED

QEMU = pathlib.Path("/usr/bin/qemu-system-x86_64")


class Microvm(Broken, unittest.TestCase):
    RUNTIME, PROGRAM, BESIDE, CONFIG, RUNNER_SECONDS = "microvm", "cloister-guest", 2, EMULATED, 10
    OWN_COUNTS = True

    @classmethod
    def needed(cls):
        return [QEMU, *super().needed()]

    def check_others(self):
        self.assertEqual(self.server.run("echo fine", "bash")["stdout"], "fine\n")


if __name__ == "__main__":
    unittest.main()
