#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the tree over builds that are already there (`./dev test` makes them).

    tests/run.py                     the landing tier, what CI runs
    tests/run.py PATTERN             the suites whose names contain PATTERN, of both tiers
    tests/run.py --long [PART…]      the long tier, or parts of it; what passed on this commit is not run again
    tests/run.py --report [PART…]    which parts of the long tier passed on this commit
    tests/run.py --list              the suites of the landing tier; with --long those of the long tier, which are all

tests/suites.py says which suites there are. Each runs in a jail of its own (tests/jail.py), several side by side; where
there can be no jail, they run one after the other. With --build, that preset is built (`./dev build PRESET`) at the
lowest priority while the suites of the release build run; its own suites follow. Of the asan preset, a developer's
landing tier has only the units that changes since CLOISTER_BASE can affect (tests/affected.py).

A case fails also if it is skipped for a reason that tests/skips.txt does not list, and a suite if it is above its budget in
tests/suites.tsv (verdict.judge_costs()). Up to three suites that failed run once more, alone, by the same rules: that tells a
race from a fault, and changes the result only of cases that tests/retries.tsv lists. The last line is
`N passed, N failed, N skipped`. The exit status is 0, or 1 after a failure, or 2 if the arguments are wrong or a build is
missing.
"""

import argparse
import atexit
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import affected
import budget
import results
import suite_run
import suites
import verdict
from suite_run import Case, Outcome

LANES = 2 * (os.cpu_count() or 2)  # suites wait more than they compute
SECOND_TRIES = 3  # more failed suites than this are no race
SECOND_DETAIL = 2000  # characters, the last, of the failure of a case that passed later
SANITIZER_REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")


class Refused(Exception):
    """Nothing can run; the text says why, and the remedy."""


class Printer:
    """Prints a line per suite at its end, its failures in full, and the summary. Thread-safe."""

    def __init__(self, total):
        self._lock, self._total = threading.Lock(), total
        self.outcomes = []
        self.second = []  # cases that passed only when run again: (name, how it had failed)

    def suite(self, outcome):
        suite, counts = outcome.suite, collections.Counter(case.outcome for case in outcome.cases)
        with self._lock:
            self.outcomes.append(outcome)
            words = [f"{counts[word]} {word}" for word in ("passed", "failed", "skipped") if counts[word] or word == "passed"]
            took = f"{outcome.wall:.1f} s" + (f", {outcome.cpu:.1f} CPU-s" if outcome.cpu is not None else "")
            print(f"[{len(self.outcomes)}/{self._total}] {'FAIL' if outcome.failed else 'ok  '} {suite.name}: "
                  f"{', '.join(words)} ({took})", flush=True)
            for line in outcome.output.splitlines() if suite.kind == "python" else ():
                if line.startswith("counts: "):
                    print(f"       {line}", flush=True)
            for case in outcome.cases:
                if case.outcome == "failed":
                    print(f"\n--- {suite.name} {case.name}\n{case.detail.rstrip()}\n", flush=True)
            if outcome.failed and suite.kind == "python" and outcome.output.strip():
                print(f"--- {suite.name}: its output ends\n{outcome.output[-6000:].rstrip()}\n", flush=True)

    def summary(self, table, before=0):
        """`before`: the number of suites that passed before this run → whether all is well."""
        cases = [(one.suite, case) for one in self.outcomes for case in one.cases]
        reasons = collections.defaultdict(list)
        for suite, case in cases:
            if case.outcome == "skipped":
                reasons[case.detail.strip()].append(f"{suite.name} {case.name}")
        if reasons:
            print("\nSkipped, for reasons that tests/skips.txt allows:")
            for reason, names in sorted(reasons.items()):
                print(f"  {len(names):3} {reason}\n      {', '.join(names[:3])}{' …' if len(names) > 3 else ''}")
        print("\nMost processor time:", *verdict.worst(self.outcomes, table), sep="\n")
        print(f"  {sum(one.cpu or 0 for one in self.outcomes):7.0f} CPU-s in all suites")
        failed = [f"{suite.name} {case.name}" for suite, case in cases if case.outcome == "failed"]
        if failed:
            print("\nFailed:", *failed, sep="\n  ")
        if self.second:
            print("\nPassed when run again, alone:")
            for name, detail in self.second:
                print(f"  {name}\n{textwrap.indent(detail.strip()[-SECOND_DETAIL:], ' ' * 6)}")
        counts = collections.Counter(case.outcome for _, case in cases)
        print(f"\n{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
        return counts["failed"] == 0 and counts["passed"] + before > 0


class Builder:
    """Makes the presets' builds in turn beside the suites, at the lowest priority. Its process ends with this
    process."""

    def __init__(self, presets, chosen):
        self._process = None
        self._chosen = chosen
        atexit.register(self._end)
        self._builds = {preset: concurrent.futures.Future() for preset in presets}
        if presets:
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for preset, done in self._builds.items():
            command = ["chrt", "--idle", "0", "nice", "-n", "19", str(suites.REPO / "dev"), "build", preset,
                       "--units", *units(self._chosen, preset)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            # The kernel's autogroups (sched(7)) weigh sessions, and priorities only within a session.
            with contextlib.suppress(OSError):
                pathlib.Path(f"/proc/{self._process.pid}/autogroup").write_text("19")
            done.set_result(self._process.wait())

    def _end(self):
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)

    def wait(self, preset):
        """→ whether the preset has a build; at once for a preset that nobody asked for."""
        return preset not in self._builds or self._builds[preset].result() == 0

    def above_budget(self, preset):
        """→ a line for each unit whose compilation took more time than its budget. Only after wait()."""
        if preset not in self._builds:
            return []
        return budget.judge(preset, budget.measured(preset, suites.BUILD), budget.read_rows())


def units(chosen, preset):
    """The unit test programs of a preset's build that these suites run."""
    return sorted({pathlib.Path(suite.command[0]).name for suite in chosen if suite.preset == preset and suite.unit})


