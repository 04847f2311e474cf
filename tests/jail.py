#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one command in a jail, so that suites can run side by side and still count what they leave behind.

    python3 tests/jail.py FOLDER COMMAND...

The command gets mount, pid, ipc, net, uts and cgroup namespaces of its own (namespaces(7)), cgroups of its own, and a
fresh /proc, /tmp, /var/tmp and /dev/shm. Its network has the loopback interface and nothing else. Root's /tmp is a
file system of its own (ext4 in a sparse file), so that a test can measure or fill a whole disk.

FOLDER is the caller's and empty. The jail sees it as /tmp/results. The command's output goes to FOLDER/output. At the end
FOLDER/usage.json holds {"cpu_seconds": …, "cgroups": […]}: the processor time of all the command's processes, and the
cgroups that they left. The exit code is the command's, 128 + N if signal N ended it, or 125 if there was no jail.

SIGTERM ends the jail with all its processes, and so does the end of the thread that started it. An ordinary user gets a user namespace in which only that user exists;
that jail has the host's cgroups, and its /tmp is a folder of the host's file system.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
LEAF = "jail"  # of the jail's group of version 2: the group of its processes
CGROUPS = pathlib.Path("/sys/fs/cgroup")
DISK_BYTES = 16 << 30  # sparse: only written parts take space
MAKE_EXT4 = ("/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=1,nodiscard")
SHM = "mode=1777,size=2g"
NO_JAIL = 125
OUTSIDE = 0  # the parent of process 1, in the numbers of its pid namespace
ROOT = os.geteuid() == 0
LIBC = ctypes.CDLL(None, use_errno=True)


def check(code, doing):
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, options=None):
    encoded = [None if text is None else str(text).encode() for text in (source, target, kind)]
    check(LIBC.mount(*encoded, flags, options.encode() if options else None), f"mounting {target}")


def die_with_parent(parent, number=signal.SIGKILL):
    """Has the kernel send this process the signal when the thread that started the process ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


# --- cgroups --------------------------------------------------------------------------------------


def own_groups():
    """{mount point: directory of this process's own group}, for each cgroup hierarchy mounted here."""
    found = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        name = controllers.removeprefix("name=")
        tops = [CGROUPS / name] if name else [CGROUPS, CGROUPS / "unified"]
        for top in tops:
            if top.is_dir() and (name or (top / "cgroup.procs").exists()):
                directory = top / path.lstrip("/")
                found[top] = directory if directory.is_dir() else top
    return found


def is_version_2(group):
    return (group / "cgroup.controllers").exists()


def make_groups(name):
    """{mount point: a new group}; empty if this user may make none."""
    groups = {}
    for top, own in own_groups().items():
        # Version 2 forbids a group with processes to pass controllers on; only the root group may.
        parent = top if is_version_2(top) else own
        group = parent / name
        try:
            pass_controllers(parent)
            group.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):  # version 1 starts with none
                if top.name == "cpuset":
                    (group / file).write_text((parent / file).read_text())
        except OSError:
            continue
        groups[top] = group
    return groups


def pass_controllers(group):
    with contextlib.suppress(OSError):  # a hierarchy of version 1, or without controllers
        for controller in (group / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (group / "cgroup.subtree_control").write_text(f"+{controller}")


def cpu_seconds(groups):
    """Processor time of all processes in the groups; without a group, of ended children."""
    for group in groups.values():
        with contextlib.suppress(OSError):
            return int((group / "cpuacct.usage").read_text()) / 1e9
        with contextlib.suppress(OSError, StopIteration):
            lines = (group / "cpu.stat").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("usage_usec")).split()[1]) / 1e6
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def remove_groups(groups):
    """Removes the groups → the groups that the command had made and left."""
    left = []
    for top, group in groups.items():
        for directory, _, _ in os.walk(group, topdown=False):
            if directory not in (str(group), str(group / LEAF)):
                left.append(f"{top.name}:{os.path.relpath(directory, group)}")
            for _ in range(100):  # a killed process leaves its group a moment later
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
                    break
                time.sleep(0.02)
    return left


# --- the jail's own root --------------------------------------------------------------------------


