# SPDX-License-Identifier: Apache-2.0
"""What a test may find missing on the machine, and where that is no fault: elsewhere it fails. The reasons are among
those of tests/skips.txt."""

import shutil

import harness

NO_GROUPS = "an ordinary user's sandboxes have no control groups: nothing holds them to this limit exactly"


def lacks_groups(server, record):
    """True if this execution or session says that its node has no control groups. Fails if root's node says so."""
    weakened = record["provenance"]["weakened"]
    lacks = any("no cgroup" in line for line in weakened)
    assert server.rootless or not lacks, f"root's node has no control groups: {weakened}"
    return lacks


def need_program(test, *names):
    """Every machine that `./dev test` has prepared has these programs; the small image of the guest may not."""
    for name in names:
        if shutil.which(name) is None:
            if harness.SLOW:
                test.skipTest(f"not in the guest's image: {name}")
            test.fail(f"{name} is not installed: ./dev test installs it")
