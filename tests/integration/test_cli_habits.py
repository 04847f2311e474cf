#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as users of Docker, kubectl and gh expect it: formats, tables, units, aliases, completion, and
programs that a person types to."""

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

import yaml

import harness
from harness import wait_for

LONG = "x" * 120


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
        options.setdefault("input", "")
        return self.server.cli(*args, **options)

    def good(self, *args, **options):
        done = self.cli(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def json(self, *args):
        return json.loads(self.good(*args, "--json"))

    def session(self, *flags):
        session = self.good("session", "create", *flags).strip()
        self.addCleanup(self.cli, "session", "end", session)
        return session

    @contextlib.contextmanager
    def terminal(self, *args, columns=80):
        """A command whose stdin, stdout and stderr are a terminal."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key,
               "TERM": "dumb"}
        process = subprocess.Popen([str(harness.BIN / "cloister"), *map(str, args)], env=env, stdin=other, stdout=other,
                                   stderr=other, start_new_session=True)
        os.close(other)
        try:
            yield Typing(process, main)
        finally:
            process.kill()
            process.wait()
            os.close(main)


class Typing:
    """The person at a terminal."""

    def __init__(self, process, fd):
        self.process, self.fd, self.seen = process, fd, b""

    def read(self):
        """False at the end."""
        if not select.select([self.fd], [], [], harness.limit(30))[0]:
            raise AssertionError(f"the terminal is silent after {self.seen!r}")
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            piece = os.read(self.fd, 65536)
            self.seen += piece
            return bool(piece)
        return False

    def expect(self, text):
        while text not in self.seen:
            if not self.read():
                raise AssertionError(f"no {text!r} in {self.seen!r}")

    def type(self, text):
        os.write(self.fd, text)

    def end(self):
        while self.read():
            pass
        return self.process.wait(harness.limit(30))


class Formats(WithServer):
    def test_yaml_has_what_json_has(self):
        session = self.session("--metadata", "note=yes: and\n- no", "--metadata", "number=017")
        shown = self.json("session", "show", session)
        self.assertEqual(yaml.safe_load(self.good("session", "show", session, "-o", "yaml")), shown)
        self.assertEqual(json.loads(self.good("session", "show", session, "-o", "json")), shown)
        self.assertEqual(yaml.safe_load(self.good("-o", "yaml", "session", "list"))["sessions"][0]["id"], session)
        done = self.cli("run", "-o", "yaml", "-c", "print('a: b')")
        self.assertEqual(yaml.safe_load(done.stdout)["stdout"], "a: b\n")

    def test_quiet_prints_ids_alone(self):
        one, two = self.session(), self.session()
        listed = self.good("session", "ls", "-q", "--status", "running").split()
        self.assertEqual(sorted(listed), sorted([one, two]))
        self.assertEqual(self.good("session", "show", one, "--quiet"), one + "\n")
        self.assertEqual(self.good("session", "end", "-q", one, two), f"{one}\n{two}\n")
        self.cli("secret", "set", "TOKEN", input="a long value")
        self.assertEqual(self.good("secret", "list", "-q"), "TOKEN\n")
        self.assertEqual(self.good("session", "files", self.session(), "-q"), "")

    def test_a_quiet_run_has_only_its_own_output(self):
        code = "import os; print('here', flush=True); os.kill(os.getpid(), 11)"
        self.assertIn("killed by SIGSEGV", self.cli("run", "-c", code).stderr)
        done = self.cli("run", "-q", "-c", code)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (139, "here\n", ""))

    def test_wide_tables_have_all_columns(self):
        self.session()
        self.assertNotIn("TENANT", self.good("session", "list"))
        self.assertIn("TENANT", self.good("session", "list", "-o", "wide"))


