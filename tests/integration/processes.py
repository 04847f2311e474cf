# SPDX-License-Identifier: Apache-2.0
"""What /proc tells of processes."""

import contextlib
import glob
import os
import pathlib


def memory_of(pid, what="VmRSS"):
    """Bytes, of a line of /proc/PID/status; 0 if there is none."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) << 10
    return 0


def descendants(pid):
    """`pid` and every process below it, as far as this pid namespace shows them."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = pathlib.Path(path).read_text()
            fields = text[text.rindex(")") + 2 :].split()
            children.setdefault(int(fields[1]), []).append(int(text[: text.index(" ")]))
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        todo += children.get(current, [])
    return found


def children(pid):
    """The pids of the processes that its main thread has started."""
    return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def program_of(pid):
    """The name of a process as its argv[0] says it, "" when it is gone."""
    with contextlib.suppress(OSError):
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.path.basename(argv[0].decode(errors="replace"))
    return ""


def started(pid):
    """When it began, in ticks since the machine did: with its number, no other process has that."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


def alive(pids):
    """Those of them that run still: a dead process that nobody has waited for does not."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{pid}/stat").read_text()
            if text[text.rindex(")") + 2] not in "ZX":
                found.append(pid)
    return found
