# SPDX-License-Identifier: Apache-2.0
"""What the suites of the long tier gave, kept per commit, so that a part can be interrupted and resumed.

build/long/COMMIT.jsonl has a line for each suite that ran on that commit. Nothing is kept for a tree with changes
that are not committed: the results would be those of no commit.
"""

import datetime
import json
import subprocess

import suites
from suites import BUILD, PARTS, REPO

FOLDER = BUILD / "long"


def git(*arguments):
    command = ["git", "-c", f"safe.directory={REPO}", "-C", str(REPO), *arguments]
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
    """Of one commit. `keep()` appends; the newest line of a suite counts."""

    def __init__(self, head):
        self._path = FOLDER / f"{head}.jsonl" if head else None
        self._last = {}
        if self._path and self._path.exists():
            for line in self._path.read_text().splitlines():
                entry = json.loads(line)
                self._last[entry["suite"]] = entry

    def passed(self, name):
        entry = self._last.get(name)
        return entry is not None and entry["failed"] == 0

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

    def report(self, everything):
        """(lines of a table, whether every part passed whole)."""
        lines = [f"{'part':9} {'state':12} {'suites':>9} {'passed':>7} {'failed':>7} {'skipped':>8} {'wall s':>8} {'cpu s':>8}"]
        complete = True
        for part, what in PARTS.items():
            names = [suite.name for suite in everything if suite.part == part]
            ran = [self._last[name] for name in names if name in self._last]
            failed = [entry["suite"] for entry in ran if entry["failed"]]
            state = "failed" if failed else "not run" if not ran else "passed" if len(ran) == len(names) else "unfinished"
            complete = complete and state == "passed"
            total = {key: sum(entry[key] or 0 for entry in ran) for key in ("passed", "failed", "skipped", "wall", "cpu")}
            lines.append(f"{part:9} {state:12} {len(ran):4}/{len(names):<4} {total['passed']:7} {total['failed']:7} "
                         f"{total['skipped']:8} {total['wall']:8.0f} {total['cpu']:8.0f}  {what}")
            lines += [f"          failed: {name}" for name in failed]
        return lines, complete


def print_report():
    """→ whether every part of the long tier passed on this commit."""
    head, why = commit()
    if head is None:
        print(f"no results: {why}")
        return False
    lines, complete = Results(head).report(suites.discover())
    print(f"long tier on {head}:\n" + "\n".join(lines))
    return complete
