# SPDX-License-Identifier: Apache-2.0
"""Broken guests (guest_case.py) in the process runtime."""

import unittest

from guest_case import Broken


class Process(Broken, unittest.TestCase):
    RUNTIME, PROGRAM = "process", "cloister-runner"


if __name__ == "__main__":
    unittest.main()
