# SPDX-License-Identifier: Apache-2.0
"""`cloister session` and `cloister exec`: a conversation by a script, input, signals, exit statuses."""

import json
import os
import signal
import subprocess
import unittest

import harness
import pages
from harness import wait_for
from proxy import BreakingProxy
from test_cli import WithServer

HOWTOS = [harness.REPO / "docs" / "howto" / f"{name}.md"
          for name in ("run-in-a-session", "use-an-interpreter", "open-a-port", "use-a-terminal")]
FOREVER = "trap 'echo int' INT; trap 'exit 9' HUP; echo first; while :; do sleep 0.05; done"


class SessionCase(WithServer):
    def session(self, *flags):
        """The id of a new session."""
        made = self.good("session", "create", "--language", "bash", "--memory", "64", *flags).strip()
        self.assertRegex(made, r"^ses_[0-9a-z]{26}$")
        self.addCleanup(self.cli, "session", "end", made)
        return made

    def last(self, session):
        path = f"/v1/executions?session_id={session}&limit=1"
        return self.server.request("GET", path).json()["executions"][0]


class Sessions(SessionCase):
    def test_a_conversation(self):
        session = self.session("--ttl", "600", "--idle-ttl", "60", "-e", "WHO=you", "--metadata", "task=1")
        self.assertEqual(self.good("exec", session, "-c", "echo hello $WHO > f; cat f"), "hello you\n")
        self.assertEqual(self.good("exec", session, "--cwd", "/tmp", "-e", "WHO=me", "--", "sh", "-c", "echo $WHO; pwd"), "me\n/tmp\n")
        self.assertEqual(self.good("exec", session, "-l", "python", "-c", "import sys; print(open('f').read() + sys.argv[1])",
                                   "--", "arg"), "hello you\narg\n")
        shown = json.loads(self.good("session", "show", session, "--json"))
        self.assertEqual((shown["status"], shown["metadata"], shown["ttl_seconds"]), ("running", {"task": "1"}, 600))
        self.assertIn("executions_running: 0", self.good("session", "show", session))
        self.assertIn(session, self.good("session", "list", "--status", "running"))
        self.assertIn("expires at 20", self.good("session", "renew", session, "--ttl", "900"))
        self.assertEqual(json.loads(self.good("session", "show", session, "--json"))["ttl_seconds"], 900)
        self.assertEqual(self.good("session", "end", session), f"{session}: ended\n")
        self.assertEqual(json.loads(self.good("session", "rm", session, "--json"))["sessions"][0]["status"], "ended")
        listed = json.loads(self.good("session", "list", "--status", "ended", "--json"))["sessions"]
        self.assertIn(session, [each["id"] for each in listed])
        self.assertIn("CANCELLED", self.good("session", "list"))
        gone = self.cli("exec", session, "--", "true")
        self.assertEqual(gone.returncode, 125)
        self.assertIn("ended", gone.stderr)

    def test_a_program_that_is_not_there_and_a_long_output(self):
        session = self.session()
        gone = self.cli("exec", session, "--", "nosuchprogram")
        self.assertEqual((gone.returncode, gone.stdout), (127, ""))
        self.assertRegex(gone.stderr, "^cloister: nosuchprogram: No such file")
        whole = subprocess.run([self.server.bin / "cloister", "exec", session, "--", "head", "-c", "3000001", "/dev/zero"],
                               capture_output=True, env=self.server._environment() | {
                                   "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key}, timeout=60)
        self.assertEqual((whole.returncode, len(whole.stdout), whole.stderr), (0, 3_000_001, b""))

    def test_files_become_artifacts(self):
        session = self.session()
        self.good("exec", session, "-c", "echo before > a.txt")
        for args, kept in ((["--artifacts", "*.txt"], ["b.txt"]), ([], ["b.txt", "c.log"])):
            out = os.path.join(self.folder, f"out{len(kept)}")
            self.good("exec", session, *args, "--out", out, "-c", "echo after > b.txt; echo x > c.log")
            self.assertEqual(sorted(os.listdir(out)), kept)

    def test_events(self):
        session = self.session()
        watcher = self.start("session", "events", session)
        lines = [watcher.stdout.readline() for _ in range(2)]
        self.good("exec", session, "-c", "exit")
        self.good("session", "end", session)
        lines += watcher.stdout.readlines()
        self.assertEqual(watcher.wait(10), 0)
        execution = self.last(session)["id"].encode()
        self.assertEqual(lines[:2], [b"status creating\n", b"status running\n"])
        self.assertIn(b"execution " + execution + b" running\n", lines)
        self.assertIn(b"execution " + execution + b" completed\n", lines)
        self.assertTrue(lines[-1].startswith(b"status ended: "), lines)
        events = list(map(json.loads, self.good("session", "events", session, "--json").splitlines()))
        self.assertEqual(events[-1]["data"]["end_reason"]["type"], "CANCELLED")

    def test_refusals_say_what_to_do(self):
        for args, status in ((["session", "show"], 2), (["session", "end"], 2), (["session"], 2), (["exec"], 125),
                             (["exec", "ses_x"], 125), (["exec", "ses_x", "--", "ls"], 125),
                             (["exec", "ses_x", "--background", "-i", "--", "ls"], 125),
                             (["session", "create", "--ttl", "0"], 2), (["session", "show", "ses_x"], 4)):
            with self.subTest(args):
                done = self.cli(*args)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn("cloister:", done.stderr)
        self.assertIn("there is no session ses_x; check the id", self.cli("session", "show", "ses_x").stderr)


class Exec(SessionCase):
    def test_exit_statuses(self):
        session = self.session()
        for flags, code, status in (((), "exit 0", 0), ((), "exit 3", 3), ((), "exit 255", 255), ((), "kill -SEGV $$", 139),
                                    (("--timeout", "0.5"), "sleep 60", 124), (("--language", "cobol"), "x", 125),
                                    (("--timeout", "0"), "x", 125)):
            with self.subTest(code=code):
                done = self.cli("exec", session, *flags, "-c", code)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual("cloister:" in done.stderr, status > 123 and status != 255, done.stderr)
        done = self.cli("exec", session, "--json", "-c", "echo x; exit 4")
        result = json.loads(done.stdout)
        self.assertEqual((done.returncode, result["exit_code"], result["stdout"], result["session_id"], done.stderr),
                         (4, 4, "x\n", session, ""))

    def test_memory(self):
        session = self.session()
        done = self.cli("exec", session, "-l", "python", "-c", "x = b'x' * (1 << 30)")
        if not harness.ROOT and done.returncode == 1:  # without a control group the kernel refuses instead of killing
            self.assertIn("MemoryError", done.stderr)
            return
        self.assertEqual(done.returncode, 137, done.stderr)

    def test_output_and_input_bytes(self):
        session = self.session()
        for size in (0, 1, 65_536, 65_537, 3_000_000):
            data = os.urandom(size)
            done = self.cli("exec", session, "--", "sh", "-c", "cat; echo e >&2", input=data, text=False)
            self.assertEqual((done.returncode, done.stderr[:2]), (0, b"e\n"))
            self.assertTrue(done.stdout == data, "other bytes came back")
            self.assertEqual(self.last(session)["stdout_bytes"], size)

    def test_input_as_it_comes(self):
        session = self.session()
        process = self.start("exec", session, "--", "sh", "-c", "while read x; do echo got $x; done; echo end",
                             stdin=subprocess.PIPE)
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"got " + word + b"\n")
        process.stdin.close()
        process.stdin = None
        self.assertEqual((process.wait(20), process.stdout.read()), (0, b"end\n"))

    def test_input_that_nobody_takes_holds_nothing_up(self):
        session = self.session()
        read_end, write_end = os.pipe()  # stays open
        self.addCleanup(os.close, write_end)
        process = self.start("exec", session, "-c", "exit 5", stdin=read_end)
        os.close(read_end)
        self.assertEqual(process.wait(20), 5)
        with open("/dev/zero", "rb") as zero:
            endless = self.start("exec", session, "-c", "head -c 10 > f; exit 6", stdin=zero)
        self.assertEqual(endless.wait(60), 6)

    def test_signals_are_passed_on(self):
        session = self.session()
        process = self.start("exec", session, "-c", FOREVER)
        self.assertEqual(process.stdout.readline(), b"first\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline(), b"int\n")
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(20), 9)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(number):
                process = self.start("exec", session, "--", "sh", "-c", "echo first; exec sleep 60")
                process.stdout.readline()
                process.send_signal(number)
                self.assertEqual(process.wait(20), status)
                self.assertEqual(self.last(session)["signal"], signal.Signals(number).name)

    def test_a_second_interrupt_cancels(self):
        session = self.session()
        process = self.start("exec", session, "-c", FOREVER)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        self.assertEqual(self.last(session)["status"], "cancelled")
        self.assertEqual(self.good("exec", session, "-c", "echo usable"), "usable\n")

    def test_a_reader_that_leaves_cancels(self):
        session = self.session()
        read_end, write_end = os.pipe()
        process = self.start("exec", session, "-c", "while :; do echo yyyyyyyyyyyyyyyy; done", stdout=write_end)
        os.close(write_end)
        os.read(read_end, 1)
        os.close(read_end)
        self.assertEqual(process.wait(20), 141)
        wait_for("the end", lambda: self.last(session)["status"] == "cancelled")

    def test_in_the_background(self):
        session = self.session()
        execution = self.good("exec", session, "--background", "-c", "echo from behind; exit 8").strip()
        watched = self.cli("execution", "watch", execution)
        self.assertEqual((watched.returncode, watched.stdout), (8, "from behind\n"))
        much = self.good("exec", session, "--background", "-c", "head -c 3000000 /dev/zero | tr '\\0' x").strip()
        whole = self.cli("execution", "watch", much)
        self.assertEqual((whole.returncode, len(whole.stdout)), (0, 3_000_000))
        for flag in ("--out", "--images"):
            refused = self.cli("exec", session, "--background", flag, self.folder, "-c", "true")
            self.assertEqual(refused.returncode, 125)
            self.assertIn(f"{flag}: not together with --background", refused.stderr)

    def test_follows_over_a_broken_connection(self):
        """Through a proxy that breaks off each connection after some bytes: nothing is lost or doubled."""
        session = self.session()
        count = 20_000
        with BreakingProxy(self.server, 50_000) as proxy:
            url = f"http://127.0.0.1:{proxy.port}"
            done = self.cli("exec", session, "--", "seq", str(count), env={"CLOISTER_URL": url})
        self.assertGreater(proxy.broken, 1)
        self.assertEqual((done.returncode, done.stdout), (0, "".join(f"{n}\n" for n in range(1, count + 1))))

    def test_the_control_plane_may_die_meanwhile(self):
        session = self.session()
        process = self.start("exec", session, "-c", FOREVER)
        process.stdout.readline()
        watcher = self.start("session", "events", session)
        watcher.stdout.readline()
        os.kill(self.server.pid_of("cloisterd"), signal.SIGKILL)
        self.assertEqual(process.wait(60), 125)
        self.assertIn(b"cloister: the run was stopped", process.stderr.read())
        self.assertEqual(watcher.wait(60), 0, watcher.stderr.read())
        self.assertTrue(watcher.stdout.readlines()[-1].startswith(b"status ended: "))
        self.server.wait_ready()
        for seen in range(4):  # numbers of an earlier log, different from the present
            events = self.server.request("GET", f"/v1/sessions/{session}/events", headers={"Last-Event-ID": str(seen)}).text
            self.assertIn('"status":"ended"', events, f"after event {seen}")


class Howto(SessionCase):
    def test_their_examples_work(self):
        """The console blocks of a how-to, in one shell; `…` stands for anything."""
        for howto in HOWTOS:
            with self.subTest(howto.name):
                pages.assert_true(self, howto, self.server, self.folder)


if __name__ == "__main__":
    unittest.main()