def become_same_user():
    """In a new user namespace: the same ids outside and inside, and none but these."""
    uid, gid = os.getuid(), os.getgid()
    check(LIBC.unshare(CLONE_NEWUSER), "making a user namespace")
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def loopback_up():
    with socket.socket() as probe:
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def make_disk(folder):
    """Mounts a file system of the jail's own on FOLDER/disk. Without loop devices, or for an ordinary user, FOLDER/disk
    stays a directory."""
    disk = folder / "disk"
    disk.mkdir()
    if ROOT and os.path.exists("/dev/loop-control"):
        file = folder / "disk.img"
        with open(file, "wb") as out:
            out.truncate(DISK_BYTES)
        subprocess.run([*MAKE_EXT4, str(file)], check=True, stdin=subprocess.DEVNULL)
        subprocess.run(["/bin/mount", "-o", "loop", str(file), str(disk)], check=True)
        os.rmdir(disk / "lost+found")
    return disk


def mount_own(folder, groups, kept):
    """The jail's mounts. `kept`: directories that keep their place although /tmp is another."""
    handles = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in kept if path.is_relative_to("/tmp")
               or path.is_relative_to("/var/tmp")]
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    for top, group in groups.items():
        mount(group, top, None, MS_BIND)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    disk = make_disk(folder)
    for name, target in (("tmp", "/tmp"), ("var-tmp", "/var/tmp")):
        own = disk / name
        own.mkdir(exist_ok=True)
        own.chmod(0o1777)
    # The caller reads results below FOLDER/tmp, outside of the jail's file system.
    own, results = os.open(disk / "var-tmp", os.O_PATH), os.open(folder, os.O_PATH)
    mount(disk / "tmp", "/tmp", None, MS_BIND)
    mount(f"/proc/self/fd/{own}", "/var/tmp", None, MS_BIND)
    for path, handle in [*handles, (pathlib.Path("/tmp/results"), results)]:
        path.mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{handle}", path, None, MS_BIND)
        os.close(handle)
    os.close(own)
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, SHM)


# --- processes ------------------------------------------------------------------------------------


def as_init(folder, groups, kept, command):
    """Process 1 of the jail: starts the command, reaps its orphans, and ends with the command's code."""
    for group in groups.values():
        (group / "cgroup.procs").write_text("0")
    check(LIBC.unshare(CLONE_NEWCGROUP), "making a cgroup namespace")
    for group in groups.values():
        if is_version_2(group):  # a group without processes can pass controllers on, to a jail in this jail for instance
            (group / LEAF).mkdir()
            (group / LEAF / "cgroup.procs").write_text("0")
    mount_own(folder, groups, kept)
    loopback_up()
    with open("/tmp/results/output", "wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def enter(folder, groups, kept, command):
    """In a child of the caller: makes the namespaces, and waits for their process 1. Only process 1 joins the
    groups: nothing in the jail could move a process outside of its pid namespace, as version 2 may demand."""
    if not ROOT:
        become_same_user()
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET), "making namespaces")
    pid = os.fork()
    if pid == 0:
        guarded(lambda: (die_with_parent(OUTSIDE), as_init(folder, groups, kept, command)))
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def guarded(story):
    """Runs `story` in a forked child, which never returns."""
    try:
        story()
    except BaseException as error:
        print(f"jail: {error}", file=sys.stderr, flush=True)
    os._exit(NO_JAIL)


def run(folder, command, kept=()):
    """→ the exit code."""
    caller, me = os.getppid(), os.getpid()
    groups = make_groups(f"suite-{folder.name}")
    pid = os.fork()
    if pid == 0:
        guarded(lambda: (die_with_parent(me), enter(folder, groups, kept, command)))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
    die_with_parent(caller, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    usage = {"cpu_seconds": round(cpu_seconds(groups), 2), "cgroups": remove_groups(groups)}
    (folder / "usage.json").write_text(json.dumps(usage))
    return code if code >= 0 else 128 - code


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1]).resolve()
    kept = [pathlib.Path(__file__).resolve().parents[1]]
    if "CLOISTER_BUILD" in os.environ:
        kept.append(pathlib.Path(os.environ["CLOISTER_BUILD"]).resolve())
    return run(folder, sys.argv[2:], kept)


if __name__ == "__main__":
    sys.exit(main())
