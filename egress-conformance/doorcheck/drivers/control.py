# SPDX-License-Identifier: Apache-2.0
"""The control: a sandbox that is deliberately weak, so that the suite is known to find something.

A program runs in namespaces of its own (bwrap(1) where it is installed, else unshare(1)), with the machine's network and
with proxy variables. Programs that ignore the variables get out.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from doorcheck.driver import HTTP_RULES, PROXY, Driver, Result, Running

PROXY_SCRIPT = pathlib.Path(__file__).with_name("control_proxy.py")


class ControlRun(Running):
    def __init__(self, process, out):
        self._process, self._out = process, out

    def output(self):
        return self._out.read_text(errors="replace")

    def wait(self, seconds):
        self._process.wait(seconds)
        return Result(self._process.returncode, self.output())

    def end(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Control(Driver):
    name = "control"
    features = frozenset((PROXY, HTTP_RULES))

    def start(self, world):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="control."))
        self._resolv = self._folder / "resolv.conf"
        self._resolv.write_text(f"nameserver {world.resolver.rsplit(':', 1)[0]}\n")
        self._count = 0
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.proxy = ("127.0.0.1", probe.getsockname()[1])
        self._names = self._folder / "names"
        self._names.touch()
        self._process = subprocess.Popen([sys.executable, str(PROXY_SCRIPT), str(self.proxy[1]), str(self._names)],
                                         stdout=subprocess.PIPE, text=True)
        self._process.stdout.readline()

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _walls(self):
        resolv = "/etc/resolv.conf"
        if shutil.which("bwrap"):
            return ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc",
                    "--ro-bind", str(self._resolv), resolv, "--die-with-parent"]
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        return ["unshare", *user, "--mount", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
                f"mount --bind {self._resolv} {resolv}; exec \"$@\"", "sh"]

    def begin(self, program, policy, seconds=60):
        self._count += 1
        script, out = self._folder / f"program{self._count}.py", self._folder / f"out{self._count}"
        script.write_text(program)
        self._names.write_text("\n".join(entry.name for entry in policy.allow))
        address = f"http://{self.proxy[0]}:{self.proxy[1]}"
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self._folder),
                       **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), address)}
        with open(out, "wb") as sink:
            process = subprocess.Popen([*self._walls(), "/usr/bin/python3", str(script)], env=environment, stdin=subprocess.DEVNULL,
                                       stdout=sink, stderr=sink, start_new_session=True)
        return ControlRun(process, out)
