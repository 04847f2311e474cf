# SPDX-License-Identifier: Apache-2.0
"""Terminals: programs of a session on a PTY, over HTTP and with `cloister shell`."""

import base64
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import api_case
import harness
import machine
from session_case import Session
from websocket import TEXT, WebSocket

CONFIG = api_case.CONFIG


def setUpModule():
    TerminalTest.server = unittest.enterModuleContext(harness.Server(config=CONFIG))
    TerminalTest.session = unittest.enterModuleContext(Session(TerminalTest.server, language="bash", memory_mb=512))


class TerminalTest(unittest.TestCase):
    server = None
    session = None

    def open(self, *command, cols=80, rows=24, **request):
        """A program on a terminal → its id."""
        answer = self.session.post(command=list(command), background=True, tty={"cols": cols, "rows": rows}, **request)
        self.assertEqual(answer.status, 202, answer.body[:1000])
        execution = answer.json()["id"]
        self.addCleanup(self.session.cancel, execution)
        return execution

    def run_one(self, *command, **request):
        return self.session.wait(self.open(*command, **request))

    def type(self, execution, text):
        answer = self.session.send(execution, text.encode())
        self.assertEqual(answer.status, 200, answer.body)

    def see(self, execution, text, seconds=20):
        self.session.wait_output(execution, text, seconds)

    def resize(self, execution, **size):
        return self.session.call("POST", f"/v1/executions/{execution}:resize", size)


