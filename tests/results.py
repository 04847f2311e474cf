# SPDX-License-Identifier: Apache-2.0
"""The results of the long tier's suites, kept per commit, so that a part can be interrupted and resumed.

build/long/COMMIT.jsonl has a line for each suite that ran on the commit. Nothing is kept for a tree with uncommitted
changes: the results would belong to no commit.
"""

import datetime
import json
import subprocess

import suites
from suites import BUILD, PARTS, REPO

FOLDER = BUILD / "long"


def git(*arguments, repo=REPO):
    """The output of git, or None if it fails."""
    command = ["git", "-c", f"safe.directory={repo}", "-C", str(repo), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """(commit, "") or (None, why nothing is kept)."""
    head = git("rev-parse", "HEAD")
    if head is None:
        return None, "this is not a git clone"
    if git("status", "--porcelain"):
        return None, "there are changes that are not committed"
    return head, ""


class Results:
    """The results of a commit. `keep()` appends; the newest line of a suite counts."""

    def __init__(self, head):
        self._path = FOLDER / f"{head}.jsonl" if head else None
        self._last = {}
        if self._path and self._path.exists():
            for line in self._path.read_text().splitlines():
                entry = json.loads(line)
                self._last[entry["suite"]] = entry

    def passed(self, name):
        """Whether a case of the suite passed and none failed. A suite whose cases were all skipped has not passed."""
        entry = self._last.get(name)
        return entry is not None and entry["failed"] == 0 and entry["passed"] > 0

    def keep(self, outcome):
        counts = [case.outcome for case in outcome.cases]
        entry = {"suite": outcome.suite.name, "part": outcome.suite.part, "passed": counts.count("passed"),
                 "failed": counts.count("failed"), "skipped": counts.count("skipped"), "wall": round(outcome.wall, 1),
                 "cpu": outcome.cpu, "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
        self._last[outcome.suite.name] = entry
        if self._path:
            FOLDER.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a") as out:
                out.write(json.dumps(entry) + "\n")

    def report(self, everything, parts=tuple(PARTS)):
        """(lines of a table, whether each of these parts passed whole)."""
        lines = [f"{'part':9} {'state':12} {'suites':>9} {'passed':>7} {'failed':>7} {'skipped':>8} {'wall s':>8} {'cpu s':>8}"]
        complete = True
        for part, what in PARTS.items():
            if part not in parts:
                continue
            names = [suite.name for suite in everything if suite.part == part]
            ran = [self._last[name] for name in names if name in self._last]
            failed = [entry["suite"] for entry in ran if entry["failed"]]
            skipped = [entry["suite"] for entry in ran if not entry["failed"] and not entry["passed"]]
            state = part_state(len(names), len(ran), len(failed), len(skipped))
            complete = complete and state == "passed"
            total = {key: sum(entry[key] or 0 for entry in ran) for key in ("passed", "failed", "skipped", "wall", "cpu")}
            lines.append(f"{part:9} {state:12} {len(ran):4}/{len(names):<4} {total['passed']:7} {total['failed']:7} "
                         f"{total['skipped']:8} {total['wall']:8.0f} {total['cpu']:8.0f}  {what}")
            lines += [f"          failed: {name}" for name in failed]
            lines += [f"          skipped whole: {name}" for name in skipped]
        return lines, complete


def part_state(suites_of_it, ran, failed, skipped):
    """The word for a part of the long tier, by the numbers of its suites."""
    if ran == 0:
        return "not run"
    if failed:
        return "failed"
    if ran < suites_of_it:
        return "unfinished"
    return "skipped" if skipped == ran else "passed"


def print_report(parts=()):
    """Prints these parts of the long tier, or all → whether each of them passed on this commit."""
    head, why = commit()
    if head is None:
        print(f"no results: {why}")
        return False
    lines, complete = Results(head).report(suites.discover(), parts or tuple(PARTS))
    print(f"long tier on {head}:\n" + "\n".join(lines))
    return complete
