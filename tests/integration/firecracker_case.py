# SPDX-License-Identifier: Apache-2.0
"""For tests of Firecracker's driver: the driver as a program, with the double of tests/microvm as Firecracker, and
this process as the node; and a machine's parts, as small as possible."""

import fcntl
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

import harness
from processes import descendants

sys.path.append(str(harness.REPO / "tools"))

DOUBLE = harness.REPO / "tests" / "microvm" / "firecracker_double.py"
HEAD = struct.Struct("<IBBHI")
TEXT, START = 3, 4
WAKE, KEEP, AWAKE, KEPT, NOT_KEPT = 33, 34, 97, 98, 99
HELLO, STARTED, START_FAILED, STDOUT, STDERR, EXITED, SCRATCH, COUNTS = 65, 66, 67, 68, 69, 70, 75, 77
ORDERS = ("kernel", "initrd", "disk")
BOOT = "console=ttyS0 quiet reboot=k cloister_vsock=1024"

# The double's false answers, and the node's resulting errors.
ANSWERS = {"huge": "the answer is malformed", "garbage": "the answer is malformed", "twice": "the answer is malformed",
           "endless-body": "the answer is malformed", "cut": "the connection was closed instead of an answer",
           "die": "the connection was closed instead of an answer",
           "refuse": 'refused with 400: {"fault_message":"no  room <for> it"}'}


def kernel(place=1 << 20):
    """An ELF file loadable by a machine, with a page at `place`."""
    page = b"\xf4" * 4096
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, place, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 120, place, place, len(page), len(page), 4096) + page


ALLOW_ALL = struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000)  # a filter


def initrd(bin, modules=b""):
    from microvm_image import entry
    files = [("init", "cloister-guest"), ("cloister-runner", "cloister-runner")]
    parts = [entry(number, name, stat.S_IFREG | 0o555, (bin / program).read_bytes())
             for number, (name, program) in enumerate(files, 1)]
    return b"".join([modules, *parts, entry(9, "filter", stat.S_IFREG | 0o444, ALLOW_ALL), entry(0, "TRAILER!!!", 0, b"")])


