# SPDX-License-Identifier: Apache-2.0
"""Possible lacks of the machine, and the machines on which they are no fault: elsewhere the test fails. The reasons
are listed in tests/skips.txt."""

import pathlib
import shutil

import harness

NO_FREEZER = "no freezer: this kernel cannot stop a control group"
NO_GROUPS = "an ordinary user's sandboxes have no control groups: nothing holds them to this limit exactly"


def lacks_groups(server, record):
    """True if this execution or session reports a node without control groups. Fails if root's node reports so."""
    weakened = record["provenance"]["weakened"]
    lacks = any("no cgroup" in line for line in weakened)
    assert server.rootless or not lacks, f"root's node has no control groups: {weakened}"
    return lacks


def can_freeze():
    """Whether root's node can stop a group of its own: cgroups v2 since Linux 5.2, or v1 with its freezer."""
    v1 = any("freezer" in line.split(":")[1].split(",") for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    return v1 or any(pathlib.Path("/sys/fs/cgroup").glob("*/cgroup.freeze"))


def need_freezer(test):
    if not can_freeze():
        test.skipTest(NO_FREEZER)


def memory_limits(server):
    """The memory limits of the control groups with processes of this server, in MiB, from the kernel."""
    lines = {line for pid in server.pids() for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()}
    files = [pathlib.Path("/sys/fs/cgroup") / file.format(line.split(":")[2].strip("/")) for line in lines
             for file in ("memory/{}/memory.limit_in_bytes", "{}/memory.max")]
    texts = {file.read_text().strip() for file in files if file.exists()}
    return {int(text) >> 20 for text in texts if text.isdigit()}


def need_program(test, *names):
    """Every machine prepared by `./dev test` has these programs; the guest's small image may not."""
    for name in names:
        if shutil.which(name) is None:
            if harness.SLOW:
                test.skipTest(f"not in the guest's image: {name}")
            test.fail(f"{name} is not installed: ./dev test installs it")


def processes(mark):
    """→ the ids of the host's processes with `mark` in their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if mark.encode() in path.read_bytes() else []
        except OSError:
            pass
    return found
