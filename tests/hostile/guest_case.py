# SPDX-License-Identifier: Apache-2.0
"""Broken guests: programs/broken_guest.c runs in the place of cloister-guest in a virtual machine, and of
cloister-runner in the other runtimes, and sends arbitrary frames. In every case the run comes to an end understood
by its clients, in time; node, control plane and all other sandboxes go on; no resource grows, and nothing is left."""

import concurrent.futures
import contextlib
import os
import pathlib
import tempfile
import threading
import time
import unittest

from hostile import AS_USER, NEEDED, PROGRAMS, harness
from processes import memory_of
from session_case import Session

TIMEOUT = 2        # seconds, of each run
GROWTH = 64 << 20  # bytes by which our processes may grow meanwhile
MIB = 1 << 20
FINE, LOST, LATE = ("completed", None), ("failed", "RUNNER_LOST"), ("timed_out", "TIMEOUT")
NOT_STARTED = ("failed", "SANDBOX_STARTUP_FAILED")

# The guest's behaviour at the start of a program, and the outcome of the run.
ANSWERS = {
    "plain": FINE, "silent": LOST, "exit_first": LOST, "output_first": LOST, "started_twice": LOST, "ends_twice": FINE,
    "greets_again": LOST, "unknown_type": LOST, "too_long": LOST, "far_too_long": LOST,
    "other_generation": LOST, "noise": LOST, "short_exit": LOST, "wild_exit": LOST, "breaks_off": LOST, "leaves": LOST,
    "wrong_channel": LOST, "no_channel": LOST, "takes_more": LOST, "wild_usage": FINE, "drips": LATE, "floods": LATE,
    "floods_empty": LATE, "floods_scratch": LATE, "floods_taken": LATE, "haunts": FINE, "counts_short": LOST,
    "scratch_wild": ("completed", "RESOURCE_LIMIT_EXCEEDED"), "start_fails": NOT_STARTED, "files_fail": NOT_STARTED,
    "start_fails_wide": LOST, "files_early": LOST,
}
# Behaviours with files, when all are requested, and whether the result reports missing files.
FILES = {"files_unasked": True, "files_climb": False, "files_nameless": True, "files_long": True, "files_many": True, "files_big": True,
         "files_short": True, "files_over": True, "files_never": True}
# False counts of a guest's control group, which only count for a virtual machine.
COUNTS = {"floods_counts": LATE, "counts_down": LOST, "counts_wild": ("failed", "RESOURCE_LIMIT_EXCEEDED"),
          "counts_memory": FINE}
# The guest's greetings, by the limit of open files. Machines with an unfinished greeting, which takes a long wait, are
# in --long only.
GREETINGS = {901: NOT_STARTED, 902: NOT_STARTED, 903: NOT_STARTED, 904: NOT_STARTED, 905: LOST, 907: LOST}
NEVER_GREETS = (908, 909, 910)
STOPS_READING = 906
# A virtual machine takes seconds: behaviours read alike for all guests are tried in a machine with --long only.
IN_MACHINES = ("plain", "noise", "leaves", "floods", "floods_empty", "drips", "start_fails", "files_climb", "deaf")


class Growth:
    """How much the node and the control plane have grown at most."""

    def __init__(self, server):
        self.pids = [server.pid_of("cloister-node"), server.pid_of("cloisterd")]
        self.before = {pid: memory_of(pid) for pid in self.pids}
        self.most = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.02):
            with contextlib.suppress(OSError):
                self.most = max(self.most, *(memory_of(pid) - self.before[pid] for pid in self.pids))