class Driver:
    """The driver under way. `self.node` is the other end of its descriptor 3."""

    def __init__(self, directory, firecracker=DOUBLE, mischief="", at="/boot-source", cpus="1", mebibytes="64", boot=BOOT,
                 machine="", begins=(), link=(), **files):
        """`link`: the name of a tap interface and the guest's Ethernet address. `begins`: "to-be-kept" or "as-kept", and the files of memory and state. `self.orders` is the other end of
        the socket for the order to keep."""
        self.directory = pathlib.Path(directory)
        self.console = tempfile.TemporaryFile()
        self.node, theirs = socket.socketpair()
        self.node.settimeout(20)
        contents = {"kernel": kernel(), "initrd": initrd(harness.BIN), "disk": bytes(8192)} | files
        opened = [theirs.fileno(), *(self._file(name, contents[name]) for name in ORDERS)]
        numbers, more = [3, 5, 6, 7], []
        if begins:
            self.orders, ends = socket.socketpair()
            self.orders.settimeout(20)
            numbers += [8, 9, 10]
            opened += [os.dup(begins[1]), ends.detach(), os.dup(begins[2])]
            more = [begins[0], "/proc/self/fd/8", "/proc/self/fd/10", "9"]
        if link:
            more = ["linked", *link, *more]
        aside = [fcntl.fcntl(each, fcntl.F_DUPFD, 64) for each in opened]
        null = os.open("/dev/null", os.O_RDWR)
        placed = [(null, 0), (self.console.fileno(), 1), (self.console.fileno(), 2), *zip(aside, numbers)]
        actions = [(os.POSIX_SPAWN_DUP2, each, number) for each, number in placed]
        actions += [(os.POSIX_SPAWN_CLOSE, each) for each in aside]
        paths = [f"/proc/self/fd/{number}" for number in (5, 6, 7)]
        self.pid = os.posix_spawn(harness.BIN / "cloister-firecracker",
                                  ["cloister-firecracker", str(firecracker), str(self.directory), *paths, cpus, mebibytes, boot,
                                   *more],
                                  {"PATH": "/usr/bin:/bin", "DOUBLE_MISCHIEF": mischief, "DOUBLE_AT": at, "DOUBLE_MACHINE": machine}, file_actions=actions)
        for each in (null, *aside, *opened[1:]):
            os.close(each)
        theirs.close()
        self.status = None

    orders = None

    def _file(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return os.open(path, os.O_RDONLY)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.node.close()
        if self.orders is not None:
            self.orders.close()
        self.kill()
        self.console.close()

    def kill(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = -9

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None

    def tree(self):
        return set(descendants(self.pid))

    def said(self):
        self.console.seek(0)
        return self.console.read().decode(errors="replace")

    def frame(self):
        """(kind, channel, payload); None at the end."""
        head = self._whole(HEAD.size)
        if head is None:
            return None
        length, generation, _, kind, channel = HEAD.unpack(head)
        if generation != 1 or length > 65536:
            raise AssertionError(f"not a frame: {head!r}")
        return kind, channel, self._whole(length)

    def _whole(self, size):
        data = b""
        while len(data) < size:
            try:
                piece = self.node.recv(size - len(data))
            except TimeoutError:
                raise AssertionError(f"silent, after {data!r}; the machine said: {self.said()[-4000:]}") from None
            if not piece:
                return None
            data += piece
        return data

    def send(self, kind, channel, payload=b""):
        self.node.sendall(HEAD.pack(len(payload), 1, 0, kind, channel) + payload)

    def run(self, *arguments):
        """(stdout, exit code) of a program in the machine, after its hello."""
        for each in arguments:
            self.send(TEXT, 1, b"\0\0" + each.encode())
        self.send(START, 1, b"\0" + struct.pack("<I", 0))
        out = b""
        while True:
            kind, _, payload = self.frame()
            if kind == STDOUT:
                out += payload
            elif kind == EXITED:
                return out, struct.unpack_from("<BI", payload)[1]
            elif kind not in (STARTED, STDERR, SCRATCH, COUNTS):
                raise AssertionError((kind, payload))

    def keep(self):
        """Orders a machine to be kept, after its hello; gives the reason of a failure, "" otherwise."""
        self.orders.sendall(HEAD.pack(0, 1, 0, KEEP, 0))
        answer = b""
        while piece := self.orders.recv(4096):
            answer += piece
        length, generation, _, kind, channel = HEAD.unpack(answer[:HEAD.size])
        if (generation, channel, len(answer)) != (1, 0, HEAD.size + length) or kind not in (KEPT, NOT_KEPT):
            raise AssertionError(answer)
        return answer[HEAD.size:].decode() if kind == NOT_KEPT else ""

    def wake(self):
        """The entropy given to the machine, once the machine reports that it is awake."""
        entropy = os.urandom(64)
        self.send(WAKE, 0, entropy + struct.pack("<qI", int(time.time()), 0))
        answer = self.frame()
        if answer is None:
            raise ConnectionResetError("the guest has hung up")
        if answer != (AWAKE, 0, b""):
            raise AssertionError((answer, self.said()))
        return entropy

    def fault(self):
        """The node's reason why no machine was made."""
        kind, _, payload = self.frame()
        if kind != START_FAILED:
            raise AssertionError((kind, payload, self.said()))
        size = struct.unpack_from("<I", payload, 4)[0]
        return payload[8:8 + size].decode()


def gone(pids, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = {pid for pid in pids if _lives(pid)}
        if not left:
            return True
        time.sleep(0.01)
    return False


def _lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


LAUNCHER = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char** arguments) {
  static char* all[64] = {"python3", "-I", "-S", "-B", "SCRIPT"};
  if (count == 2 && strcmp(arguments[1], "--version") == 0) return printf("Firecracker vVERSION\\n\\n") < 0;
  for (int i = 1; i < count && i < 50; ++i)
    all[4 + i] = arguments[i];
  if (setenv("DOUBLE_MISCHIEF", "MISCHIEF", 1) != 0 || setenv("DOUBLE_AT", "PATH", 1) != 0) return 1;
  execv("/usr/bin/python3", all);
  return 127;
}
"""


def compile_launcher(script, target, version="1.8.0", mischief="", at=""):
    """Firecracker is a program, not a script, and is asked for its version outside of its root: the launcher prints
    the version, and otherwise becomes the double."""
    source, new = target.with_suffix(".c"), target.with_suffix(".new")
    words = {"SCRIPT": script, "VERSION": version, '"MISCHIEF"': f'"{mischief}"', '"PATH"': f'"{at}"'}
    text = LAUNCHER
    for word, value in words.items():
        text = text.replace(word, value)
    source.write_text(text)
    subprocess.run(["clang-19", "-static", "-O1", "-Wall", "-Werror", "-o", new, source], check=True)
    source.unlink()
    new.rename(target)  # the former file may be running


def make_image(directory):
    """An image whose kernel boots nothing, as the double does not, and whose root is none."""
    (directory / "vmlinux").write_bytes(kernel())
    (directory / "modules.cpio").write_bytes(b"")
    (directory / "root.squashfs").write_bytes(b"no root: " + os.urandom(8))
    return directory


def make_root(directory, version="1.8.0"):
    """A root for sandboxes, with Python, a shell, and the double for Firecracker."""
    import debian
    debian.user_space(("python3", "dash", "coreutils"), directory)
    inside = directory / "usr" / "lib" / "double"
    inside.mkdir()
    for script in (DOUBLE, DOUBLE.with_name("guest_double.py")):
        shutil.copy(script, inside)
    compile_launcher(f"/usr/lib/double/{DOUBLE.name}", directory / "usr" / "bin" / "firecracker", version)
    return directory
