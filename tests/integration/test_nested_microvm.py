# SPDX-License-Identifier: Apache-2.0
"""Sandboxes within a session's (test_nested.py) in virtual machines, which are emulated: a suite of its own, as it is slow."""

import unittest

from api_case import ApiTest
from test_nested import Nested, setUpModule  # noqa: F401


class InMicrovm(Nested, ApiTest):
    runtime = "microvm"
    idle = 20
    shows_more = ("_SC_PHYS_PAGES",)


if __name__ == "__main__":
    unittest.main()