class Programs(TerminalTest):
    def test_logs_of_much_are_its_end(self):
        """A terminal keeps its last output; offsets count from the first byte."""
        script = "i=0; while [ $i -lt 2000 ]; do echo line-$i-; i=$((i+1)); done; echo all-said; cat"
        execution = self.open("sh", "-c", script, max_output_bytes=4096)

        def logs(query=""):
            return self.session.call("GET", f"/v1/executions/{execution}/logs{query}", status=200)

        harness.wait_for("all of it", lambda: "all-said" in logs("?tail_lines=1").text)
        whole = logs()
        begin, total = (int(whole.headers[f"x-cloister-{name}"]) for name in ("offset", "total-bytes"))
        self.assertEqual(begin + len(whole.body), total)
        self.assertLess(len(whole.body), total)
        self.assertEqual(whole.headers["x-cloister-next-offset"], str(total))
        self.assertTrue(whole.text.endswith("line-1999-\r\nall-said\r\n"), whole.text[-80:])
        self.assertEqual(logs("?tail_lines=2").text, "line-1999-\r\nall-said\r\n")
        self.assertEqual(logs(f"?offset={total - 10}").text, "all-said\r\n")
        self.assertEqual(logs("?offset=0").body, whole.body)

    def test_is_a_terminal_of_its_size(self):
        done = self.run_one("sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2 && stty size; echo $TERM; ls /dev/pts", cols=100, rows=30)
        self.assertEqual(done["exit_code"], 0)
        self.assertRegex(done["stdout"], r"\A/dev/pts/\d+\r\n30 100\r\nxterm-256color\r\n")
        self.assertEqual(done["stderr"], "")

    def test_exit_codes_and_signals(self):
        self.assertEqual(self.run_one("sh", "-c", "exit 7")["exit_code"], 7)
        self.assertEqual(self.run_one("bash", "-c", "kill -SEGV $$")["signal"], "SIGSEGV")
        missing = self.run_one("no-such-program")
        self.assertEqual((missing["status"], missing["exit_code"]), ("completed", 127))
        self.assertIn("no-such-program", missing["stdout"] + missing["stderr"])

    def test_output_is_whole_when_it_ends_at_once(self):
        for _ in range(3):
            done = self.run_one("seq", "1", "20000")
            self.assertEqual(done["stdout"], "".join(f"{n}\r\n" for n in range(1, 20001)))

    def test_input_and_end_of_file(self):
        cat = self.open("cat")
        self.type(cat, "hello\n")
        self.see(cat, "hello\r\nhello\r\n")
        self.session.send(cat, eof=True)
        self.assertEqual(self.session.wait(cat)["exit_code"], 0)

    def test_keys_that_signal(self):
        sleep = self.open("sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done")
        self.see(sleep, "ready")
        self.type(sleep, "\x03")
        self.assertEqual(self.session.wait(sleep)["exit_code"], 3)
        other = self.open("sh", "-c", "trap 'exit 4' USR1; echo ready; while :; do sleep 0.05; done")
        self.see(other, "ready")
        self.session.signal(other, "SIGUSR1")
        self.assertEqual(self.session.wait(other)["exit_code"], 4)
        killed = self.open("sleep", "1000")
        harness.wait_for("its start", lambda: self.session.get(killed)["status"] == "running")
        harness.wait_for("its end", lambda: self.session.signal(killed, "SIGKILL").status == 409)
        self.assertEqual(self.session.wait(killed)["signal"], "SIGKILL")
        self.assertEqual(self.session.sleeping(1000), [0])

    def test_job_control(self):
        shell = self.open("bash", "--norc", "--noprofile", "-i")
        self.type(shell, "PS1='> '; set -o monitor; sleep 1000\n")
        harness.wait_for("sleep", lambda: self.session.sleeping(1000) == [1])
        self.type(shell, "\x1a")
        self.see(shell, "Stopped")
        self.type(shell, "jobs\nbg\nkill %1\nwait\necho over-$?\n")
        self.see(shell, "over-")
        self.type(shell, "exit 5\n")
        self.assertEqual(self.session.wait(shell)["exit_code"], 5)
        self.assertNotIn("no job control", self.session.get(shell)["stdout"])

    def test_hangup_at_the_end(self):
        done = self.run_one("bash", "--norc", "-c", "sh -c 'trap \"echo hup > /workspace/hup; exit\" HUP; while :; do sleep 0.05; done' & "
                            "until ps x >/dev/null 2>&1 || true; do :; done; sleep 0.3")
        self.assertEqual(done["exit_code"], 0)
        harness.wait_for("SIGHUP", lambda: self.session.call("GET", "/files/hup").status == 200)

    def test_resize(self):
        program = ("import fcntl, os, signal, struct, sys, termios\n"
                   "def size(*_): print(*struct.unpack('HHHH', fcntl.ioctl(0, termios.TIOCGWINSZ, b'x' * 8))[:2], flush=True)\n"
                   "signal.signal(signal.SIGWINCH, size); size()\n"
                   "while True: signal.pause()")
        execution = self.open("python3", "-c", program)
        self.see(execution, "24 80\r\n")
        self.assertEqual(self.resize(execution, cols=132, rows=50).status, 200)
        self.see(execution, "50 132\r\n")
        for size in ({"cols": 0}, {"rows": 5000}, {"x": 1}, {"cols": "a"}):
            self.assertIn(self.resize(execution, **size).status, (400, 422), size)
        self.session.cancel(execution)
        self.assertEqual(self.resize(execution, cols=10).status, 409)
        plain = self.session.start("sleep 1000")
        harness.wait_for("its start", lambda: self.session.get(plain)["status"] == "running")
        self.assertEqual(self.resize(plain, cols=10).status, 409)
        self.session.cancel(plain)

    def test_bad_requests(self):
        for tty in ({"cols": 0}, {"rows": 4097}, {"width": 1}, [80, 24], True):
            self.assertIn(self.session.post("true", tty=tty).status, (400, 422), tty)

    def test_python(self):
        python = self.open("python3", "-q")
        self.see(python, ">>> ")
        self.type(python, "6 * 7\n")
        self.see(python, "42\r\n")
        self.type(python, "\x04")
        self.assertEqual(self.session.wait(python)["exit_code"], 0)

    def test_vim_edits_a_file(self):
        machine.need_program(self, "vi")
        vim = self.open("vi", "-u", "NONE", "/workspace/edited.txt")
        self.see(vim, "edited.txt")
        self.type(vim, "ihello from vim\x1b")
        self.see(vim, "hello from vim")
        self.type(vim, ":wq\r")
        self.assertEqual(self.session.wait(vim)["exit_code"], 0)
        self.assertEqual(self.session.call("GET", "/files/edited.txt", status=200).text, "hello from vim\n")


