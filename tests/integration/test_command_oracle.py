# SPDX-License-Identifier: Apache-2.0
"""What the command filter allows, against what the real shells execute: no command that it allows runs a program
that it did not name. The commands run in a jail in which no program does anything (command_jail.py)."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import command_generator
import harness
import machine

COUNT = 20_000 if harness.LONG else 500
SEED = int(os.environ.get("CLOISTER_SEED", "20260117"))
JAIL = harness.REPO / "tests/integration/command_jail.py"
EXECVE = re.compile(r'^(\d+)\s+execve\("((?:[^"\\]|\\.)*)", \["((?:[^"\\]|\\.)*)"(.*)$')
RESUMED = re.compile(r"^(\d+)\s+<\.\.\. execve resumed>.*= (-?\d+)")
FORBIDDEN = {"sudo", "dd", "doas", "su"}


def executed(log):
    """For each command by number: (program, the rest of the line) of all that was executed in its time."""
    runs = collections.defaultdict(list)
    pending = {}
    number = None
    for line in log.splitlines():
        if match := EXECVE.match(line):
            pid, path, first, rest = match.groups()
            if first.startswith("cmd-"):
                number = int(first[4:])
                continue
            if path == "/proc/self/exe":  # busybox, as the applet that it is called
                path = first
            if rest.endswith("<unfinished ...>"):
                pending[pid] = (number, path, rest)
            elif rest.endswith(" = 0"):
                runs[number].append((path.rpartition("/")[2], rest))
        elif match := RESUMED.match(line):
            pid, status = match.groups()
            if pid in pending:
                where, path, rest = pending.pop(pid)
                if status == "0":
                    runs[where].append((path.rpartition("/")[2], rest))
    for where, path, rest in pending.values():  # killed in the middle: as if it had
        runs[where].append((path.rpartition("/")[2], rest))
    return runs


class Oracle(unittest.TestCase):
    def trace(self, commands):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            root = os.path.join(folder, "root")
            os.mkdir(root)
            jail = ["unshare", "-Urmnpf", "--kill-child", "--mount-proc", "strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=execve",
                    "-e", "signal=none", "-s", "200", "-o", log, sys.executable, str(JAIL), root]
            done = subprocess.run(jail, input=json.dumps(commands), capture_output=True, text=True,
                                  timeout=3000 if harness.LONG else 540)
            self.assertEqual(done.stdout.strip(), str(len(commands)), done.stderr[-2000:])
            with open(log, encoding="utf-8", errors="replace") as text:
                return executed(text.read())

    def judge(self, server, command):
        answer = server.request("POST", "/v1/commands:explain", {"command": command, "level": "standard"})
        self.assertEqual(answer.status, 200, answer.body[:500])
        return answer.json()

    def test_nothing_allowed_runs_what_was_not_named(self):
        machine.need_program(self, "unshare", "strace", "busybox")
        if subprocess.run(["unshare", "-Urmnpf", "true"], capture_output=True).returncode != 0:
            self.skipTest("this machine gives no user namespaces")
        commands = command_generator.commands(SEED, COUNT)
        with harness.Server() as server:
            verdicts = [self.judge(server, command) for command in commands]
        runs = self.trace(commands)
        outcomes = collections.Counter(verdict["outcome"] for verdict in verdicts)
        wrong = []
        reached = 0
        for number, (command, verdict) in enumerate(zip(commands, verdicts)):
            forbidden = [rest for name, rest in runs[number]
                         if name in FORBIDDEN or (name == "rm" and re.match(r', "-(rf|fr)", "/', rest))]
            reached += bool(forbidden)
            if verdict["outcome"] != "allow":
                continue
            named = {one["program"] for one in verdict["commands"]}
            project = any(risk["kind"] == "project_code" for risk in verdict["risk_factors"])
            others = set() if project else {name for name, _ in runs[number]} - named
            if forbidden or others:
                wrong.append(f"{command!r}: allowed as {sorted(named)}, ran {runs[number]}")
        self.assertEqual(wrong, [], "\n".join(wrong[:20]))
        # The commands are worth something: many ran what is forbidden, many were allowed.
        self.assertGreater(reached, COUNT // 8, outcomes)
        self.assertGreater(outcomes["allow"], COUNT // 8, outcomes)


if __name__ == "__main__":
    unittest.main()
