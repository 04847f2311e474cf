# SPDX-License-Identifier: Apache-2.0
"""The servers of the fake internet. They run in a network namespace of their own (doorcheck/world.py starts them)."""
