# SPDX-License-Identifier: Apache-2.0
"""Runs shell commands where they can do nothing, one after the other, for what strace sees of them.

    unshare … strace … command_jail.py ROOT < {"commands": […], "programs": […], "seconds": 3}

The caller has entered user, mount, pid and network namespaces of its own. ROOT becomes a file system in
memory with copies of a few shells and wrappers, and of `programs`; every other program in it is a copy of true(1), whatever
its name. It is read-only but for a small /tmp. Each command runs in there as `cmd-N -c COMMAND`, N its number,
with nothing to read, and all that it started is gone before the next one begins.
"""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

REAL = ("bash dash env xargs find timeout nohup nice setsid stdbuf sed mawk sort cat echo printf ls head tail tar flock "
        "busybox time tr wc").split()
STUBS = "sudo dd rm doas su git make python3 tee".split()  # each is true(1) by another name
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(*args):
    subprocess.run(("mount", *args), check=True)


def make_root(root, programs):
    mount("-t", "tmpfs", "-o", "size=192m", "jail", str(root))
    for name in ("usr/bin", "usr/lib", "usr/lib64", "proc", "dev", "tmp", "work"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("lib", "lib64"):
        if pathlib.Path("/usr", name).is_dir():
            mount("--rbind", f"/usr/{name}", str(root / "usr" / name))
            mount("-o", "remount,bind,ro", str(root / "usr" / name))
    for name in set(REAL) | set(programs):
        found = shutil.which(name)
        if found is not None:
            shutil.copy(found, root / "usr/bin" / name)
    for name in set(STUBS) - set(programs):
        shutil.copy("/usr/bin/true", root / "usr/bin" / name)
    (root / "usr/bin/sh").symlink_to("dash")
    (root / "usr/bin/awk").symlink_to("mawk")
    for name in ("f", "g"):
        (root / "work" / name).write_text("a\nb\n")
    if "git" in programs:
        make_repository(root / "work")
    (root / "dev/null").touch()
    mount("--bind", "/dev/null", str(root / "dev/null"))
    (root / "dev/fd").symlink_to("/proc/self/fd")
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("-o", "remount,ro", str(root))
    mount("-t", "tmpfs", "-o", "size=4m", "tmp", str(root / "tmp"))


def make_repository(folder):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (("init", "-q"), ("add", "f", "g"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")):
        subprocess.run(("git", *words), cwd=folder, env=environment, check=True)


def child(root, number, command):
    os.chroot(root)
    os.chdir("/work")
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, 64)
    os.execve("/usr/bin/bash", [f"cmd-{number}", "-c", command, "bash"], {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})


def end(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main():
    root = pathlib.Path(sys.argv[1])
    task = json.load(sys.stdin)
    commands = task["commands"]
    make_root(root, task["programs"])
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number, command in enumerate(commands):
        pid = os.fork()
        if pid == 0:
            try:
                child(root, number, command)
            finally:
                os._exit(127)
        signal.signal(signal.SIGALRM, lambda *_, group=pid: end(group))
        signal.setitimer(signal.ITIMER_REAL, task["seconds"])
        while True:  # orphans come to us
            try:
                os.wait()
            except ChildProcessError:
                break
        signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(commands))


if __name__ == "__main__":
    main()
