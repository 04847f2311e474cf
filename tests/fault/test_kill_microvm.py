# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the parts of a virtual machine (test_kill_guests.py). Emulated and slow, hence a suite of its own."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
from test_kill_guests import Guests  # noqa: E402

IMAGE = pathlib.Path(os.environ.get("CLOISTER_MICROVM", "/nonexistent"))


class Microvm(Guests, unittest.TestCase):
    RUNTIME, PARTS = "microvm", ("qemu-system-x86_64",)
    NEEDED = [pathlib.Path("/usr/bin/qemu-system-x86_64"), IMAGE / "root.squashfs"]
    CONFIG = f"microvm:\n  image: {IMAGE}\n  emulate: true\n  ready: 1\n"
    ROUNDS, CLIENTS, QUEUE = 20 if harness.LONG else 2, 1, 2


if __name__ == "__main__":
    unittest.main()
