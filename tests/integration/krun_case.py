# SPDX-License-Identifier: Apache-2.0
"""For tests of cloister-krun: the double of libkrun (tests/microvm/libkrun_double.c), and the program on its own,
with a read-only root, in the way the node starts the program."""

import os
import pathlib
import shutil
import socket
import struct
import subprocess

import harness

SOURCE = pathlib.Path(__file__).parents[1] / "microvm" / "libkrun_double.c"
COMPILER = "clang-19"
PROGRAM = harness.BIN / "cloister-krun"
PORT = 1024
TEXT, START, STDIN = 3, 4, 5
HELLO, STARTED, STDOUT, EXITED = 65, 66, 68, 70
# The root is seen read-only in a mount namespace of the test's own.
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def lacks():
    return "" if shutil.which(COMPILER) else f"no {COMPILER}"


def make_library(name, source, directory, *flags):
    target = directory / name
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}", *flags,
                    "-o", target, "-x", "c", source], check=True)
    return target


def make_double(directory, *flags):
    """The library, with an empty library for the kernel to boot."""
    make_library("libkrunfw.so.5", "/dev/null", directory)
    return make_library("libkrun.so.1", SOURCE, directory, *flags)


def make_root(directory):
    root = directory / "root"
    (root / "root").mkdir(parents=True)
    for name in ("cloister-guest", "cloister-runner"):
        shutil.copy(harness.BIN / name, root / name)
    return root


class Machine:
    """cloister-krun, with the node's end of its socket. `order`: for the double; None: nothing."""

    def __init__(self, library, root, order="play", read_only=True, settings=("cloister_memory=1000",)):
        self.path = root.parent / "port.sock"
        self.path.unlink(missing_ok=True)
        self.node, theirs = socket.socketpair()
        self.node.settimeout(10)
        command = [str(PROGRAM), str(library), str(root), str(self.path), str(PORT), "2", "256", f"cloister_vsock={PORT}",
                   *settings]
        if read_only:
            command = ["unshare", "-m", *([] if harness.ROOT else ["-r"]), "sh", "-c", READ_ONLY, str(root), *command]
        command = ["bash", "-c", f'exec 3<&{theirs.fileno()} {theirs.fileno()}<&-; exec "$@"', "bash", *command]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else command,
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **({} if order is None else {"CLOISTER_KRUN_DOUBLE": order})})
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.node.close()
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def end(self):
        """Its exit code, and all of its output."""
        said = self.process.stderr.read().decode()
        return self.process.wait(timeout=10), said

    def send(self, kind, payload=b"", channel=1):
        self.node.sendall(struct.pack("<IBBHI", len(payload), 1, 0, kind, channel) + payload)

    def receive(self):
        length, _, _, kind, channel = struct.unpack("<IBBHI", self._bytes(12))
        return kind, channel, self._bytes(length)

    def _bytes(self, size):
        data = b""
        while len(data) < size:
            piece = self.node.recv(size - len(data))
            if not piece:
                raise EOFError(data)
            data += piece
        return data

    def start(self, *command):
        for word in command:
            self.send(TEXT, b"\0\0" + word.encode())
        self.send(START, b"\0" + struct.pack("<I", 1) + b"/")

    def run(self, *command):
        """(exit code, stdout) of a program in the machine."""
        self.start(*command)
        output = b""
        while True:
            kind, _, payload = self.receive()
            if kind == STDOUT:
                output += payload
            if kind == EXITED:
                return struct.unpack("<BI", payload[:5])[1], output
