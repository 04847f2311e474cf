# SPDX-License-Identifier: Apache-2.0
"""Process 1 of the guest: makes it a machine (mounts, loopback, cgroup v2 with every controller), runs
the suites that the kernel command line names, writes their results as JSON lines to the second serial
port, and powers off.

    cloister.suites=integration/test_api.py,user:hostile/test_kernel.py   cloister.seconds=900

Each suite runs in a jail, as on the host (tests/jail.py). "user:" runs a suite against a service of an ordinary
user's, "delegated:" the same without a jail and in a cgroup that has been given to that user, as a service manager does.
"""

import ctypes
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import tty

TESTS = pathlib.Path(__file__).resolve().parents[1]
BUILD = TESTS.parent / "build" / "release"
REPORT = "/dev/ttyS1"
USER_ID = 54_321  # harness.USER_ID
MS_NOSUID, MS_NODEV = 2, 4
RB_POWER_OFF = 0x4321FEDC
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(kind, target, flags=MS_NOSUID | MS_NODEV, options=""):
    pathlib.Path(target).mkdir(parents=True, exist_ok=True)
    if LIBC.mount(kind.encode(), str(target).encode(), kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {kind} on {target}")


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh14x", b"lo", 0x1)  # IFF_UP
        fcntl.ioctl(probe, 0x8914, request)  # SIOCSIFFLAGS


def make_machine():
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    mount("devtmpfs", "/dev", MS_NOSUID)
    mount("devpts", "/dev/pts", MS_NOSUID, "ptmxmode=0666,mode=0620,gid=5")
    for target in ("/dev/shm", "/tmp", "/run"):
        mount("tmpfs", target, MS_NOSUID | MS_NODEV, "mode=1777" if target != "/run" else "mode=0755")
    mount("securityfs", "/sys/kernel/security")
    mount("cgroup2", "/sys/fs/cgroup")
    top = pathlib.Path("/sys/fs/cgroup")
    for controller in (top / "cgroup.controllers").read_text().split():
        (top / "cgroup.subtree_control").write_text(f"+{controller}")
    loopback_up()
    socket.sethostname("guest")
    os.environ.update(PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", HOME="/root", LANG="C.UTF-8",
                      CLOISTER_BIN=str(BUILD / "bin"), CLOISTER_SLOW="1", PYTHONDONTWRITEBYTECODE="1")


def parameters():
    words = pathlib.Path("/proc/cmdline").read_text().split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def report(out, **line):
    out.write(json.dumps(line) + "\n")
    out.flush()


def enter_delegated_cgroup():
    """Puts this process into a cgroup owned by the ordinary user."""
    own = pathlib.Path("/sys/fs/cgroup/user")
    own.mkdir(exist_ok=True)
    for path in (own, own / "cgroup.procs", own / "cgroup.subtree_control", own / "cgroup.threads"):
        os.chown(path, USER_ID, USER_ID)
    service = own / "service"  # a group with delegated controllers may hold no process itself
    service.mkdir(exist_ok=True)
    for path in (service, service / "cgroup.procs", service / "cgroup.subtree_control"):
        os.chown(path, USER_ID, USER_ID)
    for controller in (own / "cgroup.controllers").read_text().split():
        (own / "cgroup.subtree_control").write_text(f"+{controller}")
    (service / "cgroup.procs").write_text("0")


def run_suite(word, seconds):
    """Runs a suite; a failed suite's output goes to the console."""
    mode, _, name = word.rpartition(":")
    env = dict(os.environ)
    if mode:
        env["CLOISTER_AS_USER"] = "1"
    folder = pathlib.Path(tempfile.mkdtemp(dir="/run"))
    folder.chmod(0o755)
    jail = ["/usr/bin/python3", TESTS / "jail.py", folder] if mode != "delegated" else []
    seen = "/tmp/results" if jail else folder
    with open(folder / "report", "w+") as lines, open(folder / "output", "w+b") as output:
        process = subprocess.Popen([*jail, "/usr/bin/python3", TESTS / "worker.py", TESTS / name, f"{seen}/report"],
                                   env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   preexec_fn=enter_delegated_cgroup if mode == "delegated" else None,
                                   start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = "time-out"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        results = [json.loads(line) for line in lines]
        if code != 0 or any(result["outcome"] == "failed" for result in results):
            output.seek(0)
            print(output.read()[-6000:].decode(errors="replace"), flush=True)
    return code, results


def main():
    make_machine()
    options = parameters()
    with open(REPORT, "w") as out:
        tty.setraw(out.fileno())
        report(out, name="(boot)", outcome="passed", detail="", seconds=round(time.monotonic(), 1))
        deadline = time.monotonic() + float(options.get("cloister.seconds", "900"))
        for word in filter(None, options.get("cloister.suites", "").split(",")):
            left = deadline - time.monotonic()
            if left <= 0:
                report(out, name=word, outcome="failed", detail="no time was left for it", seconds=0)
                continue
            code, results = run_suite(word, left)
            started = None
            for result in results:
                started = result["name"] if result["outcome"] == "started" else None
                if started is None:
                    report(out, **{**result, "name": f"{word} {result['name']}"})
            if code != 0:
                report(out, name=f"{word} {started or '(exit)'}", outcome="failed", detail=f"ended: {code}", seconds=0)
        report(out, name="(end)", outcome="end", detail="", seconds=round(time.monotonic(), 1))


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:  # process 1 may not return: the kernel would panic
        print(f"guest: {error!r}", file=sys.stderr, flush=True)
    finally:
        os.sync()
        LIBC.reboot(RB_POWER_OFF)
