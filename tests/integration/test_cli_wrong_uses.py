#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong uses of the command line: each has its exit status, and a message with the remedy."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import unittest

import harness

# Words of the API, which the command line has other words for.
API_WORDS = re.compile(
    r"/v1/|\b(?:POST|GET|PUT|DELETE) |HTTP status|[A-Z]{4,}_[A-Z]{4,}(?<!CLOISTER_API)(?!_KEY)|"
    r"(?<![.\w])(?:timeout_seconds|ttl_seconds|memory_mb|cpu_millis|disk_mb|network_policy|expires_seconds|on_denied|deps_from)\b")

# `run`, `exec`, `shell` and `tool call`: 125, so that no status is mistaken for a program's.
PROGRAMS = [
    ("run", "give either -c CODE, or a FILE, or - for stdin"),
    ("run -c 1 script.py", "give either -c CODE, or a FILE, or - for stdin"),
    ("run no-such-file.py", "no-such-file.py", "No such file"),
    ("run --lang python -c 1", "--lang: unknown flag", "did you mean --language?"),
    ("run --ram 1g -c 1", "did you mean --memory?"),
    ("run -m 1g -c 1", "-m: unknown flag", "did you mean --memory?"),
    ("run --time-limit 3 -c 1", "did you mean --timeout?"),
    ("run --package numpy -c 1", "did you mean --dep?"),
    ("run --memroy 512 -c 1", "did you mean --memory?"),
    ("run --memory lots -c 1", "--memory", "512MB or 2g"),
    ("run --memory 90000g -c 1", "--memory: 92160000 is over the most", "ask for less"),
    ("run --memory", "--memory: needs a value, SIZE"),
    ("run --disk 1x -c 1", "--disk", "512MB or 2g"),
    ("run --timeout soon -c 1", "--timeout", "90s, 30m, 2h or 7d"),
    ("run --timeout 99d -c 1", "--timeout: 8553600 is over the most", "ask for less"),
    ("run --cpu fast -c 1", "--cpu", "800m or 0.8"),
    ("run --pids many -c 1", "--pids: must be a number from 1"),
    ("run --network internet -c 1", "--network: must be none, restricted, internal, api or full"),
    ("run --tier high -c 1", "--tier: must be Auto, Assisted, HumanApprove or ManualOnly"),
    ("run --on-denied shrug -c 1", "--on-denied: must be deny, escalate or ask"),
    ("run --deps-from pip -c 1", "--deps-from: must be script or files"),
    ("run --language cobol -c 1", "cobol", "python"),
    ("run --runtime docker -c 1", "docker", "`cloister doctor`"),
    ("run --image none -c 1", "none", "`cloister image list`"),
    ("run --env A -c 1", "--env: must be NAME=VALUE, not A"),
    ("run --json=yes -c 1", "--json: takes no value"),
    ("run -o xml -c 1", "--output: must be json, yaml or wide"),
    ("run --json -o yaml -c 1", "--json: not together with -o yaml"),
    ("run -t -c 1", "--tty: this is not a terminal"),
    ("run -i -", "--interactive: standard input has the code already"),
    ("run -i --approval ESC-2026-001 -c 1", "--interactive: not together with --approval"),
    ("run -c 1 -c 2", "--code: given twice"),
    ("exec", "which session: give its id or name (see `cloister session list`)"),
    ("exec {session}", "give -c CODE, or a command after --"),
    ("exec ses_none -- ls", "there is no session ses_none", "check the id"),
    ("exec {session} --background -i -- cat", "--interactive: not together with --background"),
    ("exec {session} --sandbox new -- ls", "--sandbox: must be session or fresh"),
    ("exec {session} -d -- ls", "did you mean --background?"),
    ("exec {session} -w /tmp -- ls", "did you mean --cwd?"),
    ("shell", "this is not a terminal", "cloister exec SESSION -- COMMAND"),
    ("tool call shell.exec", "did you mean shell.execute"),
]

