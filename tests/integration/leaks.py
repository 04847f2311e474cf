# SPDX-License-Identifier: Apache-2.0
"""leakcheck: no part of a sandbox may be left on this machine, nor a new descriptor open in the service."""

import collections
import contextlib
import glob
import os
import pathlib
import re
import time

from processes import alive, children, program_of, started

UID_FIRST, UID_LAST = 1_879_048_192, 1_879_048_192 + 65_536


def cgroups():
    """Directories below any cgroup of ours, in every hierarchy."""
    found = set()
    for top in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")]:
        for base, folders, _ in os.walk(top):
            if "cloister" in base:
                found.add(os.path.relpath(base, "/sys/fs/cgroup"))
            elif base.count("/") > 8:
                folders.clear()
        if os.path.exists(f"{top}/cgroup.controllers") and top == "/sys/fs/cgroup":
            break
    return found


def _sandbox_processes():
    found = set()
    for path in glob.glob("/proc/[0-9]*/status"):
        with contextlib.suppress(OSError, StopIteration):
            lines = pathlib.Path(path).read_text().splitlines()
            uid = int(next(line for line in lines if line.startswith("Uid:")).split()[1])
            if UID_FIRST <= uid < UID_LAST:
                found.add(f"{path.split('/')[2]} uid {uid} {lines[0]}")
    return found


def _namespaces(kinds=("net", "mnt", "ipc", "pid", "user", "uts")):
    """{namespace: its processes, as (pid, start)}."""
    found = {}
    for kind in kinds:
        for path in glob.glob(f"/proc/[0-9]*/ns/{kind}"):
            with contextlib.suppress(OSError):
                pid = int(path.split("/")[2])
                # A dead process not yet reaped by its parent holds nothing.
                if alive([pid]):
                    found.setdefault(os.readlink(path), set()).add((pid, started(pid)))
    return found


def _mounts():
    with open("/proc/self/mountinfo") as lines:
        return {" ".join(line.split()[3:6]) for line in lines}


def _loops(server):
    """Loop devices over unnamed files in the server's state directory."""
    found = set()
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            backing = pathlib.Path(path).read_text().strip()
            if server is not None and server.state is not None and backing.startswith(str(server.state)):
                found.add(f"{path.split('/')[3]} {backing}")
    return found


def _ipc():
    found = set()
    for kind in ("shm", "msg", "sem"):
        with contextlib.suppress(OSError):
            rows = pathlib.Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
            found |= {f"{kind} {row.split()[0]} {row.split()[1]}" for row in rows}
    return found


def _abstract_sockets():
    with open("/proc/net/unix") as lines:
        return {line.split()[-1] for line in lines if "@" in line}


def _temporary_files(server):
    found = set(glob.glob("/tmp/*")) | set(glob.glob("/dev/shm/*")) | set(glob.glob("/var/tmp/*"))
    found = {path for path in found if "cloister" in os.path.basename(path)}
    if server is not None and server.state is not None:
        for base, folders, files in os.walk(server.state):
            relative = os.path.relpath(base, server.state)
            if relative.split("/")[0] in ("ledger", "blobs", "cache", ".cache"):
                folders.clear()
                continue
            found |= {os.path.join(base, name) for name in files}
    return found


def _descriptors(pid):
    """{kind: number} of a process's open descriptors, without numbers in the kind. The node's kept empty file
    systems, one for each of the last eight kinds of disk, are left out: a new kind is no leak."""
    found = collections.Counter()
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(OSError):
            found[re.sub(r"\d+", "#", os.readlink(path))] += 1
    found.pop("/memfd:disk (deleted)", None)
    return found


def _open_and_threads(server):
    """{"cloisterd[7] fds": Counter, "cloisterd[7] threads": 3, "cloisterd processes": 1, ...} of our own processes."""
    counts, parts = {}, []
    with contextlib.suppress(OSError, AttributeError):  # no such file, or the process has ended
        parts = children(server.process.pid)
    for pid in server.pids() if server else []:
        name = program_of(pid)
        if not name.startswith("cloister") or name == "cloister-runner":
            continue
        counts[f"{name} processes"] = counts.get(f"{name} processes", 0) + 1
        if name == "cloister-node" and pid not in parts:
            continue  # a node's child that reads the image for its digest: directories come and go
        with contextlib.suppress(OSError):
            counts[f"{name}[{pid}] threads"] = len(os.listdir(f"/proc/{pid}/task"))
            counts[f"{name}[{pid}] fds"] = _descriptors(pid)
    return counts


class Snapshot:
    """The state of the machine at a moment, for leakcheck."""

    SETS = ("cgroups", "processes", "mounts", "loops", "ipc", "abstract_sockets", "files")

    def __init__(self, server=None):
        self.cgroups = cgroups()
        self.processes = _sandbox_processes()
        self.namespaces = _namespaces()
        self.mounts = _mounts()
        self.loops = _loops(server)
        self.ipc = _ipc()
        self.abstract_sockets = _abstract_sockets()
        self.files = _temporary_files(server)
        self.counts = _open_and_threads(server)

    # Lawful additions: descriptors opened for a moment, and a child that reads the image.
    SLACK = {"fds": 3, "processes": 1, "threads": 0}

    def leaked_since(self, before):
        """New objects since `before`, as lines; [] is clean."""
        lines = []
        for name in self.SETS:
            lines += [f"{name}: {item}" for item in sorted(getattr(self, name) - getattr(before, name))]
        # The spawner is for moments in the network of the next sandbox, perhaps when `before` was taken.
        known = set().union(*before.namespaces.values())
        lines += [f"namespaces: {name}" for name, holders in sorted(self.namespaces.items())
                  if name not in before.namespaces and not (name.startswith("net:") and holders <= known)]
        for name, now in self.counts.items():
            then, slack = before.counts.get(name), self.SLACK[name.split(" ")[-1]]
            if then is None:
                continue
            if isinstance(now, collections.Counter):
                if now.total() > then.total() + slack:
                    lines.append(f"{name}: {then.total()} → {now.total()}: {dict(now - then)}")
            elif now > then + slack:
                lines.append(f"{name}: {then} → {now}")
        return lines


@contextlib.contextmanager
def leakcheck(server=None, seconds=30, ignore=()):
    """Fails if, `seconds` after the block, any part of a sandbox is still on this machine.

    Warm the server up with a run first, so that its own caches and connections are not counted. `ignore`: beginnings
    of lines to leave out.
    """
    before = Snapshot(server)
    yield before
    assert_clean(before, server, seconds, ignore)


def assert_clean(before, server=None, seconds=30, ignore=()):
    end = time.monotonic() + seconds
    while True:
        lines = [line for line in Snapshot(server).leaked_since(before)
                 if not line.startswith(tuple(ignore))]
        if not lines:
            return
        if time.monotonic() >= end:
            raise AssertionError("left behind:\n  " + "\n  ".join(lines))
        time.sleep(0.1)
