# SPDX-License-Identifier: Apache-2.0
"""The command filter's verdicts, against the real shells: no allowed command runs a program that the command did not
name, and at the level isolated none writes. The commands run in a jail (command_jail.py)."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import command_generator
import harness
import machine

COUNT = 20_000 if harness.LONG else 500
OPTION_COUNT = 20_000 if harness.LONG else 1000
SEED = int(os.environ.get("CLOISTER_SEED", "20260117"))
JAIL = harness.REPO / "tests/integration/command_jail.py"
EXECVE = re.compile(r'^(\d+)\s+execve\("((?:[^"\\]|\\.)*)", \["((?:[^"\\]|\\.)*)"(.*)$')
RESUMED = re.compile(r"^(\d+)\s+<\.\.\. execve resumed>.*= (-?\d+)")
CHANGE = re.compile(r'^(\d+)\s+(\w+)\((.*)$')
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
CALLS = ("creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,mknod,mknodat,link,linkat,symlink,symlinkat,truncate,chmod,"
         "fchmodat,lchown,chown,fchownat,sethostname,settimeofday,clock_settime,connect")
FORBIDDEN = {"sudo", "dd", "doas", "su"}
# Scripts that start other programs.
HELPERS = {"zgrep": {"gzip", "grep", "egrep", "sed", "cat", "expr", "bzip2", "xz", "zstd"}, "zcat": {"gzip"}, "egrep": {"grep"},
           "fgrep": {"grep"}, "which": {"sh"}, "sdiff": {"diff"}, "diff3": {"diff"}, "diff": {"pr"}}
# Places without lasting changes: a program's own temporary files, and git's index, which `git status` updates.
NOT_A_CHANGE = re.compile(r"/dev/(null|tty|ptmx|pts/.*)|/proc/.*|(/tmp/|/var/tmp/)(cc|sort|sh-thd|tmp\.|zgrep|zdiff|diff)[^/]*|(.*/)?\.git/index.*")


def executed(log):
    """For each command by number: (program, the rest of the line) of all executed programs."""
    runs = collections.defaultdict(list)
    pending = {}
    number = None
    for line in log.splitlines():
        if match := EXECVE.match(line):
            pid, path, first, rest = match.groups()
            if first.startswith("cmd-"):
                number = int(first[4:])
                continue
            if path == "/proc/self/exe":  # busybox, under the applet's name
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
    for where, path, rest in pending.values():  # killed during the call: counts as done
        runs[where].append((path.rpartition("/")[2], rest))
    return runs


def changes(log):
    """For each command by number: changes, tried changes in the file system or the machine, and connections."""
    found = collections.defaultdict(set)
    number = None
    for line in log.splitlines():
        match = CHANGE.match(line)
        if match is None:
            continue
        _, call, rest = match.groups()
        if call == "execve":
            if named := re.match(r'"(?:[^"\\]|\\.)*", \["cmd-(\d+)"', rest):
                number = int(named.group(1))
        elif call in ("open", "openat"):
            path = QUOTED.search(rest)
            if path and re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", rest) and not NOT_A_CHANGE.fullmatch(path.group(1)):
                found[number].add("writes " + path.group(1))
        elif call == "connect":
            if "AF_INET" in rest and "htons(53)" not in rest:  # names are looked up by many: hostname -f, getent
                found[number].add("connects")
        else:
            paths = [path for path in QUOTED.findall(rest) if not NOT_A_CHANGE.fullmatch(path)]
            found[number].update(f"{call} {path}" for path in paths[-1:])
            if call in ("sethostname", "settimeofday", "clock_settime"):
                found[number].add(call)
    return found


def trace(commands, programs=(), seconds=3, calls=""):
    """The log of strace of all commands, in the jail with these programs beside its own."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        root = os.path.join(folder, "root")
        os.mkdir(root)
        jail = ["unshare", "-Urmnpf", "--kill-child", "--mount-proc", "strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=execve" + calls,
                "-e", "signal=none", "-s", "200", "-o", log, sys.executable, str(JAIL), root]
        task = {"commands": commands, "programs": sorted(programs), "seconds": seconds}
        done = subprocess.run(jail, input=json.dumps(task), capture_output=True, text=True, timeout=3000 if harness.LONG else 540)
        if done.stdout.strip() != str(len(commands)):
            raise AssertionError(done.stderr[-2000:])
        return pathlib.Path(log).read_text(encoding="utf-8", errors="replace")


def real_programs():
    """The programs of the manuals that this machine has."""
    names = {name.partition("-")[0] if name.startswith("git-") else name for name in command_generator.manuals() if ":" not in name}
    return sorted(name for name in names if shutil.which(name))


def judge(server, command, level="standard"):
    answer = server.request("POST", "/v1/commands:explain", {"command": command, "level": level})
    if answer.status != 200:
        raise AssertionError(answer.body[:500])
    return answer.json()


def need_jail(case):
    machine.need_program(case, "unshare", "strace", "busybox")
    if subprocess.run(["unshare", "-Urmnpf", "true"], capture_output=True).returncode != 0:
        case.skipTest("this machine gives no user namespaces")


class Oracle(unittest.TestCase):
    def test_nothing_allowed_runs_what_was_not_named(self):
        need_jail(self)
        commands = command_generator.commands(SEED, COUNT)
        with harness.Server() as server:
            verdicts = [judge(server, command) for command in commands]
        runs = executed(trace(commands))
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
        # The commands test something: many ran a forbidden program, many were allowed.
        self.assertGreater(reached, COUNT // 8, outcomes)
        self.assertGreater(outcomes["allow"], COUNT // 8, outcomes)

    def test_nothing_allowed_at_a_level_that_reads_has_another_effect(self):
        need_jail(self)
        commands = command_generator.option_commands(SEED, OPTION_COUNT)
        with harness.Server() as server:
            verdicts = [judge(server, command, "isolated") for command in commands]
        allowed = [(command, verdict) for command, verdict in zip(commands, verdicts) if verdict["outcome"] == "allow"]
        self.assertGreater(len(allowed), OPTION_COUNT // 4, collections.Counter(verdict["outcome"] for verdict in verdicts))
        log = trace([command for command, _ in allowed], real_programs(), 0.5, ",openat,open," + CALLS)
        runs, changed = executed(log), changes(log)
        wrong = []
        for number, (command, verdict) in enumerate(allowed):
            named = {one["program"] for one in verdict["commands"]}
            for one in tuple(named):
                named |= HELPERS.get(one, set())
            others = {name for name, _ in runs[number]} - named
            if others or changed[number]:
                wrong.append(f"{command!r}: ran {sorted(others)}, {sorted(changed[number])}")
        self.assertEqual(wrong, [], "\n".join(wrong[:60]))


if __name__ == "__main__":
    unittest.main()
