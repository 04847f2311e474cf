#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cloister serve`: starts, restarts and stops its parts; systemd's protocols; the state's lock.

Supervision is tested with obedient stand-ins for cloisterd, cloister-egress and cloister-node, then with the real programs.
"""

import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import harness
import inert
import test_images
from harness import wait_for

PARTS = ("cloisterd", "cloister-egress", "cloister-node")

# Plays all parts. The control plane makes the key and answers HTTP on its inherited socket; each part ends at SIGTERM
# or the end of its lifeline, and writes down the events. Files in the state directory order mischief.
STAND_IN = r'''#!/usr/bin/python3
import os, select, signal, socket, sys, time
name = os.path.basename(sys.argv[0])
words = [word for word in sys.argv[1:] if word != "--private"]
flags = dict(zip(words[::2], words[1::2]))
state = flags["--state"]
def told(what):
    return os.path.exists(f"{state}/{what}")
def note(what):
    with open(f"{state}/parts.log", "a") as log:
        log.write(f"{name} {os.getpid()} {time.monotonic()} {what}\n")
note("start " + " ".join(f"{k}={os.environ[k]}" for k in os.environ if k.startswith(("NOTIFY", "WATCH"))))
if told(f"die-at-start.{name}"):
    sys.exit(7)
if told("orphan"):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.2)
        os._exit(0)
wake_read, wake_write = os.pipe()
os.set_blocking(wake_write, False)
signal.set_wakeup_fd(wake_write)
signal.signal(signal.SIGTERM, lambda *_: None)
lifeline = int(flags["--lifeline"])
watched = [lifeline, wake_read]
listener = None
if name == "cloisterd":
    assert os.environ["LISTEN_PID"] == str(os.getpid()), os.environ["LISTEN_PID"]
    assert os.environ["LISTEN_FDS"] == "1"
    with open(f"{state}/admin.key", "w") as key:
        key.write("clo_standin\n")
    listener = socket.socket(fileno=3)
    watched.append(listener)
ready = int(flags["--ready-fd"])
os.write(ready, b"ready\n")
os.close(ready)
if told(f"die-when-ready.{name}"):
    time.sleep(0.05)
    sys.exit(9)
while True:
    for what in select.select(watched, [], [])[0]:
        if what == lifeline:
            note("lifeline")
            while told(f"slow.{name}"):
                time.sleep(0.01)
            sys.exit(0)
        if what == wake_read:
            note("stop")
            if told(f"deaf.{name}"):
                watched.remove(wake_read)
                continue
            time.sleep(0.1)
            note("stopped")
            sys.exit(0)
        peer, _ = listener.accept()
        with peer:
            peer.setblocking(True)
            if peer.recv(4096):
                status = "503 Busy" if told("not-ready") else "200 OK"
                peer.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
'''


class Notifications:
    """The receiver of systemd's notifications."""

    def __init__(self, folder):
        self.path = f"{folder}/notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self.lines = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        with contextlib.suppress(OSError):
            while True:
                self.lines += self._socket.recv(65536).decode().split("\n")

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class StandIns(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-serve-test."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "bin").mkdir()
        shutil.copy2(harness.BIN / "cloister", self.folder / "bin" / "cloister")
        for name in PARTS:
            part = self.folder / "bin" / name
            part.write_text(STAND_IN)
            part.chmod(0o755)
        self.state = self.folder / "state"
        self.state.mkdir()
        self.processes = []
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for process in self.processes:
            for pid in harness.descendants(process.pid) if process.poll() is None else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            process.stderr.close()

    def command(self, *args):
        return [str(self.folder / "bin" / "cloister"), "serve", "--state", str(self.state), *args]

    def serve(self, *args, listen="127.0.0.1:0", env=None, wrap=(), **options):
        command = self.command("--listen", listen, *args)
        environment = {"PATH": os.environ["PATH"], "CLOISTER_LOG": "info", **(env or {})}
        process = subprocess.Popen([*wrap, *command], env=environment, stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def address(self):
        def read():
            with contextlib.suppress(OSError):
                return (self.state / "address").read_text().strip()
            return None

        return wait_for("the address", read)

    def serve_ready(self, *args, **options):
        process = self.serve(*args, **options)
        self.address()
        return process

    def events(self, what=None):
        """[(part, pid, time, event)] as written by the stand-ins."""
        with contextlib.suppress(OSError):
            rows = [line.split(" ", 3) for line in (self.state / "parts.log").read_text().splitlines()]
            return [(part, int(pid), float(when), text.strip()) for part, pid, when, text in rows
                    if what is None or text.split(" ")[0].strip() == what]
        return []

    def pid_of(self, part):
        return [pid for name, pid, _, _ in self.events("start") if name == part][-1]

    def answer(self, address=None):
        host, port = (address or self.address()).rsplit(":", 1)
        return harness.http_request(host, int(port), "GET", "/readyz", timeout=10).status

    def end(self, process, seconds=10):
        error = process.stderr.read().decode()
        return process.wait(seconds), error

    # - start -

    def test_starts_and_says_where_and_never_the_key(self):
        process = self.serve_ready()
        self.assertEqual(self.answer(), 200)
        self.assertEqual(sorted(part for part, *_ in self.events("start")), sorted(PARTS))
        process.terminate()
        status, said = self.end(process)
        self.assertEqual(status, 0, said)
        self.assertIn("http://127.0.0.1:", said)
        self.assertIn(f"{self.state}/admin.key", said)
        self.assertNotIn("clo_standin", said)
        self.assertIn(f"(`cloister --state {self.state}` on this account finds it)\n", said)

    def test_a_part_that_cannot_start_ends_it(self):
        for part in PARTS:
            flag = self.state / f"die-at-start.{part}"
            flag.touch()
            status, said = self.end(self.serve())
            flag.unlink()
            self.assertEqual(status, 125)
            self.assertIn(f"starting {part}: it exited with status 7", said)
            pids = [pid for _, pid, _, _ in self.events("start")]
            wait_for("the other part to end", lambda: not any(map(alive, pids)))

    def test_a_missing_program_is_named(self):
        (self.folder / "bin" / "cloister-node").unlink()
        status, said = self.end(self.serve())
        self.assertEqual(status, 4)
        self.assertIn("cloister-node", said)

    def test_not_ready_until_the_service_says_so(self):
        (self.state / "not-ready").touch()
        notifications = Notifications(self.folder)
        self.addCleanup(notifications.close)
        self.serve(env={"NOTIFY_SOCKET": notifications.path})
        wait_for("all parts", lambda: len(self.events("start")) == len(PARTS))
        time.sleep(0.5)  # many probes long: the test is that nothing happens
        self.assertFalse((self.state / "address").exists())
        self.assertNotIn("READY=1", notifications.lines)
        self.assertIn("EXTEND_TIMEOUT_USEC=7200000000", notifications.lines)  # an older ledger may take longer than a start
        (self.state / "not-ready").unlink()
        wait_for("readiness", lambda: "READY=1" in notifications.lines)
        self.assertTrue((self.state / "address").exists())

    def test_bad_configuration_and_address_are_named(self):
        config = self.folder / "c.yaml"
        config.write_text("http:\n  body_byte: 4096\n")
        status, said = self.end(self.serve("--config", str(config)))
        self.assertEqual(status, 2)
        self.assertIn("http.body_byte: unknown key; did you mean http.body_bytes?", said)
        status, said = self.end(self.serve(listen="nowhere"))
        self.assertEqual(status, 2)
        self.assertIn('"nowhere"', said)

    def test_the_configuration_gives_address_and_state(self):
        port = harness.free_port()
        config = self.folder / "c.yaml"
        config.write_text(inert.configuration(f"listen: 127.0.0.1:{port}\nstate: {self.state}\n", self.folder))
        command = [str(self.folder / "bin" / "cloister"), "serve", "--config", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
        self.processes.append(process)
        self.assertEqual(self.address(), f"127.0.0.1:{port}")

    # - restart -

    def test_a_killed_part_comes_back_and_connections_wait(self):
        process = self.serve_ready()
        address = self.address()
        for part in (*PARTS, "cloisterd"):
            before = len(self.events("start"))
            old = self.pid_of(part)
            os.kill(old, signal.SIGKILL)
            self.assertEqual(self.answer(address), 200)  # not refused meanwhile
            wait_for("the restart", lambda: len(self.events("start")) == before + 1)
            self.assertNotEqual(self.pid_of(part), old)
        self.assertIsNone(process.poll())
        self.assertEqual(self.address(), address)

    def test_a_crash_loop_is_slowed_down(self):
        self.serve_ready()
        (self.state / "die-when-ready.cloister-node").touch()
        os.kill(self.pid_of("cloister-node"), signal.SIGKILL)

        def starts():
            return [when for part, _, when, _ in self.events("start") if part == "cloister-node"]

        wait_for("five starts", lambda: len(starts()) >= 6, 20)
        gaps = [later - earlier for earlier, later in zip(starts()[1:], starts()[2:])]
        self.assertGreater(gaps[3], 2 * gaps[0])
        self.assertGreater(sum(gaps[:4]), 0.2 + 0.4 + 0.8 + 1.6 - 0.1)

    def test_the_network_is_back_within_two_seconds_in_a_crash_loop(self):
        self.serve_ready()
        for _ in range(6):
            killed = time.monotonic()
            before = len(self.events("start"))
            os.kill(self.pid_of("cloister-egress"), signal.SIGKILL)
            wait_for("the restart", lambda: len(self.events("start")) == before + 1)
            self.assertLess(time.monotonic() - killed, 2)

    # - stop -

    def test_the_control_plane_stops_first(self):
        for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")):
            with self.subTest(name):
                (self.state / "parts.log").unlink(missing_ok=True)
                process = self.serve_ready()
                process.send_signal(number)
                self.assertEqual(self.end(process)[0], 0)
                ends = [(part, what) for part, _, _, what in self.events() if what.startswith("stop")]
                self.assertEqual(ends, [("cloisterd", "stop"), ("cloisterd", "stopped"),
                                        ("cloister-node", "stop"), ("cloister-node", "stopped"),
                                        ("cloister-egress", "stop"), ("cloister-egress", "stopped")])
                self.assertFalse((self.state / "address").exists())

    def test_a_second_interrupt_waits_no_longer(self):
        (self.state / "deaf.cloisterd").touch()
        process = self.serve_ready()
        process.send_signal(signal.SIGINT)
        wait_for("the first", lambda: self.events("stop"))
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process)[0], 0)

    def test_killed_supervisor_takes_its_parts_along(self):
        process = self.serve_ready()
        pids = [pid for _, pid, _, _ in self.events("start")]
        process.kill()
        wait_for("the lifelines", lambda: len(self.events("lifeline")) == len(PARTS))
        wait_for("the parts to end", lambda: not any(map(alive, pids)))
        process.wait()
        (self.state / "address").unlink()
        self.serve_ready()  # the state and the address are free again

    def test_a_new_one_waits_for_the_parts_of_a_killed_one(self):
        process = self.serve_ready(listen=f"127.0.0.1:{harness.free_port()}")
        address = self.address()
        (self.state / "slow.cloister-node").touch()
        process.kill()
        process.wait()
        (self.state / "address").unlink()
        second = self.serve(listen=address)
        wait_for("the lifelines", lambda: len(self.events("lifeline")) == len(PARTS))
        time.sleep(0.3)  # the test is that nothing happens
        self.assertEqual(len(self.events("start")), len(PARTS))
        (self.state / "slow.cloister-node").unlink()
        self.assertEqual(self.address(), address)
        self.assertIsNone(second.poll())

    # - the state directory -

    def test_one_server_on_a_state_directory(self):
        first = self.serve_ready()
        status, said = self.end(self.serve())
        self.assertEqual(status, 3)
        self.assertIn(f"another server holds it (process {first.pid})", said)
        self.assertEqual(self.answer(), 200)

    def test_a_private_one_removes_its_state_when_its_parent_goes(self):
        read_end, write_end = os.pipe()
        ready_read, ready_write = os.pipe()
        process = self.serve("--private", "--lifeline", str(read_end), "--ready-fd", str(ready_write),
                             pass_fds=(read_end, ready_write))
        os.close(read_end)
        os.close(ready_write)
        self.assertEqual(os.read(ready_read, 100).decode().strip(), self.address())
        os.close(ready_read)
        os.close(write_end)
        self.assertEqual(process.wait(10), 0)
        self.assertFalse(self.state.exists())

    # - systemd -

    def test_notifications(self):
        notifications = Notifications(self.folder)
        self.addCleanup(notifications.close)
        process = self.serve_ready(env={"NOTIFY_SOCKET": notifications.path, "WATCHDOG_USEC": "200000"})
        wait_for("READY", lambda: "READY=1" in notifications.lines)
        wait_for("beats", lambda: notifications.lines.count("WATCHDOG=1") >= 3)
        os.kill(self.pid_of("cloister-node"), signal.SIGKILL)
        wait_for("the status", lambda: any("restarting cloister-node, which was killed by SIGKILL" in line
                                           for line in notifications.lines))
        wait_for("READY again", lambda: notifications.lines.count("READY=1") == 2)
        process.terminate()
        self.assertEqual(self.end(process)[0], 0)
        wait_for("STOPPING", lambda: "STOPPING=1" in notifications.lines)
        for _, _, _, what in self.events("start"):
            self.assertEqual(what, "start", "parts must not speak to systemd themselves")

    def test_an_abstract_notification_socket(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            name = f"cloister-serve-test-{os.getpid()}"
            receiver.bind("\0" + name)
            receiver.settimeout(10)
            self.serve_ready(env={"NOTIFY_SOCKET": "@" + name})
            while b"READY=1" not in receiver.recv(4096):
                pass

    def test_socket_activation(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(16)
            port = listener.getsockname()[1]
            self.serve(listen="127.0.0.1:1", env={"LISTEN_FDS": "1"},
                       wrap=["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"],
                       preexec_fn=lambda: os.dup2(listener.fileno(), 3), pass_fds=(3,))
            self.assertEqual(self.address(), f"127.0.0.1:{port}")
        self.assertEqual(self.answer(), 200)

    # - as pid 1 -

    def test_reaps_orphans_as_pid_1(self):
        probe = subprocess.run(["unshare", "-rpf", "true"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest(f"no pid namespace: {probe.stderr.decode().strip()}")
        (self.state / "orphan").touch()
        process = self.serve_ready(wrap=["unshare", "-rpf", "--kill-child"])
        server = wait_for("the supervisor", lambda: [p for p in harness.descendants(process.pid)
                                                     if harness.program_of(p) == "cloister"])[0]
        children = pathlib.Path(f"/proc/{server}/task/{server}/children")
        wait_for("the orphans to be reaped", lambda: len(children.read_text().split()) == len(PARTS))


def alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def arguments(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


class RealParts(unittest.TestCase):
    def test_each_killed_part_is_back_and_runs_work(self):
        with harness.Server() as server:
            self.assertEqual(server.run("print(1)")["stdout"], "1\n")
            for part in PARTS:
                old = server.pids()  # including the node's spawner
                os.kill(server.pid_of(part), signal.SIGKILL)
                wait_for("another process", lambda: any(
                    pid not in old and harness.program_of(pid) == part for pid in server.pids()))
                server.wait_ready()
                self.assertEqual(server.run("print(2)")["stdout"], "2\n")

    def begin(self, server, code):
        made = server.request("POST", "/v1/executions", {"language": "python", "code": code, "timeout_seconds": 60})
        self.assertIn(made.status, (200, 201, 202), made.body)
        path = f"/v1/executions/{made.json()['id']}"
        wait_for("it to run", lambda: server.request("GET", path).json()["status"] == "running")
        return path

    def test_a_hung_node_is_ended_and_another_started(self):
        with harness.Server("node:\n  silence_seconds: 2\n") as server:
            path = self.begin(server, "import time; time.sleep(50)")
            hung = server.pid_of("cloister-node")
            os.kill(hung, signal.SIGSTOP)
            ended = wait_for("the run to end", lambda: (
                now := server.request("GET", path).json())["status"] != "running" and now, 12)
            self.assertEqual((ended["status"], ended["error"]["type"]), ("failed", "NODE_LOST"), ended)
            wait_for("it to end", lambda: not alive(hung), 20)
            server.wait_ready()
            self.assertEqual(server.run("print(2)")["stdout"], "2\n")
            self.assertIn("part hangs", server.log.read_text())

    def test_a_control_plane_that_was_stopped_blames_nobody(self):
        with harness.Server("node:\n  silence_seconds: 2\n") as server:
            path = self.begin(server, "import time; time.sleep(8); print('there')")
            node, control = server.pid_of("cloister-node"), server.pid_of("cloisterd")
            os.kill(control, signal.SIGSTOP)
            time.sleep(5)
            os.kill(control, signal.SIGCONT)
            ended = wait_for("the run to end", lambda: (
                now := server.request("GET", path).json())["status"] != "running" and now, 30)
            self.assertEqual((ended["status"], ended["stdout"]), ("completed", "there\n"), ended)
            self.assertEqual(server.pid_of("cloister-node"), node)
            time.sleep(5)  # only with keep-alives
            self.assertEqual(server.pid_of("cloister-node"), node)
            self.assertEqual(server.run("print(2)")["stdout"], "2\n")

    def test_a_hung_control_plane_loses_its_sandboxes(self):
        with harness.Server("node:\n  control_silence_seconds: 4\n") as server:
            path = self.begin(server, "import time; time.sleep(6); print('there')")
            ended = wait_for("the run to end", lambda: (
                now := server.request("GET", path).json())["status"] != "running" and now, 30)
            self.assertEqual(ended["stdout"], "there\n", "a control plane with nothing to say is no hung one")
            path = self.begin(server, "import subprocess; subprocess.run(['sleep', '50.25'])")
            made = server.request("POST", "/v1/sessions", {})
            self.assertEqual(made.status, 201, made.body)

            def sandboxed():
                return [pid for pid in server.pids() if "50.25" in arguments(pid)]

            wait_for("the program", sandboxed)
            control = server.pid_of("cloisterd")
            os.kill(control, signal.SIGSTOP)
            try:
                wait_for("the node to end the sandboxes", lambda: not sandboxed(), 20)
            finally:
                os.kill(control, signal.SIGCONT)
            ended = wait_for("the run to end", lambda: (
                now := server.request("GET", path).json())["status"] != "running" and now, 12)
            self.assertEqual((ended["status"], ended["error"]["type"]), ("failed", "NODE_LOST"), ended)
            session = wait_for("the session to end", lambda: (
                now := server.request("GET", f"/v1/sessions/{made.json()['id']}").json())["status"] == "ended" and now)
            self.assertEqual(session["end_reason"]["type"], "NODE_LOST", session)
            server.wait_ready()
            self.assertEqual(server.run("print(2)")["stdout"], "2\n")
            self.assertIn("control plane silent", server.log.read_text())

    def test_it_stops_while_the_image_is_hashed(self):
        """Runs and sessions whose sandboxes wait for the digest of the image hold nothing up."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-test-serve.")))
        folder.chmod(0o755)
        root, state = folder / "root", folder / "state"
        for path in ("/bin/bash", *test_images.libraries("/bin/bash")):
            test_images.put(root, path, "/usr/bin/bash" if path == "/bin/bash" else None)
        with open(root / "usr/bin/large", "wb") as large:
            large.truncate(1 << 40)  # empty; hours of hashing
        state.mkdir(mode=0o755)
        config = f"node:\n  image_root: {root}\nimages:\n  require_verified: %s\n  read_after_seconds: 0\n"
        with harness.Server(config % "true", state=state, env={"CACHE_DIRECTORY": str(folder / "cache")}) as server:
            made = server.request("POST", "/v1/executions", {"command": ["/usr/bin/bash", "-c", "echo hi"]}).json()
            path = f"/v1/executions/{made['id']}"
            wait_for("it to run", lambda: server.request("GET", path).json()["status"] == "running")
            def ask():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    server.request("POST", "/v1/sessions", {})

            asked = threading.Thread(target=ask)
            asked.start()
            session = wait_for("the session", lambda: server.request("GET", "/v1/sessions").json()["sessions"])[0]
            begun = time.monotonic()
            server.stop()
            self.assertLess(time.monotonic() - begun, 10)
            asked.join()
            self.assertNotIn("sandbox not torn down", server.log.read_text())
        (root / "usr/bin/large").unlink()
        with harness.Server(config % "false", state=state, env={"CACHE_DIRECTORY": str(folder / "cache")}) as server:
            ended = server.request("GET", path).json()
            self.assertEqual((ended["status"], ended["error"]["type"]), ("failed", "SERVER_RESTART"), ended)
            ended = server.request("GET", f"/v1/sessions/{session['id']}").json()
            self.assertEqual((ended["status"], ended["end_reason"]["type"]), ("ended", "SERVER_RESTART"), ended)

    def test_the_control_plane_and_the_network_have_no_privilege(self):
        with harness.Server() as server:
            uids = set()
            for part in ("cloisterd", "cloister-egress"):
                with self.subTest(part):
                    status = pathlib.Path(f"/proc/{server.pid_of(part)}/status").read_text()
                    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
                    self.assertEqual(fields["CapEff"], "0" * 16)
                    self.assertEqual(fields["CapBnd"] if harness.ROOT else "0" * 16, "0" * 16)
                    self.assertEqual(fields["NoNewPrivs"], "1")
                    self.assertEqual(fields["Seccomp"], "2")
                    if harness.ROOT:
                        self.assertNotIn("0", fields["Uid"].split())
                        uids.add(fields["Uid"])
            self.assertEqual(len(uids), 2 if harness.ROOT else 0, "each has a user of its own")

    def test_without_its_filter_a_node_does_not_start(self):
        with tempfile.TemporaryDirectory() as folder:
            share, state = pathlib.Path(folder, "share"), pathlib.Path(folder, "state")
            shutil.copytree(harness.BIN.parent / "share" / "cloister", share)
            (share / "policies" / "seccomp" / "node.json").unlink()
            node = subprocess.run([harness.BIN / "cloister-node", "--state", state], capture_output=True, text=True,
                                  env={**os.environ, "CLOISTER_SHARE": str(share)}, timeout=60, check=False)
            self.assertEqual(node.returncode, 1)
            self.assertIn("policies/seccomp/node.json", node.stderr)
            self.assertFalse((state / "run" / "node.sock").exists())

    def test_modes_of_the_state(self):
        with harness.Server() as server:
            for name, mode in (("admin.key", 0o600), ("lock", 0o600), ("address", 0o644),
                               ("keys/permit.key", 0o600), ("keys/audit.key", 0o600),
                               ("ledger", 0o700), ("blobs", 0o700), ("run", 0o750)):
                self.assertEqual((server.state / name).stat().st_mode & 0o777, mode, name)

    def refused(self, folder, config=""):
        """The message of a `serve` that refuses to start on `folder`/state."""
        pathlib.Path(f"{folder}/config.yaml").write_text(config)
        done = subprocess.run(
            [harness.BIN / "cloister", "serve", "--listen", "127.0.0.1:0", "--state", f"{folder}/state",
             "--config", f"{folder}/config.yaml"], capture_output=True, text=True, timeout=60)
        self.assertIn(done.returncode, (2, 3, 125), done.stderr)
        return done.stderr

    def test_what_keeps_it_from_starting_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            for key, config in (("policy", "policy: /nonexistent"), ("tools", "tools: /nonexistent"),
                                ("agents.levels", "agents:\n  levels: /nonexistent")):
                self.assertIn(f'"{key}: opening /nonexistent: ', self.refused(folder, config))
            for program, said in (("/nonexistent", "there is no /nonexistent; install it"), ("/usr", "chmod [+]x it"),
                                  ("/etc/passwd", "chmod [+]x it"), ("true", "must begin with an absolute path")):
                self.assertRegex(self.refused(folder, f"artifacts:\n  scan:\n    command: [{program}]\n"),
                                 f"artifacts.scan.command: .*{said}")
            self.assertIn("node.cgroup_parent: must be a name", self.refused(folder, "node:\n  cgroup_parent: ../x\n"))
            self.assertIn('escalation.safe_operations: has',
                          self.refused(folder, "escalation:\n  safe_operations: [file_raed]\n"))
            self.assertIn('fairness.weights: \\"one: 3\\" is not `TENANT = N`',
                          self.refused(folder, "fairness:\n  weights: ['one: 3']\n"))
            for key in ("x", "sixteen or more, in part not seen"):
                pathlib.Path(f"{folder}/state/admin.key").write_text(f"{key}\n")
                self.assertIn("remove the file to get another", self.refused(folder))

    @unittest.skipUnless(harness.ROOT, "the control plane is who started it")
    def test_a_state_directory_that_its_user_cannot_come_to(self):
        with tempfile.TemporaryDirectory() as folder:  # only root may enter the folder
            self.assertIn("chmod o+x", self.refused(folder))


def names(server):
    return [harness.program_of(pid) for pid in server.pids()]


if __name__ == "__main__":
    unittest.main()