@contextlib.contextmanager
def ended_on_interrupt(pool):
    """An interrupt ends the running suites, and starts no more."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        pool.shutdown(wait=False, cancel_futures=True)
        suite_run.end_all()
        raise


class Run:
    """A run of some suites: in lanes, the longest first; suites that must be alone, at the end."""

    def __init__(self, chosen, counts, builder, keep):
        self.table = suites.table()
        self._allowed = verdict.rows(verdict.SKIPS, verdict.Skip)
        self._retries = verdict.rows(verdict.RETRIES, verdict.Retry)
        self._counts, self._builder, self._keep = counts, builder, keep
        self._chosen = sorted(chosen, key=self._wall, reverse=True)
        self.printer = Printer(len(chosen))
        why = suite_run.no_jail()
        if why:
            print(f"no jails here, so suites run one after the other: {why}", flush=True)
        self._jailed, self._lanes = not why, 1 if why else LANES

    def _wall(self, suite):
        row = self.table.get(suite.name)
        return row.wall if row is not None and row.wall is not None else suite.timeout

    def _alone(self, suite):
        row = self.table.get(suite.name)
        return row is not None and row.note.split(":")[0] == suites.ALONE

    def _one(self, suite):
        outcome = suite_run.run(suite, self._jailed, self._counts)
        verdict.judge_skips(outcome, self._allowed)
        self.printer.suite(outcome)
        self._keep(outcome)

    def all(self):
        with concurrent.futures.ThreadPoolExecutor(self._lanes) as pool, ended_on_interrupt(pool):
            jobs = []
            for preset in suites.PRESETS:
                some = [suite for suite in self._chosen if suite.preset == preset]
                if some and not self._built(preset):
                    continue
                jobs += [pool.submit(self._one, suite) for suite in some if not self._alone(suite)]
            for job in jobs:
                job.result()
        for suite in self._chosen:
            if self._alone(suite):
                self._one(suite)
        self._again()
        if not self._counts:
            self._judge_costs()

    def _judge_costs(self):
        outcomes = self.printer.outcomes
        over = verdict.costs_above(outcomes, self.table)
        if verdict.is_the_machine(over, outcomes):
            print(f"\n{len(over)} of {len(outcomes)} suites are above their budgets. So many are the machine's doing, and fail nothing:")
            print(*(f"  {outcome.suite.name}: {why}" for outcome, why in over), sep="\n", flush=True)
        for outcome in verdict.judge_costs(outcomes, self.table):
            print(f"\n--- {outcome.suite.name} {outcome.cases[-1].name}\n{outcome.cases[-1].detail}", flush=True)

    def _built(self, preset):
        """Waits for a preset's build, and prints an outcome if the build failed or was too slow → whether its suites
        can run."""
        if not self._builder.wait(preset):
            cases = [Case("build", "failed", f"./dev build {preset} failed")]
        elif above := self._builder.above_budget(preset):
            detail = "\n".join(["above the budget of compiling (tests/budget/compile.tsv):", *above])
            cases = [Case("(budget)", "failed", detail)]
        else:
            return True
        self.printer.suite(Outcome(suites.Suite(f"{preset}/build", []), cases, "", 0))
        return cases[0].name == "(budget)"

    def _again(self):
        """Runs failed suites again, each by itself, if the failures may be races."""
        failed = [outcome for outcome in self.printer.outcomes if outcome.failed]
        for outcome in failed if len(failed) <= SECOND_TRIES else ():
            text = outcome.output + "".join(case.detail for case in outcome.cases)
            if not outcome.suite.command or outcome.suite.kind == "fuzz" or any(w in text for w in SANITIZER_REPORTS):
                continue
            print(f"again: {outcome.suite.name}", flush=True)
            second = suite_run.run(outcome.suite, self._jailed, self._counts)
            verdict.judge_skips(second, self._allowed)
            for case in second.cases:
                if case.outcome == "failed":
                    print(f"\n--- again: {outcome.suite.name} {case.name}\n{case.detail.rstrip()}\n"
                          f"{second.output[-4000:]}\n", flush=True)
            later = verdict.judge_second(outcome, second, self._retries)
            self.printer.second += [(f"{outcome.suite.name} {name}", detail) for name, detail in later]
            if later:
                self._keep(outcome)


def landing(options):
    return options.long is None and not options.pattern


def choose(options):
    """The suites of this run."""
    everything = suites.discover(full=options.long is not None)
    if options.long is not None:
        wanted = options.long or list(suites.PARTS)
        return [suite for suite in everything if suite.part in wanted]
    if options.pattern:
        # Whole words of the path if there are any ("guest" is not "hostile/guests"), otherwise a part of the name.
        words = [suite for suite in everything if f"/{options.pattern}/" in f"/{suite.name}/"]
        some = words or [suite for suite in everything if options.pattern in suite.name]
        # The sanitized copies of a suite only if the pattern says so: their builds take long.
        chosen = [suite for suite in some if not suite.name.startswith(suites.PRESETS[1:])
                  or options.pattern.startswith(suites.PRESETS[1:])]
        if not chosen:
            raise Refused(f"no suite has {options.pattern!r} in its name; ./dev test --long --list names them")
        return chosen
    table = suites.table()
    return [suite for suite in everything if suite.name in table and table[suite.name].tier == suites.LANDING]


def needs(options):
    """The needs of this run's suites. The landing tier does without a real Open Policy Agent."""
    chosen = choose(options)
    if landing(options):
        chosen, _ = affected.narrow(chosen)
    wanted = {need for suite in chosen for need in suite.needs()}
    return sorted(wanted - ({"opa"} if landing(options) else set()))


