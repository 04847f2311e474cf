# SPDX-License-Identifier: Apache-2.0
"""The guest of a machine that is none: on a connection to the node it has the runner of the initial RAM file
system, in namespaces and with a root of its own. Where these may not be made, as in a sandbox, a few words of the
runner's (src/wire/runner.h) are spoken for it, and its programs are this process's children."""

import ctypes
import os
import signal
import struct
import subprocess
import sys
import tempfile

NEW = 0x00020000 | 0x20000000  # CLONE_NEWNS | CLONE_NEWPID
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
RUNNER_FD = 3
HEAD = struct.Struct("<IBBHI")
TEXT, START, COLLECT = 3, 4, 7
HELLO, STARTED, START_FAILED, STDOUT, STDERR, EXITED, COLLECTED = 65, 66, 67, 68, 69, 70, 73
LIBC = ctypes.CDLL(None, use_errno=True)


def files(archive):
    """{name: content} of cpio archives of the "newc" kind, one behind another."""
    found, at = {}, 0
    while at + 110 <= len(archive):
        if archive[at:at + 6] != b"070701":
            at += 4
            continue
        size, length = (int(archive[at + 6 + 8 * field:at + 14 + 8 * field], 16) for field in (6, 11))
        name = archive[at + 110:at + 110 + length - 1].decode()
        begin = (at + 110 + length + 3) & ~3
        found[name] = archive[begin:begin + size]
        at = (begin + size + 3) & ~3
    return found


def run(port, initrd):
    inside = files(initrd)
    for name in ("init", "cloister-runner", "filter"):
        if not inside.get(name):
            raise SystemExit(f"double: the initial RAM file system has no {name}")
    if LIBC.unshare(NEW) == 0:
        has_runner(port, inside["cloister-runner"])
    else:
        speak(port)


# --- the runner -------------------------------------------------------------------------------------------------------


def mount(source, target, kind, flags):
    if LIBC.mount(source.encode(), target.encode(), kind and kind.encode(), flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def enter_root():
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    root = tempfile.gettempdir()
    mount("tmpfs", root, "tmpfs", 0)
    for name in ("usr", "proc", "dev", "tmp", "workspace"):
        os.mkdir(f"{root}/{name}")
    for name in ("bin", "lib", "lib64"):
        os.symlink(f"usr/{name}", f"{root}/{name}")
    for name in ("usr", "dev"):
        mount(f"/{name}", f"{root}/{name}", None, MS_BIND | MS_REC)
    mount("proc", f"{root}/proc", "proc", 0)
    os.chroot(root)
    os.chdir("/")


def has_runner(port, runner):
    program = os.memfd_create("cloister-runner", 0)
    os.write(program, runner)
    child = os.fork()
    if child == 0:
        LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        enter_root()
        os.dup2(port.fileno(), RUNNER_FD + 60)
        os.dup2(RUNNER_FD + 60, RUNNER_FD)
        os.set_inheritable(RUNNER_FD, True)
        path = f"/proc/self/fd/{program}"
        os.execve(path, ["cloister-runner"], {})
    port.close()
    os.waitpid(child, 0)


# --- its words --------------------------------------------------------------------------------------------------------


def frame(kind, channel, payload=b""):
    return HEAD.pack(len(payload), 1, 0, kind, channel) + payload


def whole(port, size):
    data = b""
    while len(data) < size:
        piece = port.recv(size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def speak(port):
    port.sendall(frame(HELLO, 0, struct.pack("<I", 1)))
    lists = ([], [])  # arguments, environment
    unfinished = b""
    while True:
        length, _, _, kind, channel = HEAD.unpack(whole(port, HEAD.size))
        payload = whole(port, length)
        if kind == TEXT:
            unfinished += payload[2:]
            if not payload[1]:
                lists[payload[0]].append(unfinished)
                unfinished = b""
        elif kind == START:
            start(port, channel, *lists)
            lists = ([], [])
        elif kind == COLLECT:
            port.sendall(frame(COLLECTED, channel, struct.pack("<I", 0)))


def start(port, channel, arguments, environment):
    try:
        program = subprocess.Popen(arguments, env=dict(each.split(b"=", 1) for each in environment),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        what = error.strerror.encode()
        port.sendall(frame(START_FAILED, channel, struct.pack("<II", error.errno, len(what)) + what))
        return
    port.sendall(frame(STARTED, channel))
    out, err = program.communicate()
    for kind, data in ((STDOUT, out), (STDERR, err)):
        for at in range(0, len(data), 4096):
            port.sendall(frame(kind, channel, data[at:at + 4096]))
    status = program.returncode
    port.sendall(frame(EXITED, channel, struct.pack("<BIQQQI", status < 0, abs(status), 0, 0, 0, 1)))
