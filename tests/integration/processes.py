# SPDX-License-Identifier: Apache-2.0
"""Facts of processes from /proc."""

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
    """`pid` and every process below, as far as this pid namespace shows them."""
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
    """The pids of the processes started by its main thread."""
    return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def program_of(pid):
    """The name of a process from its argv[0], "" after its end."""
    with contextlib.suppress(OSError):
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.path.basename(argv[0].decode(errors="replace"))
    return ""


def started(pid):
    """The start of a process, in ticks since the machine's: with the pid, unique."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


def alive(pids):
    """The processes that still run: a dead process without a reaper does not."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{pid}/stat").read_text()
            if text[text.rindex(")") + 2] not in "ZX":
                found.append(pid)
    return found