def check_built(chosen, being_built):
    """Refuses suites without their programs. `being_built`: the presets that this run builds."""
    for suite in chosen:
        if suite.preset not in being_built and suite.program is not None and not suite.program.exists():
            whole = "" if suite.preset == "release" else f" {suite.preset}"
            # ./dev build makes the units of the release build only for a test.
            command = f"./dev test {suite.name}" if suite.name.startswith("unit/") else f"./dev build{whole}"
            raise Refused(f"{suite.program} is not built: run {command}")


def run(options):
    start = time.monotonic()
    chosen = choose(options)
    if landing(options):
        chosen, line = affected.narrow(chosen)
        print(line, flush=True)
    done, kept = [], results.Results(None)
    if options.long is not None:
        head, why = results.commit()
        if head is None:
            print(f"results are not kept: {why}", flush=True)
        kept = results.Results(head)
        done = [suite for suite in chosen if kept.passed(suite.name)]
        chosen = [suite for suite in chosen if not kept.passed(suite.name)]
        print(f"{len(done)} suites passed on this commit before; {len(chosen)} are left", flush=True)
        if not chosen:
            return True
    check_built(chosen, options.build)
    counts = options.long is not None or os.environ.get("CLOISTER_LONG") == "1"
    this = Run(chosen, counts, Builder(options.build, chosen), kept.keep)
    this.all()
    over = None
    if landing(options):
        over = verdict.judge_total(this.printer.outcomes, time.monotonic() - start, this.table.get(verdict.TOTAL))
    if over is not None:
        this.printer.suite(over)
    if options.write_budget:
        pathlib.Path(options.write_budget).write_text("\n".join(verdict.budget_lines(this.printer.outcomes, this.table)) + "\n")
    print(f"\n{time.monotonic() - start:.0f} s")
    return this.printer.summary(this.table, len(done))


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    instead = parser.add_mutually_exclusive_group()
    parser.add_argument("--long", nargs="*", choices=[*suites.PARTS], metavar="PART", default=None,
                        help=f"the long tier, or these parts of it: {', '.join(suites.PARTS)}")
    instead.add_argument("--report", nargs="*", choices=[*suites.PARTS], metavar="PART", default=None,
                         help="say which parts of the long tier, or which of these, passed on this commit, and run nothing")
    instead.add_argument("--needs", action="store_true", help="say what must be installed and built before, for ./dev")
    instead.add_argument("--list", action="store_true", help="name the suites and run nothing")
    parser.add_argument("--build", action="append", default=[], choices=suites.PRESETS[1:], metavar="PRESET",
                        help="build it beside the suites of the release build, then run its own")
    parser.add_argument("--write-budget", metavar="FILE", help="write rows for tests/suites.tsv with what this run took")
    parser.add_argument("pattern", nargs="?", metavar="PATTERN")
    options = parser.parse_args(arguments)
    if wrong := wrong_together(options):
        parser.error(wrong)
    return options


def wrong_together(options):
    """Valid arguments of which one would have no effect → why, and the remedy."""
    if options.pattern == "":
        return "PATTERN is empty: leave it out for the landing tier"
    if options.pattern and (options.long is not None or options.report is not None):
        return (f"PATTERN {options.pattern!r} and --long or --report: these take parts ({', '.join(suites.PARTS)}); "
                "run a pattern by itself")
    if (options.list or options.report is not None) and (options.build or options.write_budget):
        return "--build and --write-budget are for a run: leave them out of --list and --report"
    if options.write_budget and not pathlib.Path(options.write_budget).absolute().parent.is_dir():
        return f"--write-budget {options.write_budget}: there is no such folder: make it first"
    return None


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return act(parse())
    except (affected.BadBase, Refused) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2


def act(options):
    if options.report is not None:
        return 0 if results.print_report([*options.report, *(options.long or ())]) else 1
    if options.needs:
        print(*needs(options))
        return 0
    if options.list:
        print(*(suite.name for suite in choose(options)), sep="\n")
        return 0
    return 0 if run(options) else 1


if __name__ == "__main__":
    sys.exit(main())
