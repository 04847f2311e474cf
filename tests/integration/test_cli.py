#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command line: `run` with and without a server, exit statuses, records, keys, audit."""

import contextlib
import json
import os
import pathlib
import pty
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import harness
from harness import wait_for

SEGFAULT = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
HOG = "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1"
FOREVER = "import time\nprint('first', flush=True)\nwhile True: time.sleep(1)"


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cli-test."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def cli(self, *args, **options):
        options.setdefault("input", b"" if options.get("text") is False else "")
        return self.server.cli(*args, **options)

    def good(self, *args, **options):
        done = self.cli(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def start(self, *args, **options):
        """Popen of the command line against the server."""
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url,
               "CLOISTER_API_KEY": self.server.key, **options.pop("env", {})}
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([str(harness.BIN / "cloister"), *map(str, args)], env=env, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def newest(self):
        return json.loads(self.good("execution", "list", "--limit", "1", "--json"))["executions"][0]


class Run(WithServer):
    def test_exit_statuses(self):
        cases = [
            ((), "print(1)", 0),
            ((), "import sys; sys.exit(3)", 3),
            ((), "raise SystemExit(255)", 255),
            (("--timeout", "1"), FOREVER, 124),
            (("--memory", "64"), HOG, 137),
            ((), SEGFAULT, 139),
            (("--network", "internet"), "print(1)", 125),
            (("--language", "cobol"), "print(1)", 125),
            (("--timeout", "0"), "print(1)", 125),
        ]
        for flags, code, status in cases:
            with self.subTest(code=code, flags=flags):
                done = self.cli("run", *flags, "-c", code)
                self.assertEqual(done.returncode, status, done.stderr)
                # Silent when the program had its say, otherwise at least why.
                self.assertEqual("cloister:" in done.stderr, status > 123 and status != 255, done.stderr)

    def test_input_output_and_arguments(self):
        self.assertEqual(self.good("run", "-c", "print(input())", input="hi\n"), "hi\n")
        done = self.cli("run", "-c", "import sys; print('o'); print('e', file=sys.stderr)")
        self.assertEqual((done.stdout, done.stderr), ("o\n", "e\n"))
        out = self.good("run", "-c", "import sys; print(sys.argv[1:])", "--", "-x", "two words", "--json")
        self.assertEqual(out, "['-x', 'two words', '--json']\n")
        self.assertEqual(self.good("run", "-", input="print('from stdin')"), "from stdin\n")
        self.assertEqual(self.good("run", "-e", "A=b=c", "-c", "import os; print(os.environ['A'])"), "b=c\n")

    def test_bytes_pass_unchanged(self):
        every = bytes(range(256)) * 300
        code = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.stderr.buffer.write(d[::-1])"
        done = self.cli("run", "-c", code, input=every, text=False)
        self.assertEqual(done.stdout, every)
        self.assertEqual(done.stderr, every[::-1])

    def test_files_and_languages(self):
        script = self.folder / "hello.sh"
        script.write_text("echo shell $1; cat data.txt; cat sub/other; ./tool")
        (self.folder / "data.txt").write_text("data\n")
        tool = self.folder / "tool"
        tool.write_text("#!/bin/sh\necho tool\n")
        tool.chmod(0o755)
        out = self.good("run", script, "-f", self.folder / "data.txt",
                        "-f", f"{self.folder}/data.txt:sub/other", "-f", tool, "--", "one")
        self.assertEqual(out, "shell one\ndata\ndata\ntool\n")

    def test_artifacts_are_downloaded(self):
        out = self.folder / "out"
        code = ("import os; os.makedirs('a/b'); open('a/b/x.bin','wb').write(bytes(range(256)));"
                "open('y.txt','w').write('y')")
        self.good("run", "-c", code, "--out", out)
        self.assertEqual((out / "a/b/x.bin").read_bytes(), bytes(range(256)))
        self.assertEqual((out / "y.txt").read_text(), "y")
        self.good("run", "-c", code, "--artifacts", "*.txt", "--out", self.folder / "some")
        self.assertEqual([p.name for p in (self.folder / "some").rglob("*")], ["y.txt"])

    def test_json_is_the_result_alone(self):
        done = self.cli("run", "--json", "-c", "import sys; print('x'); sys.exit(4)")
        self.assertEqual(done.returncode, 4)
        result = json.loads(done.stdout)
        self.assertEqual((result["status"], result["exit_code"], result["stdout"]), ("completed", 4, "x\n"))
        self.assertEqual(done.stderr, "")

    def test_dry_run_prints_the_plan_and_runs_nothing(self):
        before = self.newest()["id"] if json.loads(self.good("execution", "list", "--json"))["executions"] else None
        text = self.good("run", "--dry-run", "-c", "print(1)")
        plan = json.loads(self.good("run", "--dry-run", "--json", "--memory", "77", "-c", "print(1)"))
        self.assertTrue(text.startswith("allow: "), text)
        self.assertEqual(plan["requested_limits"]["memory_bytes"], 77 << 20)
        after = json.loads(self.good("execution", "list", "--json"))["executions"]
        self.assertEqual(after[0]["id"] if after else None, before)

    def test_output_streams_as_it_comes(self):
        process = self.start("run", "-c", FOREVER)
        self.assertEqual(process.stdout.readline(), b"first\n")
        self.assertIsNone(process.poll())

    def test_signals_cancel(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(number):
                process = self.start("run", "-c", FOREVER)
                process.stdout.readline()
                running = self.newest()
                process.send_signal(number)
                self.assertEqual(process.wait(20), status)
                self.assertEqual(self.server.wait_end(running["id"])["status"], "cancelled")

    def test_a_signal_before_the_answer_cancels_too(self):
        done = self.server.run("print(1)")  # so that the newest is another execution
        process = self.start("run", "--json", "-c", FOREVER)
        running = wait_for("its execution", lambda: (lambda e: e["id"] != done["id"] and e)(self.newest()))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        self.assertEqual(self.server.wait_end(running["id"])["status"], "cancelled")

    def test_a_signal_while_stdin_is_read(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, write_end)
        process = self.start("run", "-c", "print(1)", stdin=read_end)
        os.close(read_end)
        wait_for("its signal mask", lambda: blocked(process.pid) & (1 << (signal.SIGINT - 1)))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10), 130)

    def test_a_reader_that_leaves_cancels(self):
        read_end, write_end = os.pipe()
        process = self.start("run", "-c", "while True: print('y' * 1000)", stdout=write_end)
        os.close(write_end)
        os.read(read_end, 1)
        running = self.newest()
        os.close(read_end)
        self.assertEqual(process.wait(20), 141)
        self.assertEqual(self.server.wait_end(running["id"])["status"], "cancelled")

    def test_refusals_say_what_to_do(self):
        done = self.cli("run", "-c", "1", env={"CLOISTER_API_KEY": "clo_wrong"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("CLOISTER_API_KEY", done.stderr)
        done = self.cli("run", "-c", "1", env={"CLOISTER_URL": f"http://127.0.0.1:{harness.free_port()}"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("Connection refused", done.stderr)
        for args in (["run"], ["run", "-c", "1", "file.py"], ["run", "/nonexistent.py"],
                     ["run", "--memory", "much", "-c", "1"]):
            self.assertEqual(self.cli(*args).returncode, 125, args)

    def test_a_pipe_gets_all_or_is_told(self):
        code = "import sys; print('x' * (3 << 20)); print('e' * (2 << 20), file=sys.stderr); sys.exit(%d)"
        for status in (0, 3):
            done = self.cli("run", "-c", code % status)
            self.assertEqual((done.returncode, len(done.stdout), len(done.stderr)), (status, (3 << 20) + 1, (2 << 20) + 1))
        told = self.cli("run", "--json", "-c", code % 0)
        self.assertEqual((told.returncode, json.loads(told.stdout)["stdout_truncated"]), (0, True))

    def test_the_control_plane_may_die_meanwhile(self):
        process = self.start("run", "-c", FOREVER)
        process.stdout.readline()
        os.kill(self.server.pid_of("cloisterd"), signal.SIGKILL)
        self.assertEqual(process.wait(60), 125)
        self.assertIn(b"cloister: the run was stopped", process.stderr.read())
        self.server.wait_ready()


class OnATerminal(WithServer):
    def on_terminal(self, *args, env=None, typed=True):
        """The output on a terminal that is stdout and stderr, and stdin if `typed`."""
        main, other = pty.openpty()
        process = self.start(*args, stdin=other if typed else subprocess.DEVNULL, stdout=other, stderr=other, env={"TERM": "xterm", **(env or {})})
        os.close(other)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while piece := os.read(main, 65536):
                seen += piece
        os.close(main)
        return process.wait(30), seen

    def test_control_sequences_are_shown_not_obeyed(self):
        code = r"print('\x1b]52;c;cm0gLXJm\x07 \x1b[31mred\x1b[0m')"
        status, seen = self.on_terminal("run", "-c", code)
        self.assertEqual(status, 0)
        self.assertNotIn(b"\x1b]52", seen)
        self.assertIn(b"^[]52;c;cm0gLXJm^G", seen)
        self.assertIn(b"\x1b[31mred\x1b[0m", seen)
        self.assertIn(b"\x1b]52", self.on_terminal("run", "--raw", "-c", code)[1])

    def test_progress_and_colour_on_a_terminal_only(self):
        code = "import time; time.sleep(1.5); print('done')"
        status, seen = self.on_terminal("run", "-c", code, typed=False)
        self.assertEqual(status, 0)
        self.assertIn(b"running", seen)
        self.assertTrue(seen.endswith(b"\x1b[Kdone\r\n"), seen)
        done = self.cli("run", "-c", code)
        self.assertEqual((done.stdout, done.stderr), ("done\n", ""))

    def test_no_color(self):
        self.assertIn(b"\x1b[31m", self.on_terminal("run", "--wrong")[1])
        self.assertNotIn(b"\x1b[31m", self.on_terminal("run", "--wrong", env={"NO_COLOR": "1"})[1])
        self.assertNotIn("\x1b", self.cli("run", "--wrong").stderr)


class Records(WithServer):
    def test_executions(self):
        self.cli("run", "-c", "print('one'); print('two'); raise SystemExit(5)")
        newest = self.newest()
        self.assertEqual(newest["exit_code"], 5)
        identifier = newest["id"]
        self.assertIn(identifier, self.good("execution", "list"))
        self.assertIn("exit_code: 5", self.good("execution", "show", identifier))
        self.assertEqual(json.loads(self.good("execution", "show", identifier, "--json"))["stdout"], "one\ntwo\n")
        self.assertEqual(self.good("execution", "logs", identifier), "one\ntwo\n")
        self.assertEqual(self.good("execution", "logs", identifier, "--tail", "1"), "two\n")
        self.assertEqual(self.good("execution", "logs", identifier, "--stream", "stderr"), "")
        watched = self.cli("execution", "watch", identifier)
        self.assertEqual((watched.returncode, watched.stdout), (5, "one\ntwo\n"))
        self.assertIn("completed", self.good("execution", "cancel", identifier))
        request = json.loads(self.good("execution", "request", identifier))
        self.assertEqual(request["code"], "print('one'); print('two'); raise SystemExit(5)")
        missing = self.cli("execution", "show", "exec_none")
        self.assertEqual(missing.returncode, 4)
        self.assertIn("there is no execution exec_none; check the id", missing.stderr)

    def test_watch_and_cancel_a_running_one(self):
        runner = self.start("run", "-c", FOREVER)
        runner.stdout.readline()
        identifier = self.newest()["id"]
        watcher = self.start("execution", "watch", identifier)
        self.assertEqual(watcher.stdout.readline(), b"first\n")
        left = self.start("execution", "watch", identifier)
        left.stdout.readline()
        left.send_signal(signal.SIGINT)
        self.assertEqual(left.wait(10), 130)
        self.assertEqual(self.server.get(identifier)["status"], "running")  # watching holds nothing
        self.good("execution", "cancel", identifier)
        self.assertEqual(watcher.wait(20), 125)
        self.assertEqual(runner.wait(20), 125)

    def test_list_pages_through_everything(self):
        for _ in range(3):
            self.cli("run", "-c", "print(1)")
        rows = json.loads(self.good("execution", "list", "--limit", "100000", "--json"))["executions"]
        identifiers = [row["id"] for row in rows]
        self.assertGreaterEqual(len(identifiers), 3)
        self.assertEqual(sorted(set(identifiers), reverse=True), identifiers)
        self.assertEqual(len(json.loads(self.good("execution", "list", "--limit", "2", "--json"))["executions"]), 2)
        failed = json.loads(self.good("execution", "list", "--status", "failed", "--json"))["executions"]
        self.assertTrue(all(row["status"] == "failed" for row in failed))

    def test_keys(self):
        made = self.cli("key", "create", "--tenant", "acme", "--name", "ci", "--agent", "bot")
        secret = made.stdout.strip()
        self.assertRegex(secret, r"^clo_[0-9a-z]{26,64}$")
        self.assertNotIn(secret, made.stderr)
        mine = {"CLOISTER_API_KEY": secret}
        done = self.cli("run", "--json", "-c", "print(1)", env=mine)
        self.assertEqual(json.loads(done.stdout)["principal"],
                         {"tenant": "acme", "app": "", "agent": "bot", "user": ""})
        listed = self.good("key", "list")
        self.assertIn("acme", listed)
        self.assertNotIn(secret, listed)
        self.assertEqual(self.cli("key", "list", env=mine).returncode, 3)  # not an administrator
        identifier = [row["id"] for row in json.loads(self.good("key", "list", "--json"))["keys"]
                      if row["name"] == "ci"][0]
        self.good("key", "revoke", identifier)
        self.assertEqual(self.cli("run", "-c", "print(1)", env=mine).returncode, 125)
        key_file = self.folder / "key"
        key_file.write_text(self.server.key + "\n")
        self.good("key", "list", "--key-file", key_file, env={"CLOISTER_API_KEY": "clo_wrong"})

    def test_audit(self):
        self.cli("run", "-c", "print(1)")
        self.assertTrue(self.good("audit", "verify").startswith("ok: "))
        self.assertTrue(json.loads(self.good("audit", "verify", "--json"))["ok"])
        lines = self.good("audit", "list", "--action", "execution.*", "--limit", "1000").splitlines()
        for line in lines:
            self.assertRegex(line, r"^\d+  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  \S+ .*exec_")
        number = int(lines[0].split()[0])  # which --before takes
        self.assertEqual(self.good("audit", "list", "--before", str(number + 1), "--limit", "1").split()[0], str(number))
        none = self.cli("audit", "list", "--action", "exection.*")
        self.assertEqual((none.returncode, none.stdout, none.stderr), (0, "", "no entries; did you mean execution.*?\n"))
        newest, oldest = (json.loads(self.good("audit", "list", "--json", "--limit", "3", *more))["entries"]
                          for more in ((), ("--oldest-first",)))
        self.assertEqual([entry["position"] for entry in oldest], [1, 2, 3])
        self.assertGreater(newest[0]["position"], newest[1]["position"])
        self.assertEqual(json.loads(self.good("audit", "list", "--json", "--before", "3"))["entries"], oldest[1::-1])
        self.assertIn("--before: not together", self.cli("audit", "list", "--before", "3", "--after", "1").stderr)
        rows = [json.loads(line) for line in self.good("audit", "export").splitlines()]
        self.assertEqual([row["position"] for row in rows], list(range(1, len(rows) + 1)))
        after = [json.loads(line) for line in self.good("audit", "export", "--after", "1").splitlines()]
        self.assertEqual(after[0]["position"], 2)

    def test_doctor(self):
        text = self.good("doctor")
        self.assertIn("runs are possible here", text)
        self.assertIn("python", text)
        self.assertTrue(json.loads(self.good("doctor", "--json"))["connected"])


class WithoutServer(unittest.TestCase):
    """A private server for a single command, with nothing left afterwards."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cli-test."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.home = self.folder / "home"
        self.home.mkdir()
        self.folder.chmod(0o755)

    def start(self, *args, user=False):
        identity = {"user": harness.USER_ID, "group": harness.USER_ID, "extra_groups": []} if user else {}
        if user:
            for folder in (self.temporary, self.home):
                os.chown(folder, harness.USER_ID, harness.USER_ID)
        program = (harness.user_bin() if user else harness.BIN) / "cloister"
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.temporary)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        process = subprocess.Popen([program, *args, "--state", str(self.temporary / "none")], env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **identity)
        self.addCleanup(WithServer.end, process)
        return process

    def run_one(self, *args, user=False):
        process = self.start(*args, user=user)
        out, error = process.communicate(timeout=90)
        return process.returncode, out, error

    def assertNothingLeft(self):
        wait_for("the temporary directory to be empty", lambda: not list(self.temporary.iterdir()), 15)

    def test_it_comes_and_goes(self):
        with harness.leakcheck():
            self.assertEqual(self.run_one("run", "-c", "print('alone')"), (0, b"alone\n", b""))
            self.assertNothingLeft()

    def test_statuses_pass(self):
        for args, wanted in ((("-c", "raise SystemExit(3)"), 3), (("--timeout", "1", "-c", FOREVER), 124),
                             (("-c", SEGFAULT), 139), (("-l", "cobol", "-c", "1"), 125)):
            self.assertEqual(self.run_one("run", *args)[0], wanted)
            self.assertNothingLeft()

    def test_interrupted(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = self.start("run", "-c", FOREVER)
            process.stdout.readline()
            tree = harness.descendants(process.pid)
            process.send_signal(number)
            self.assertEqual(process.wait(30), status)
            self.assertEqual([p for p in tree[1:] if os.path.exists(f"/proc/{p}/root")], [])
            self.assertNothingLeft()

    def test_interrupted_while_it_starts(self):
        process = self.start("run", "-c", FOREVER)
        wait_for("its directory", lambda: list(self.temporary.iterdir()))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 130)
        self.assertNothingLeft()

    def test_killed(self):
        with harness.leakcheck():
            process = self.start("run", "-c", FOREVER)
            process.stdout.readline()
            tree = harness.descendants(process.pid)
            process.kill()
            process.wait()
            wait_for("its processes to end", lambda: not harness.alive(tree[1:]), 20)
            self.assertNothingLeft()

    def test_its_server_is_killed(self):
        process = self.start("run", "-c", FOREVER)
        process.stdout.readline()
        server = [p for p in harness.descendants(process.pid)[1:] if harness.program_of(p) == "cloister"][0]
        os.kill(server, signal.SIGKILL)
        self.assertEqual(process.wait(90), 125)
        self.assertNothingLeft()

    @unittest.skipUnless(harness.ROOT, "started by an ordinary user: every other test is this one")
    def test_as_an_ordinary_user(self):
        status, out, error = self.run_one("run", "-c", "import os; print(os.getuid())", user=True)
        self.assertEqual((status, out), (0, b"1000\n"), error)
        self.assertNothingLeft()

    def test_doctor(self):
        status, out, _ = self.run_one("doctor")
        self.assertEqual(status, 0)
        self.assertIn(b"runs are possible here", out)
        self.assertNothingLeft()

    def test_a_broken_installation_is_explained(self):
        (self.folder / "bin").mkdir()
        shutil.copy2(harness.BIN / "cloister", self.folder / "bin/cloister")
        done = subprocess.run([self.folder / "bin/cloister", "run", "-c", "1", "--state", self.folder / "none"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={"TMPDIR": str(self.temporary)})
        self.assertEqual(done.returncode, 125)
        self.assertIn("cloister-egress: No such file", done.stderr)
        self.assertNothingLeft()

    def test_other_commands_want_a_server(self):
        for args in (("execution", "list"), ("key", "list"), ("audit", "verify")):
            status, _, error = self.run_one(*args)
            self.assertEqual(status, 125)
            self.assertIn(b"cloister serve", error)


class HostileServer(unittest.TestCase):
    """Whatever a server answers, the command ends soon, and the admin key stays here."""

    def ask(self, answer, *args):
        received = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        peer, _ = listener.accept()
                        with peer, contextlib.suppress(OSError):
                            received.append(peer.recv(65536))
                            answer(peer, received[-1])

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            env = {"CLOISTER_URL": f"http://127.0.0.1:{listener.getsockname()[1]}"}
            done = harness.cli(*args, env=env, input="", timeout=60, text=False)
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
        return done, b"".join(received)

    def test_nonsense(self):
        def http(body, kind="application/json", status="201 Created"):
            return (f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
                    .encode() + body)

        for answer in (b"", b"\0" * 100_000, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000,
                       http(b"[]"), http(b"{"), http(b"[" * 100_000), http(b"{}", status="500 X"),
                       http(b'{"id":"x","status":"completed","exit_code":"0"}'),
                       b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n"):
            done, _ = self.ask(lambda peer, _, answer=answer: peer.sendall(answer), "run", "-c", "1")
            self.assertEqual(done.returncode, 125, answer[:100])

    def test_an_endless_answer(self):
        def flood(peer, _):
            peer.sendall(b"HTTP/1.1 201 Created\r\n\r\n")
            while True:
                peer.sendall(b"x" * 65536)

        done, _ = self.ask(flood, "run", "-c", "1")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"too large", done.stderr)

    def test_its_words_are_made_harmless(self):
        body = json.dumps({"error": {"message": "\x1b]0;title\x07\nroot# "}}).encode()
        answer = b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        done, _ = self.ask(lambda peer, _: peer.sendall(answer), "run", "-c", "1")
        self.assertEqual(done.returncode, 125)
        self.assertNotIn(b"\x1b", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_output_that_is_not_whole_is_no_success(self):
        def ended_with(code, total):
            body = json.dumps({"id": "exec_x", "status": "completed", "exit_code": code, "signal": None, "artifacts": [],
                               "stdout_bytes": total, "stderr_bytes": 0, "stdout_truncated": total > 2})
            out = json.dumps({"offset": 0, "data": "aGk="})

            def answer(peer, request):
                said = (f"event: stdout\ndata: {out}\n\nevent: status\ndata: {body}\n\n" if b"/events" in request
                        else json.dumps({"id": "exec_x", "status": "running"}))
                peer.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode())

            return answer

        for (code, total), status in {(0, 2): 0, (0, 3): 125, (4, 3): 4}.items():
            done, _ = self.ask(ended_with(code, total), "run", "-c", "1")
            self.assertEqual((done.returncode, done.stdout), (status, b"hi"))
            self.assertEqual(b"stdout was cut off" in done.stderr, total > 2)

    def test_artifacts_stay_in_their_directory(self):
        def ended_with(path):
            body = json.dumps({"id": "exec_x", "status": "completed", "exit_code": 0, "signal": None,
                               "artifacts": [{"id": "art_x", "path": path, "sha256": ""}]})

            def answer(peer, request):
                said = f"event: status\ndata: {body}\n\n" if b"/events" in request else body
                peer.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode())

            return answer

        with tempfile.TemporaryDirectory(prefix="cli-test.") as folder:
            for path in ("../evil", f"{folder}/evil", "a/../../evil"):
                done, _ = self.ask(ended_with(path), "run", "-c", "1", "--out", f"{folder}/out")
                self.assertEqual(done.returncode, 125)
                self.assertIn(b"not a safe relative path", done.stderr)
            self.assertEqual(os.listdir(folder), ["out"])
            self.assertEqual(os.listdir(f"{folder}/out"), [])

    def test_the_admin_key_is_not_sent_elsewhere(self):
        with harness.Server() as server:
            done, received = self.ask(lambda peer, _: None, "execution", "list", "--state", server.state)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"GET /v1/executions", received)
            self.assertNotIn(server.key.encode(), received)
            # While the state's own server gets the key, silently.
            listed = harness.cli("execution", "list", "--state", server.state)
            self.assertEqual(listed.returncode, 0, listed.stderr)


class Itself(unittest.TestCase):
    def test_version_and_help(self):
        self.assertRegex(harness.cli("version").stdout, r"^cloister \d+\.\d+\.\d+\n$")
        self.assertIn("version", json.loads(harness.cli("version", "--json").stdout))
        for args in (["--help"], ["run", "--help"], ["help", "run"], ["execution", "list", "-h"]):
            done = harness.cli(*args)
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)
        self.assertEqual(harness.cli().returncode, 2)
        self.assertIn("did you mean `cloister execution`", harness.cli("exection").stderr)

    def test_bash_completes(self):
        script = harness.cli("completion", "bash").stdout
        for line, wanted in (("execu", "execution"), ("execution ca", "cancel"), ("session cr", "create"),
                             ("run --mem", "--memory"), ("key create --ten", "--tenant"), ("poo", "pool"), ("pool --wa", "--watch"), ("--js", "--json"),
                             ("agen", "agent"), ("agent cr", "create"), ("sandb", "sandbox"), ("sandbox cr", "create"),
                             ("sandbox create --le", "--level")):
            words = line.split(" ")
            typed = " ".join(f"'{word}'" for word in [harness.BIN / "cloister", *words])
            ask = f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}; _cloister; echo \"${{COMPREPLY[*]}}\""
            done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
            self.assertEqual(done.stdout.strip(), wanted, done.stderr)

    def test_other_shells_accept_their_scripts(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell):
                script = harness.cli("completion", shell).stdout
                self.assertIn("cloister", script)
                if shutil.which(shell) is None:
                    self.skipTest(f"{shell} is not installed")
                checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
                self.assertEqual(checked.returncode, 0, checked.stderr)


def blocked(pid):
    """The signals a process blocks, as a bit mask."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigBlk:"):
            return int(line.split()[1], 16)
    return 0


if __name__ == "__main__":
    unittest.main()