class Streams(TerminalTest):
    def socket(self, execution, after=None):
        path = f"/v1/executions/{execution}/events" + (f"?last_event_id={after}" if after else "")
        return WebSocket(self.server.host, self.server.port, path, {"Authorization": f"Bearer {self.server.key}"}, timeout=20)

    def until(self, ws, wanted):
        """Output up to `wanted` → the output, and the last event's id."""
        text = ""
        while wanted not in text:
            opcode, payload = ws.receive()
            if opcode != TEXT:
                continue
            message = json.loads(payload)
            if message["type"] == "stdout":
                text += base64.b64decode(message["data"]).decode()
                last = message["id"]
        return text, last

    def say(self, ws, **message):
        ws.send(TEXT, json.dumps(message).encode())

    def test_duplex_and_reconnect(self):
        shell = self.open("bash", "--norc", "--noprofile", "-i")
        with self.socket(shell) as ws:
            self.say(ws, type="input", data="echo one-$((1+1))\n")
            _, last = self.until(ws, "one-2\r\n")
            self.say(ws, type="resize", cols=111, rows=22)
            self.say(ws, type="input", data=base64.b64encode(b"stty size\n").decode(), encoding="base64")
            self.until(ws, "22 111\r\n")
        with self.socket(shell) as again:  # with the earlier output
            self.assertIn("one-2", self.until(again, "22 111\r\n")[0])
        with self.socket(shell, last) as after:  # from the former position
            self.assertNotIn("one-2\r\n", self.until(after, "22 111\r\n")[0])
            self.say(after, type="input", data="exit\n")
            self.assertEqual(self.session.wait(shell)["exit_code"], 0)

    def test_what_is_no_message_ends_the_socket(self):
        shell = self.open("cat")
        for message in (b"hello", b"[]", b'{"type":"x"}', b'{"type":"resize","cols":0}', b'{"type":"input","data":1}'):
            with self.subTest(message), self.socket(shell) as ws:
                ws.send(TEXT, message)
                opcode = 0
                while opcode != 8:
                    opcode, payload = ws.receive()
                self.assertEqual(struct.unpack(">H", payload[:2])[0], 1008)

    def test_keeps_the_last_output(self):
        done = self.run_one("seq", "1", "100000", max_output_bytes=10000)
        self.assertTrue(done["stdout_truncated"])
        self.assertTrue(done["stdout"].endswith("99999\r\n100000\r\n"))
        self.assertGreaterEqual(len(done["stdout"]), 10000)
        self.assertLess(len(done["stdout"]), 20000)