class Tables(WithServer):
    """Every table fits the terminal, and a wider terminal shows more."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cli = cls.server.cli
        cls.made = cli("session", "create", "--metadata", f"note={LONG}").stdout.strip()
        cli("run", "-c", "print(1)")
        cli("exec", cls.made, "--", "sh", "-c", f"echo 1 > {LONG}")
        cli("exec", cls.made, "-c", "x = 1", "-l", "python")
        cli("session", "memory", "set", cls.made, LONG, "1")
        cli("session", "snapshot", cls.made, "--name", LONG)
        cli("artifact", "put", "-", "--path", LONG, input="x")
        cli("key", "create", "--tenant", "acme", "--name", LONG, "--role", "viewer", "--role", "operator")
        cli("secret", "set", "TOKEN", "--expires", "30d", input="a long value")
        cli("agent", "create", "--agent", "coder", "--level", "restricted")
        cli("escalation", "request", "--operation", "file_write", "--path", f"/srv/{LONG}", "--reason", LONG)
        policy = pathlib.Path(cls.server.state) / "policy.yaml"
        policy.write_text(cli("policy", "show").stdout)
        cli("policy", "apply", policy, "--note", LONG)

    TABLES = [
        ("session", "list"), ("execution", "list"), ("artifact", "list"), ("snapshot", "list"), ("key", "list"),
        ("secret", "list"), ("escalation", "list"), ("escalation", "pending"), ("policy", "history"), ("image", "list"),
        ("agent", "stats", "--all-agents"), ("agent", "audit", "--agent", "coder"), ("deps", "list"), ("pool",),
        ("session", "kernels", "{session}"), ("session", "memory", "list", "{session}"),
    ]
    CUT = {"artifact", "snapshot", "key", "policy"}  # with a text of 120 characters

    def shown(self, columns, *args):
        args = [arg.format(session=self.made) for arg in args]
        with self.terminal(*args, columns=columns) as typing:
            self.assertEqual(typing.end(), 0, typing.seen)
            return typing.seen.decode().replace("\r\n", "\n").splitlines()

    def test_all_fit_80_columns(self):
        for args in self.TABLES:
            with self.subTest(args):
                lines = self.shown(80, *args)
                self.assertGreaterEqual(len(lines), 1)
                for line in lines:
                    self.assertLessEqual(len(line), 80, line)
                if args[0] in self.CUT:
                    self.assertTrue(any("…" in line for line in lines), lines)

    def test_without_a_terminal_where_the_width_is_given(self):
        for args in self.TABLES:
            args = [arg.format(session=self.made) for arg in args]
            for line in self.good(*args, env={"COLUMNS": "80"}).splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_ids_are_whole(self):
        for args in (("session", "list"), ("execution", "list"), ("artifact", "list"), ("snapshot", "list"), ("key", "list")):
            ids = self.good(*args, "-q").split()
            self.assertTrue(ids)
            for one in ids:
                self.assertIn(one, "\n".join(self.shown(80, *args)))

    def test_a_wider_terminal_shows_more(self):
        for args in (("artifact", "list"), ("snapshot", "list"), ("key", "list"), ("policy", "history")):
            narrow, wide = ("\n".join(self.shown(columns, *args)) for columns in (80, 220))
            self.assertNotIn(LONG, narrow)
            self.assertIn(LONG, wide)
        self.assertIn(LONG, self.good("artifact", "list", "-o", "wide"))
        self.assertIn(LONG, self.good("artifact", "list", env={"COLUMNS": "220"}))
        self.assertNotIn(LONG, self.good("artifact", "list", env={"COLUMNS": "80"}))
        self.assertIn(LONG, self.good("artifact", "list"), "nothing is cut off for a program")


class Words(WithServer):
    """Units, names of flags, verbs."""

    def test_units(self):
        plan = self.json("run", "--dry-run", "--memory", "128m", "--disk", "1g", "--timeout", "1m30s", "--cpu", "0.5",
                         "-c", "print(1)")["requested_limits"]
        self.assertEqual((plan["memory_bytes"], plan["disk_bytes"], plan["wall_ms"], plan["cpu_millis"]),
                         (128 << 20, 1 << 30, 90_000, 500), plan)
        same = self.json("run", "--dry-run", "--memory", "128MB", "--timeout", "90", "--cpus", "0.5", "-c", "1")
        self.assertEqual(same["requested_limits"]["memory_bytes"], 128 << 20)
        self.assertEqual(same["requested_limits"]["cpu_millis"], 500)
        shown = self.json("session", "show", self.session("--ttl", "2h", "--idle-ttl", "5m", "--memory", "1g"))
        self.assertEqual((shown["ttl_seconds"], shown["idle_ttl_seconds"], shown["limits"]["memory_mb"]),
                         (7200, 300, 1024))

    def test_earlier_names_of_flags_stay(self):
        for flags in (("--ttl", "2d"), ("--ttl-seconds", "172800")):
            made = json.loads(self.good("artifact", "put", "-", "--path", "a", *flags, "--json", input="x"))
            self.assertEqual(seconds_between(made["created_at"], made["expires_at"]), 172_800)
        for flags in (("--expires", "3d"), ("--expires-in-days", "3")):
            self.good("key", "create", "--tenant", "acme", "--name", flags[1], *flags)
            key = next(key for key in self.json("key", "list")["keys"] if key["name"] == flags[1])
            self.assertEqual(seconds_between(key["created_at"], key["expires_at"]), 3 * 86_400)
        artifact = made["id"]
        self.good("artifact", "url", artifact, "--expires-seconds", "60")
        self.good("artifact", "url", artifact, "--expires", "1m")
        self.good("secret", "set", "TOKEN", "--expires-at", "2090-01-31T00:00:00Z", input="a long value")
        self.assertTrue(self.json("secret", "list")["secrets"][0]["expires_at"].startswith("2090-01-31"))
        self.good("deps", "prune", "--unused-days", "30")
        self.good("exec", self.session(), "--stdin", "--", "true")

    def test_a_session_has_a_name(self):
        session = self.session("--name", "build")
        self.assertEqual(self.good("exec", "build", "--", "echo", "made"), "made\n")
        self.assertEqual(self.json("session", "show", "build")["id"], session)
        self.assertIn(" build ", self.good("session", "list"))
        again = self.cli("session", "create", "--name", "build")
        self.assertEqual(again.returncode, 3, again.stderr)
        self.assertIn("build", again.stderr)

    def test_verbs_of_other_tools(self):
        session = self.session()
        self.assertIn(session, self.good("session", "ls"))
        self.assertIn(session, self.good("session", "inspect", session))
        self.assertIn(session, self.good("session", "delete", session))
        self.assertIn("level", self.good("sandbox", "create", "--agent", "words", "--level", "standard"))
        self.assertIn("standard", self.good("agent", "get", "--agent", "words"))

    def test_help_of_groups(self):
        for args in (("quota", "--help"), ("help", "quota"), ("quota", "-h")):
            text = self.good(*args)
            self.assertIn("what tenants and agents may use", text)
            for command in ("show", "set", "unset"):
                self.assertIn(f"\n  {command} ", text)
        self.assertIn("\n  memory ", self.good("session", "--help"))
        self.assertIn("\n  delete ", self.good("session", "memory", "--help"))
        self.assertIn("is the same group", self.good("sandbox", "--help"))
        lines = self.good("--help").splitlines()
        self.assertIn("Groups:", lines)
        self.assertLess(len(lines), 70)

    def test_dry_run_says_the_decision_first(self):
        before = self.json("execution", "list")["executions"]
        text = self.good("run", "--dry-run", "-c", "print(1)")
        self.assertTrue(text.startswith("allow: "), text)
        self.assertIn("rule:", text)
        self.assertNotIn("requested_limits", text)
        self.assertIn("requested_limits", self.good("run", "--dry-run", "-v", "-c", "print(1)"))
        denied = self.cli("run", "--dry-run", "--network", "full", "-c", "print(1)")
        self.assertEqual(denied.returncode, 125)
        self.assertTrue(denied.stdout.startswith("deny: "), denied.stdout)
        self.assertEqual(json.loads(self.cli("run", "--dry-run", "--network", "full", "-c", "1", "--json").stdout)
                         ["decision"]["decision"], "deny")
        self.assertEqual(self.json("execution", "list")["executions"], before)


class Completion(WithServer):
    def complete(self, *words):
        script = harness.cli("completion", "bash").stdout
        program = harness.BIN / "cloister"
        typed = " ".join(f"'{word}'" for word in (program, *words))
        ask = f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}; _cloister; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key}
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, env=env)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_ids_names_and_values(self):
        session = self.session("--name", "web")
        self.assertEqual(self.complete("exec", "ses"), [session])
        self.assertEqual(self.complete("exec", "we"), ["web"])
        self.assertEqual(self.complete("session", "end", session[:8]), [session])
        self.assertEqual(self.complete("session", "show", session, ""), [])
        self.cli("secret", "set", "TOKEN", input="a long value")
        self.assertEqual(self.complete("secret", "rm", "T"), ["TOKEN"])
        self.cli("run", "-c", "1")
        execution = self.json("execution", "list")["executions"][0]["id"]
        self.assertIn(execution, self.complete("execution", "logs", ""))
        self.cli("agent", "create", "--agent", "coder", "--level", "standard")
        self.assertEqual(self.complete("agent", "show", "--agent", "co"), ["coder"])
        self.assertEqual(self.complete("run", "--network", "re"), ["restricted"])
        self.assertEqual(self.complete("run", "--network", "=", "re"), ["restricted"])
        self.assertIn("bash", self.complete("run", "-l", ""))
        self.assertEqual(self.complete("-o", "y"), ["yaml"])

    def test_no_server_is_no_harm(self):
        env = {"CLOISTER_URL": "http://127.0.0.1:1"}
        done = harness.cli("__complete", "exec", "", env=env)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Interactive(WithServer):
    def test_run_on_a_terminal_takes_input(self):
        with self.terminal("run", "-c", "name = input('name? '); print('hello', name); raise SystemExit(3)") as typing:
            typing.expect(b"name? ")
            typing.type(b"ada\n")
            self.assertEqual(typing.end(), 3)
            self.assertIn(b"hello ada", typing.seen)
        self.assertNothingRuns()

    def test_end_of_input(self):
        with self.terminal("run", "-c", "import sys; print('ready', flush=True); print(repr(sys.stdin.read()))") as typing:
            typing.expect(b"ready")
            typing.type(b"one\n")
            typing.type(b"\x04")
            self.assertEqual(typing.end(), 0)
            self.assertIn(b"'one\\n'", typing.seen)

    def test_a_terminal_for_the_program(self):
        code = ("import os, sys; print(sys.stdin.isatty(), os.get_terminal_size().columns, flush=True); "
                "print(input('> ') * 2)")
        with self.terminal("run", "-it", "-c", code, columns=91) as typing:
            typing.expect(b"True 91")
            typing.expect(b"> ")
            typing.type(b"ab\r")
            self.assertEqual(typing.end(), 0)
            self.assertIn(b"abab", typing.seen)
        session = self.session()
        with self.terminal("exec", "-it", session, "--", "sh", "-c", "test -t 0 && stty size", columns=93) as typing:
            self.assertEqual(typing.end(), 0)
            self.assertIn(b"24 93", typing.seen)

    def test_an_interrupt_reaches_the_program(self):
        code = ("import time\ntry:\n  print('ready', flush=True); time.sleep(60)\n"
                "except KeyboardInterrupt:\n  print('caught'); raise SystemExit(7)")
        with self.terminal("run", "-i", "-c", code) as typing:
            typing.expect(b"ready")
            typing.process.send_signal(2)
            self.assertEqual(typing.end(), 7)
            self.assertIn(b"caught", typing.seen)

    def test_files_arguments_and_artifacts_go_along(self):
        (self.folder / "data").write_text("data")
        out = self.folder / "out"
        code = "import sys; open('made', 'w').write(open('data').read() + sys.argv[1] + input())"
        with self.terminal("run", "-f", self.folder / "data", "--out", out, "-c", code, "--", "arg") as typing:
            typing.type(b"typed\n")
            self.assertEqual(typing.end(), 0, typing.seen)
        self.assertEqual((out / "made").read_text(), "dataargtyped")

    def test_a_pipe_is_passed_on_as_it_comes(self):
        env = {**self.server._environment(), "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key}
        process = subprocess.Popen([harness.BIN / "cloister", "run", "-i", "-c", "for l in iter(input, 'end'): print(l, flush=True)"],
                                   env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        with process.stdin, process.stdout:
            for line in (b"one\n", b"two\n"):
                process.stdin.write(line)
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), line)
            process.stdin.write(b"end\n")
            process.stdin.flush()
            self.assertEqual(process.wait(harness.limit(30)), 0)

    def assertNothingRuns(self):
        wait_for("the session to end", lambda: not self.json("session", "list", "--status", "running")["sessions"])


def seconds_between(begin, end):
    times = (datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (end, begin))
    return round((next(times) - next(times)).total_seconds())


if __name__ == "__main__":
    unittest.main()
