# SPDX-License-Identifier: Apache-2.0
"""The guest without a machine: runs the runner of the initial RAM file system behind a connection to the node, in
namespaces and with a root of its own. If namespaces are forbidden, as in a sandbox, the double speaks a few words of
the runner's (src/wire/runner.h) itself, and its programs are this process's children."""

import ctypes
import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

CLONE_NEWNS = 0x00020000
NEW = CLONE_NEWNS | 0x20000000  # CLONE_NEWPID
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
RUNNER_FD = 3
HEAD = struct.Struct("<IBBHI")
TEXT, START, COLLECT = 3, 4, 7
WAKE, AWAKE = 33, 97
HELLO, STARTED, START_FAILED, STDOUT, STDERR, EXITED, COLLECTED = 65, 66, 67, 68, 69, 70, 73
LIBC = ctypes.CDLL(None, use_errno=True)


def files(archive):
    """{name: content} of cpio archives of the "newc" kind, in a row."""
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


def run(connect, initrd, sleeps=False, woken=False):
    """`connect` makes a connection to the node. With `sleeps`, the guest says its first word on a connection, and
    connects again until woken; with `woken`, the guest has done the first before."""
    inside = files(initrd)
    for name in ("init", "cloister-runner", "filter"):
        if not inside.get(name):
            raise SystemExit(f"double: the initial RAM file system has no {name}")
    has_own = LIBC.unshare(NEW) == 0
    runner = None
    if has_own and sleeps:
        runner, theirs = socket.socketpair()
        child = has_runner(theirs, inside["cloister-runner"])
        whole(runner, len(FIRST))
    if sleeps and not woken:
        port = connect()
        port.sendall(FIRST)
        port.close()
    port = awake(connect) if sleeps else connect()
    if runner is not None:
        carry(port, runner)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    elif has_own:
        os.waitpid(has_runner(port, inside["cloister-runner"]), 0)
    else:
        speak(port, () if sleeps else (FIRST,))


def carry(one, other):
    """Copies both ways, until either side ends. The node sends little, so neither direction blocks."""
    while True:
        for source in select.select((one, other), (), ())[0]:
            data = source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)


def awake(connect):
    """The connection on which the node has confirmed a machine of its own."""
    while True:
        time.sleep(0.005)
        try:
            port = connect()
            order = whole(port, HEAD.size + 76, ends=False)
        except OSError:
            continue
        if not order:
            continue
        if HEAD.unpack(order[:HEAD.size]) != (76, 1, 0, WAKE, 0):
            raise SystemExit("double: woken by something else")
        seconds, _ = struct.unpack("<qI", order[HEAD.size + 64:])
        entropy = hashlib.sha256(order[HEAD.size:HEAD.size + 64]).hexdigest()
        print(f"double: woken with {entropy} at {seconds}", flush=True)
        port.sendall(frame(AWAKE, 0))
        return port


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
        LIBC.unshare(CLONE_NEWNS)  # the node's sockets stay in view of this process's parent
        enter_root()
        os.dup2(port.fileno(), RUNNER_FD + 60)
        os.dup2(RUNNER_FD + 60, RUNNER_FD)
        os.set_inheritable(RUNNER_FD, True)
        path = f"/proc/self/fd/{program}"
        os.execve(path, ["cloister-runner"], {})
    port.close()
    return child


# --- its words --------------------------------------------------------------------------------------------------------


def frame(kind, channel, payload=b""):
    return HEAD.pack(len(payload), 1, 0, kind, channel) + payload


FIRST = frame(HELLO, 0, struct.pack("<I", 1))


def whole(port, size, ends=True):
    data = b""
    while len(data) < size:
        piece = port.recv(size - len(data))
        if not piece and not ends:
            return b""
        if not piece:
            sys.exit(0)
        data += piece
    return data


def speak(port, first):
    for each in first:
        port.sendall(each)
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
    port.sendall(frame(EXITED, channel, struct.pack("<BIQQQIQQ", status < 0, abs(status), 0, 0, 0, 1, 0, 0)))