class Broken:
    """Runs a server of its own, with `PROGRAM` as the broken guest."""

    RUNTIME = PROGRAM = None
    CONFIG = ""
    BESIDE = 4          # runs at once
    OWN_COUNTS = False
    RUNNER_SECONDS = 3  # node.runner_seconds: the node's wait for frames that only a broken runner withholds
    LOAD_SECONDS = 15  # the bound for all else on a busy machine; the node's default wait is longer

    @classmethod
    def setUpClass(cls):
        for needed in cls.needed():
            if not needed.exists():
                raise unittest.SkipTest(f"no {needed}: {cls.RUNTIME} is not on this machine")
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="broken-guest."))
        os.chmod(folder, 0o755)
        programs = harness.install(harness.BIN, pathlib.Path(folder) / "installed",
                                   **{cls.PROGRAM.replace("-", "_"): PROGRAMS / "broken_guest"})
        cls.clean = harness.Snapshot()
        cls.patience = TIMEOUT + cls.RUNNER_SECONDS + cls.LOAD_SECONDS
        settings = f"node:\n  runner_seconds: {cls.RUNNER_SECONDS}\n{cls.CONFIG}"
        cls.server = harness.Server(settings, user=AS_USER, bin=programs)
        cls.enterClassContext(cls.server)

    @classmethod
    def needed(cls):
        return [NEEDED[cls.RUNTIME]] if cls.RUNTIME in NEEDED else []

    def setUp(self):
        self.ours = [self.server.pid_of(name) for name in ("cloister-node", "cloisterd")]

    def tearDown(self):
        """After any frames, their receivers go on, and so does every other part."""
        self.assertEqual([self.server.pid_of(name) for name in ("cloister-node", "cloisterd")], self.ours)
        self.assertEnded(self.run_in("plain"), FINE)
        self.check_others()
        self.assertNotIn("its result is malformed", self.server.log.read_text(errors="replace"))

    def check_others(self):
        """A run in another runtime works."""

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        harness.assert_clean(cls.clean, seconds=30, ignore=[f"files: {cls.server.state}"])

    def body(self, answer, **more):
        return {"command": ["broken", answer], "runtime": self.RUNTIME, "timeout_seconds": TIMEOUT, "artifacts": [],
                "memory_mb": 64} | more

    def run_in(self, answer, **more):
        begin = time.monotonic()
        submitted = self.server.request("POST", "/v1/executions", self.body(answer, **more))
        self.assertEqual(submitted.status, 201, submitted.body[:1000])
        done = self.server.wait_end(submitted.json()["id"], 200)
        self.assertLess(time.monotonic() - begin, 200)
        if done["started_at"]:
            self.assertLess(done["resource_usage"]["wall_ms"], self.patience * 1000, (answer, done))
        return done

    def assertEnded(self, done, expected):
        told = {name: done[name] for name in ("status", "exit_code", "error", "stdout")}
        self.assertEqual((done["status"], (done["error"] or {}).get("type")), expected, str(told)[:1000])
        if expected == LOST:
            self.assertTrue(done["error"]["retryable"], told)
        self.assertLess(len((done["error"] or {}).get("message", "")), 2000)

    def each(self, answers, check, **more):
        """Runs each behaviour, some beside each other → their results, each tested by its `check`."""
        with concurrent.futures.ThreadPoolExecutor(self.BESIDE) as pool:
            results = dict(zip(answers, pool.map(lambda answer: self.run_in(answer, **more), answers)))
        for answer, done in results.items():
            with self.subTest(answer):
                check(answer, done)

    def chosen(self, answers):
        return [each for each in answers if harness.LONG or self.RUNTIME != "microvm" or each in IN_MACHINES]

    # - runs -

    def test_answers(self):
        with Growth(self.server) as growth:
            self.each(self.chosen(ANSWERS), lambda answer, done: self.assertEnded(done, ANSWERS[answer]))
        self.assertLess(growth.most, GROWTH if not harness.SANITIZED else 8 * GROWTH)

    def test_counts(self):
        def check(answer, done):
            self.assertEnded(done, COUNTS[answer] if self.OWN_COUNTS else LOST)
            # Never more than its machine has taken.
            self.assertLess(done["resource_usage"]["max_rss_bytes"], 1024 * MIB)

        self.each(COUNTS, check)

    def test_files(self):
        def check(answer, done):
            self.assertEnded(done, ("completed", "RESOURCE_LIMIT_EXCEEDED") if FILES[answer] else FINE)
            self.assertEqual(done["exit_code"], 0)
            for artifact in done["artifacts"]:
                self.assertRegex(artifact["path"], r"^(?!.*(^|/)\.\.?(/|$))[ -~]+$")
                self.assertFalse(artifact["path"].startswith("/"))

        self.each(self.chosen(FILES), check, artifacts=["**"])

    def test_a_guest_that_does_not_read(self):
        """A guest that reads neither its program's input, beyond its pipe, nor files before the start."""
        much = "x" * 4 * MIB
        self.assertEnded(self.run_in("deaf", input=much), FINE)
        if harness.LONG or self.RUNTIME != "microvm":
            files = [{"path": "much", "content": much}]
            self.assertEnded(self.run_in("plain", files=files, open_files=STOPS_READING), LOST)

    def test_greetings(self):
        greetings = GREETINGS | dict.fromkeys(NEVER_GREETS, NOT_STARTED)
        if self.RUNTIME == "microvm" and not harness.LONG:
            greetings = {904: NOT_STARTED, 905: LOST}
        with concurrent.futures.ThreadPoolExecutor(self.BESIDE) as pool:
            ended = pool.map(lambda number: self.run_in("plain", open_files=number), greetings)
        for (number, expected), done in zip(greetings.items(), ended):
            with self.subTest(number):
                self.assertEnded(done, expected)

    def test_a_victim_beside_notices_nothing(self):
        """A program on the same node comes to its own end meanwhile."""
        victim = self.server.request("POST", "/v1/executions", self.body("says", timeout_seconds=20)).json()
        self.server.wait_status(victim["id"], "running", 60)
        self.each(["start_fails", "noise", "floods"], lambda answer, done: self.assertEnded(done, ANSWERS[answer]))
        self.assertEqual(self.server.get(victim["id"])["status"], "running")
        self.server.request("DELETE", f"/v1/executions/{victim['id']}")
        self.assertEqual(self.server.wait_end(victim["id"], 30)["status"], "cancelled")

    # - sessions -

    def session(self):
        return Session(self.server, runtime=self.RUNTIME, language="bash", memory_mb=64)

    def exec(self, session, answer, seconds=None, **more):
        body = {"command": ["broken", answer], "timeout_seconds": TIMEOUT} | more
        made = session.call("POST", "/exec", body, status=201).json()
        return session.wait(made["id"], seconds or self.patience)

    def test_sessions_end_with_a_guest_that_breaks_the_rules(self):
        answers = ["wrong_channel", "no_channel", "noise", "exit_first"]
        if self.RUNTIME != "microvm":
            # An emulated machine sends no more than the node takes, and takes all that the node may send unread.
            answers += ["overflows", "deaf"]
        elif not harness.LONG:
            answers = ["noise"]
        for answer in answers:
            with self.subTest(answer), self.session() as session:
                self.assertEnded(self.exec(session, "plain"), FINE)
                more = {"input": "x" * 4 * MIB} if answer == "deaf" else {}
                self.assertEnded(self.exec(session, answer, **more), LOST)
                self.assertEqual(session.wait_ended()["end_reason"]["type"], "RUNNER_LOST")

    def test_a_program_that_ended_and_speaks_on(self):
        """Nobody reads frames about the ended program, and no answer piles up."""
        with self.session() as session, Growth(self.server) as growth:
            self.assertEnded(self.exec(session, "haunts"), FINE)
            self.assertEqual(session.wait_ended()["end_reason"]["type"], "RUNNER_LOST")
        self.assertLess(growth.most, GROWTH if not harness.SANITIZED else 8 * GROWTH)

    def test_a_program_that_ends_twice(self):
        with self.session() as session:
            for _ in range(3):
                self.assertEnded(self.exec(session, "ends_twice"), FINE)

    def test_files_of_a_session(self):
        """The answers of its file server are the guest's too."""
        for name in ("noise", "plain", "leaves", "floods"):
            if self.RUNTIME == "microvm" and not harness.LONG and name != "noise":
                continue
            with self.subTest(name), self.session() as session, Growth(self.server) as growth:
                for path in (f"/files/{name}", f"/files/{name}?list"):
                    begin = time.monotonic()
                    with contextlib.suppress(OSError):  # a truncated answer
                        answer = session.call("GET", path)
                        self.assertTrue(answer.status >= 400 or answer.body == b"", (answer.status, answer.body[:200]))
                    self.assertLess(time.monotonic() - begin, self.patience)
            self.assertLess(growth.most, GROWTH if not harness.SANITIZED else 8 * GROWTH)