# (command, status, words of the message …). 1: the answer is no; 2: a wrong command line; 3: refused; 4: not found.
OTHERS = [
    ("", 2, "Commands:", "cloister COMMAND --help"),
    ("frobnicate", 2, "no command `frobnicate`", "see `cloister --help`"),
    ("exection", 2, "did you mean `cloister execution`?"),
    ("ps", 2, "did you mean `cloister session list`?"),
    ("ssh", 2, "did you mean `cloister shell`?"),
    ("quota", 2, "Commands:", "show", "unset", "`quota` needs one of its commands"),
    ("session memory", 2, "delete", "`session memory` needs one of its commands"),
    ("session frobnicate", 2, "`session` has:", "create", "renew"),
    ("session craete", 2, "did you mean `cloister session create`?"),
    ("session show", 2, "which session: give its id or name (see `cloister session list`)"),
    ("session show ses_none", 4, "there is no session ses_none", "check the id"),
    ("session show {session} again", 2, "what is \"again\" for?", "usage: cloister session show ID"),
    ("session create --ttl forever", 2, "--ttl", "90s, 30m, 2h or 7d"),
    ("session create --ttl 9000d", 2, "--ttl"),
    ("session create --idle-ttl 1h30", 2, "--idle-ttl", "no amount"),
    ("session create --capability all", 2, "--capability: must be command_execution, file_read"),
    ("session create --from-snapshot snap_none", 2, "--from-snapshot"),
    ("session list --status alive", 2, "--status: must be creating, blocked, running or ended"),
    ("session list --limit 0", 2, "--limit: must be a number from 1"),
    ("session list --filter running", 2, "did you mean --status?"),
    ("session end", 2, "which session"),
    ("session end ses_none", 4, "there is no session ses_none"),
    ("session renew {session} --ttl tomorrow", 2, "--ttl", "no amount"),
    ("execution show exec_none", 4, "there is no execution exec_none", "check the id"),
    ("execution cancel", 2, "which execution: give its id (see `cloister execution list`)"),
    ("execution logs exec_none --stream both", 2, "--stream: must be stdout or stderr"),
    ("execution list --status done", 2, "queued, running, blocked, completed, failed, timed_out, cancelled or denied"),
    ("artifact get art_none", 4, "art_none"),
    ("artifact put no-such-file", 4, "no-such-file", "No such file"),
    ("artifact put -", 2, "--path: required with standard input"),
    ("artifact url art_none --expires later", 2, "--expires", "no amount"),
    ("artifact url art_none --ttl 5m", 2, "did you mean --expires?"),
    ("snapshot show snap_none", 4, "snap_none"),
    ("port open {session}", 2, "which port"),
    ("port link {session} 70000", 2, "PORT: must be a whole number from 1 to 65535"),
    ("cp one two", 2, "write SESSION:PATH"),
    ("cp {session}:none .", 4, "none"),
    ("key create --role boss", 2, "--role", "viewer", "tenant-admin"),
    ("key create --expires someday", 2, "--expires", "no amount"),
    ("key show key_none", 4, "key_none"),
    ("CLOISTER_API_KEY={viewer} key list", 3, "ask an administrator"),
    ("CLOISTER_API_KEY=clo_wrong session list", 3, "set CLOISTER_API_KEY or --key-file"),
    ("secret set", 2, "which secret"),
    ("secret set TOKEN --expires someday", 2, "--expires", "neither a time", "nor a duration, as 30d"),
    ("secret rm NONE", 4, "NONE"),
    ("escalation show ESC-1999-001", 4, "ESC-1999-001"),
    ("escalation approve", 2, "which escalation: give its id"),
    ("escalation list --status open", 2, "pending, approved, denied, expired or used"),
    ("escalation request", 2, "--operation: is required"),
    ("policy check no-such-file.yaml", 4, "No such file"),
    ("policy check {bad}", 1, "not valid"),
    ("policy rollback 9999", 4, "there is no version 9999 of the policy; see `cloister policy history`"),
    ("policy rollback latest", 2, "which version: give its number (see `cloister policy history`)"),
    ("policy explain --network full -c 1", 1, "deny"),
    ("egress explain https://evil.test/", 1, "denied"),
    ("egress explain", 2, "which URL: give one"),
    ("audit list --before 3 --after 1", 2, "--before: not together with --after"),
    ("audit verify --key key.pub", 2, "--key: is for --against"),
    ("quota set", 2, "give --concurrent N"),
    ("quota set --concurrent many", 2, "--concurrent: give a whole number"),
    ("agent show", 2, "which agent: give --agent NAME"),
    ("agent show --agent nobody", 4, "nobody"),
    ("agent limit --agent nobody", 2, "which limit: give --memory"),
    ("agent filter --agent nobody --whitelist maybe", 2, "--whitelist: must be on or off"),
    ("deps prune --unused 3h", 2, "--unused: must be whole days, as 30d"),
    ("image show none", 4, "cloister image list"),
    ("completion tcsh", 2, "bash, zsh or fish"),
    ("version --wrong", 2, "--wrong: unknown flag", "see `cloister version --help`"),
    ("session list --url http://127.0.0.1:1", 125, "Connection refused"),
    ("session list --url ftp://host", 2, "http"),
]


class WrongUses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cli-test."))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        bad = cls.folder / "bad.yaml"
        bad.write_text("version: 2\nrules: nothing\n")
        cls.names = {
            "session": cls.server.cli("session", "create").stdout.strip(),
            "viewer": cls.server.cli("key", "create", "--tenant", "acme", "--role", "viewer").stdout.strip(),
            "bad": bad,
        }

    def use(self, line):
        words = shlex.split(line.format(**self.names))
        env = {}
        while words and re.match(r"CLOISTER_\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        with contextlib.chdir(self.folder):
            return self.server.cli(*words, env=env, input="secret\n")

    def assertRight(self, line, status, *remedies):
        done = self.use(line)
        said = done.stderr if status != 1 else done.stdout + done.stderr
        self.assertEqual(done.returncode, status, said)
        for remedy in remedies:
            self.assertIn(remedy, said)
        self.assertNotRegex(said, API_WORDS)
        if status != 1:
            self.assertIn("cloister:", said)
            self.assertEqual(done.stdout, "")

    def test_programs(self):
        for line, *remedies in PROGRAMS:
            with self.subTest(line):
                self.assertRight(line, 125, *remedies)

    def test_others(self):
        for line, status, *remedies in OTHERS:
            with self.subTest(line):
                self.assertRight(line, status, *remedies)

    def test_there_are_many(self):
        self.assertGreaterEqual(len(PROGRAMS) + len(OTHERS), 60)
        lines = [row[0] for row in PROGRAMS + OTHERS]
        self.assertEqual(len(lines), len(set(lines)))

    def test_no_server(self):
        for args in (("session", "list"), ("key", "list"), ("audit", "verify")):
            done = harness.cli(*args, "--state", self.folder / "none", env={"HOME": str(self.folder)})
            self.assertEqual(done.returncode, 125)
            self.assertIn("start one with `cloister serve`, name the state directory of a running one with --state, or", done.stderr)


if __name__ == "__main__":
    unittest.main()
