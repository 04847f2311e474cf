#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Removes the effect of each setting of docs/EFFECTS.md, in turn, and runs the test named by the table: the test
must fail.

    python3 tests/mutate_settings.py [--report FILE] [WORD…]    only the rows that have one of these words in their name or test

Needs the release build, and the needs of the tests: runsc, the image of the runtime microvm, the npm_packages, and
CLOISTER_OPA. Each test runs in a jail, two at a time. Prints for each row `noticed`, `NOT NOTICED`, or why there is
no verdict. The exit code is 1 if any row was not noticed. FILE gets a line for each row, as tests/worker.py writes
them. integration/inert.py removes the effect.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import sys
import tempfile
import time

import suite_run
import suites

TABLE = suites.REPO / "docs" / "EFFECTS.md"
ROW = re.compile(r"^\| `([a-z]+):([^`]+)` \| (?:`([a-z]+)/([a-z_0-9]+) ([A-Za-z_0-9]+\.[A-Za-z_0-9]+)`|none) \|$")
LANES = 2
TIMEOUT = 300
NOTICED, MISSED, SKIPPED = "noticed", "NOT NOTICED", "its test is skipped here"


@dataclasses.dataclass(frozen=True)
class Effect:
    """`folder`, `stem`, `case`: of the test; empty without a test."""

    kind: str
    name: str
    folder: str
    stem: str
    case: str

    @property
    def path(self):
        return suites.HERE / self.folder / f"test_{self.stem}.py"

    def __str__(self):
        return f"{self.kind}:{self.name} ({self.folder}/{self.stem} {self.case})"


def rows(text):
    """→ (the rows of the table, the lines that only look like rows)."""
    found, wrong = [], []
    for line in text.splitlines():
        if not line.startswith("| `"):
            continue
        match = ROW.match(line)
        if match:
            found.append(Effect(*(each or "" for each in match.groups())))
        else:
            wrong.append(line)
    return found, wrong


def judge(code, output):
    """The verdict of a run with a setting without effect."""
    if "cloister serve ended with" in output:
        return "cannot say: the service does not start without it"
    if not re.search(r"^Ran [1-9]", output, re.MULTILINE):
        return f"cannot say: no test ran, and it ended with {code}"
    if code == 0:
        return SKIPPED if re.search(r"^OK \(skipped=", output, re.MULTILINE) else MISSED
    return NOTICED if re.search(r"^FAILED \(", output, re.MULTILINE) else f"cannot say: ended with {code}"


def without(effect):
    """Runs the row's test without the effect → (the verdict, the end of the output, seconds)."""
    suite = suites.Suite(str(effect), [suites.PYTHON, str(effect.path), effect.case], timeout=TIMEOUT)
    env = {**os.environ, **suites.environment("release"), "CLOISTER_INERT": f"{effect.kind}:{effect.name}",
           "PYTHONDONTWRITEBYTECODE": "1"}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=suite_run.work_folder()) as folder:
        os.chmod(folder, 0o755)
        code, timed_out, _ = suite_run.wait(suite, pathlib.Path(folder), suite.command, env, jailed=True)
        text = (pathlib.Path(folder) / "output").read_text(errors="replace")
    verdict = f"cannot say: it took more than {TIMEOUT} s" if timed_out else judge(code, text)
    return verdict, text[-1500:], time.monotonic() - start


OUTCOMES = {NOTICED: "passed", SKIPPED: "skipped"}


def run(effects, report):
    """→ whether each was noticed, or its test is skipped here."""
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        for effect, (verdict, output, seconds) in zip(effects, pool.map(without, effects)):
            outcome = OUTCOMES.get(verdict, "failed")
            counts[outcome] += 1
            print(f"{verdict:12} {effect}", *([output] if outcome == "failed" else []), sep="\n", flush=True)
            detail = {"passed": "", "skipped": verdict, "failed": f"{verdict}\n{output}"}[outcome]
            line = {"name": str(effect), "outcome": outcome, "detail": detail, "seconds": round(seconds, 3)}
            print(json.dumps(line), file=report, flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return counts["failed"] == 0


def main():
    parser = argparse.ArgumentParser(description="Takes from each setting its effect; the test that is named for it must fail.")
    parser.add_argument("--report", default=os.devnull)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    effects, wrong = rows(TABLE.read_text())
    if wrong:
        print("not rows of the table:", *wrong, sep="\n  ")
        return 2
    chosen = [each for each in effects if each.case]
    if options.words:
        chosen = [each for each in chosen if any(word in str(each) for word in options.words)]
    with open(options.report, "w") as report:
        return 0 if run(chosen, report) else 1


if __name__ == "__main__":
    sys.exit(main())