class Isolation(TerminalTest):
    def test_nothing_can_be_typed_for_others(self):
        """P16: TIOCSTI, TIOCLINUX, TIOCSETD on the terminal."""
        done = self.run_one("python3", "-c",
                            "import fcntl, errno\n"
                            "for name, number, arg in (('STI', 0x5412, b'x'), ('LINUX', 0x541C, b'\\x03'), ('SETD', 0x5423, b'\\0\\0\\0\\0')):\n"
                            "    try: fcntl.ioctl(0, number, arg); print(name, 'ok')\n"
                            "    except OSError as e: print(name, errno.errorcode[e.errno])")
        self.assertNotIn("ok", done["stdout"])
        self.assertEqual(len(re.findall(r" E[A-Z]+", done["stdout"])), 3, done["stdout"])

    def test_terminals_are_of_one_sandbox(self):
        mine = self.open("cat")
        harness.wait_for("its start", lambda: self.session.get(mine)["status"] == "running")
        self.assertRegex(self.session.exec("ls /dev/pts")["stdout"], r"\d")
        with Session(self.server, language="bash") as other:
            self.assertEqual(other.exec("ls /dev/pts")["stdout"].split(), ["ptmx"])

    def test_no_descriptors_are_left(self):
        """P20: a program on a terminal has its three streams and nothing else."""
        done = self.run_one("python3", "-c", "import os; print(sorted(os.listdir('/proc/self/fd'))[:4])")
        self.assertIn("['0', '1', '2', '3']", done["stdout"])  # 3 is the listing's own
        held = self.run_one("python3", "-c", "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in range(3)])")
        self.assertRegex(held["stdout"], r"\['/dev/pts/(\d+)', '/dev/pts/\1', '/dev/pts/\1'\]")

    def test_ptys_are_bounded(self):
        done = self.session.exec("import pty\nn = 0\ntry:\n    while True: pty.openpty(); n += 1\nexcept OSError as e: print(n)", language="python")
        self.assertLessEqual(int(done["stdout"]), 64)

    def test_time_over_ends_all_of_it(self):
        done = self.run_one("bash", "-c", "trap '' HUP TERM INT; sleep 1000 & sleep 1000", timeout_seconds=0.5)
        self.assertEqual(done["status"], "timed_out")
        self.assertEqual(self.session.sleeping(1000), [0])


class Shell(TerminalTest):
    """`cloister shell` on a terminal of this test's own."""

    def start(self, *args):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
        self.before = termios.tcgetattr(theirs)
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key, "TERM": "vt100"}
        self.program = subprocess.Popen(
            [self.server.bin / "cloister", "shell", *args], env=env, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.ours, self.theirs, self.text = ours, theirs, ""
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        self.addCleanup(self.program.kill)

    def expect(self, wanted, seconds=30):
        end = time.monotonic() + seconds
        while wanted not in self.text:
            ready, _, _ = select.select([self.ours], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"{wanted!r} not in {self.text!r}")
            self.text += os.read(self.ours, 65536).decode(errors="replace")
        self.text = self.text.split(wanted, 1)[1]

    def keys(self, text):
        os.write(self.ours, text.encode())

    def ended(self, status):
        self.assertEqual(self.program.wait(20), status)
        self.assertEqual(termios.tcgetattr(self.theirs), self.before, "the terminal is as it was")

    def test_in_a_session(self):
        self.start(self.session.id)
        self.keys("stty size; echo $TERM\r")
        self.expect("30 90\r\n")
        self.expect("vt100\r\n")
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.keys("until [ \"$(stty size)\" = '40 100' ]; do :; done; echo resi''zed\r")
        self.expect("resized\r\n")
        self.keys("exit 6\r")
        self.ended(6)

    def test_of_its_own(self):
        def sessions():
            return {s["id"] for s in self.server.request("GET", "/v1/sessions?status=running").json()["sessions"]}
        before = sessions()
        self.start("--", "python3", "-q")
        self.expect(">>> ")
        self.keys("print(6 * 7)\r")
        self.expect("42\r\n")
        self.assertEqual(len(sessions() - before), 1)
        self.keys("\x04")
        self.ended(0)
        self.assertEqual(sessions(), before)

    def test_terminated(self):
        self.start(self.session.id, "--", "sleep", "1000")
        harness.wait_for("its start", lambda: self.session.sleeping(1000) == [1])
        self.program.send_signal(signal.SIGTERM)
        self.program.wait(20)
        self.assertEqual(termios.tcgetattr(self.theirs), self.before)
        harness.wait_for("its end", lambda: self.session.sleeping(1000) == [0])

    def test_needs_a_terminal(self):
        done = self.server.cli("shell", self.session.id, input="")
        self.assertEqual(done.returncode, 125)
        self.assertIn("not a terminal", done.stderr)


if __name__ == "__main__":
    unittest.main()
