#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the tree over builds that are already there (`./dev test` makes them).

    tests/run.py [--long] [--strict] [--list] [--build PRESET]… [PATTERN]

A suite is one file or program with a name such as style/layers, unit/base, integration/api,
hostile/kernel, user/hostile/kernel (the same as an ordinary user), warm/hostile/kernel (the same in
copies of a zygote), fault/kill, guest,
asan/unit/base, tsan/unit/store, fuzz/json. PATTERN picks the suites whose name contains it.
Suites that look at nothing but themselves run side by side, and so, after them, do those that look at
nothing but their own server; those that count what a sandbox leaves on the machine run one at a time. With
--build, that preset is built (`./dev build PRESET`) at the lowest priority while the suites of the release
build run; its own suites follow.

A suite that failed is run once more at the end, with nothing beside it, if no more than three failed and no
sanitizer spoke: the machines this runs on are shared. What passed only then counts as passed, and is named
above the last line with how it failed at first: it is a race, of the test or of the product. With --strict,
which --long implies, it has failed: the second run only tells that it does not always. The last line is
`N passed, N failed, N skipped`.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", REPO / "build"))
sys.path.insert(0, str(HERE / "integration"))
import harness  # noqa: E402

PYTHON = "/usr/bin/python3"
PRESETS = ("release", "asan", "tsan")
# What runs at the same time as a suite: whatever looks at nothing but itself, others that have a server of
# their own, or nothing.
ANY, SERVERS, NONE = "any", "servers", "none"
SECOND_TRIES = 3  # more failed suites than this are no accident
SECOND_DETAIL = 2000  # characters, the last ones, of how a case failed that passed later; the rest stands above
SANITIZER_REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")
FUZZ_SECONDS = {False: 60, True: 600}  # all targets together; True: --long
# Units whose programs run in sandboxes, at the lowest weight: beside another suite they would starve.
UNITS_ALONE = ("runtime",)
# What counts on sandboxes that are made ahead, of which there are none while processors are short.
QUIET = ("fault/claims", "fault/soak")
# What asan and tsan run beside their unit tests: all, and the suites that drive the server.
SANITIZED_SUITES = {
    "asan": ("integration/test_*", "hostile/test_*", "fault/test_*"),
    "tsan": ("integration/test_api*", "integration/test_prestart"),
}
# Of those, what takes minutes of emulation to tell what the release build has told: with --long alone.
SANITIZED_LONG = ("fault/test_kill_guests.py",)
# What runs once more in sandboxes that stand ready, copies of a zygote.
WARM_SUITES = {"hostile": ("clients", "kernel", "processes", "residue"), "fault": ("kill", "disk_full")}
# What runs once more in gVisor, and, emulated and so slowly, in virtual machines: the latter not in an
# ordinary run.
GUEST_SUITES = {"gvisor": ("kernel", "processes"), "microvm": ("kernel", "processes")}
# And within a session's sandbox in gVisor, whose limits there are named in `weakened`.
NESTED_SUITES = ("kernel",)
SANITIZER_ENV = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclasses.dataclass
class Suite:
    """One process to run: its results come as JSON lines, gtest XML, or its exit code alone."""

    name: str
    command: list
    kind: str = "python"  # "python", "gtest", "fuzz"
    company: str = NONE  # what it may share the machine with
    timeout: int = 600
    env: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    name: str
    outcome: str  # "passed", "failed", "skipped"
    detail: str = ""
    seconds: float = 0.0


# --- discovery ------------------------------------------------------------------------------------


def company_of(path):
    """Of a Python suite. One that looks for leaks sees those of all servers."""
    if path.parent.name == "style":
        return ANY
    if path.parent.name != "integration" or re.search(r"leakcheck|assert_clean", path.read_text()):
        return NONE
    return SERVERS


def python_suite(path, preset="release", prefix="", timeout=600, **env):
    short = path.stem.removeprefix("test_").removeprefix("check_")
    name = "/".join(part for part in (prefix, path.parent.name, short) if part)
    env["CLOISTER_BIN"] = str(BUILD / preset / "bin")
    if preset != "release":
        env |= {"CLOISTER_SANITIZER": preset, **SANITIZER_ENV}
    command = [PYTHON, str(HERE / "worker.py"), str(path)]
    return Suite(name, command, company=company_of(path), timeout=timeout, env=env)


def unit_suites(preset):
    env = {"CLOISTER_BIN": str(BUILD / preset / "bin")}
    if preset != "release":
        env |= {"CLOISTER_SANITIZER": preset, **SANITIZER_ENV}
    prefix = "" if preset == "release" else f"{preset}/"
    for program in sorted((BUILD / preset / "bin").glob("*_test")):
        short = program.name.removesuffix("_test")
        yield Suite(f"{prefix}unit/{short}", [str(program)], "gtest", company=NONE if short in UNITS_ALONE else ANY,
                    timeout=1200 if short in UNITS_ALONE else 300, env=env)


def fuzz_suites(long):
    programs = sorted((BUILD / "asan" / "bin").glob("fuzz_*"))
    if not programs:
        return
    total = int(os.environ.get("CLOISTER_FUZZ_SECONDS", FUZZ_SECONDS[long]))
    each = max(1, total // len(programs))
    for program in programs:
        kept = REPO / "fuzz" / "corpus" / program.name.removeprefix("fuzz_")
        found = BUILD / "asan" / "corpus" / program.name
        found.mkdir(parents=True, exist_ok=True)
        command = [str(program), f"-max_total_time={each}", "-rss_limit_mb=1024", "-timeout=10",
                   "-print_final_stats=0", "-verbosity=0", f"-artifact_prefix={found}.crash-", str(found)]
        if kept.is_dir():
            command.append(str(kept))
        name = f"fuzz/{program.name.removeprefix('fuzz_')}"
        yield Suite(name, command, "fuzz", company=ANY, timeout=each + 120, env=dict(SANITIZER_ENV))


def discover(long, pattern, presets=PRESETS):
    """Every suite of these presets' builds, in the order in which they are started."""
    suites = release_suites(long, units=long or bool(pattern)) if "release" in presets else []
    for preset in presets:
        if preset != "release":
            suites += sanitized_suites(preset, long)
    return [suite for suite in suites if pattern in suite.name]


def release_suites(long, units):
    """With `units`, what an ordinary run leaves out: the unit tests without sanitizers, which it does not
    compile, and hostile programs in virtual machines."""
    suites = [python_suite(p, timeout=3600 if long else 900)
              for p in sorted((HERE / "style").glob("check_*.py"))]
    suites += unit_suites("release") if units else []
    limit = 7200 if long else 600
    for folder in ("integration", "security", "hostile", "fault"):
        suites += [python_suite(p, timeout=limit) for p in sorted((HERE / folder).glob("test_*.py"))]
    if harness.ROOT:  # an ordinary user has just run all of this as an ordinary user
        suites += [python_suite(p, prefix="user", timeout=limit, CLOISTER_AS_USER="1")
                   for p in sorted((HERE / "hostile").glob("test_*.py"))]
    suites += [python_suite(HERE / folder / f"test_{name}.py", prefix="warm", timeout=limit, CLOISTER_WARM="1")
               for folder, names in WARM_SUITES.items() for name in names]
    suites += [python_suite(HERE / "hostile" / f"test_{name}.py", prefix=runtime, timeout=limit, CLOISTER_RUNTIME=runtime)
               for runtime, names in GUEST_SUITES.items() if units or runtime != "microvm" for name in names]
    suites += [python_suite(HERE / "hostile" / f"test_{name}.py", prefix="nested", timeout=limit,
                            CLOISTER_RUNTIME="gvisor", CLOISTER_NESTED="1") for name in NESTED_SUITES]
    suites.append(Suite("guest", [PYTHON, str(HERE / "guest" / "guest.py")], timeout=3600 if long else 1500))
    return suites


def sanitized_suites(preset, long):
    suites = list(unit_suites(preset))
    if preset == "asan":
        suites += fuzz_suites(long)
    if (BUILD / preset / "bin" / "cloisterd").exists():
        paths = sorted({p for pattern in SANITIZED_SUITES[preset] for p in HERE.glob(f"{pattern}.py")})
        paths = [p for p in paths if long or not str(p).endswith(SANITIZED_LONG)]
        suites += [python_suite(p, preset, preset, timeout=1200) for p in paths]
    return suites


# --- running --------------------------------------------------------------------------------------


def gtest_cases(report):
    """The cases of a GoogleTest XML report."""
    cases = []
    for element in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{element.get('classname')}.{element.get('name')}"
        failures = [f.text or f.get("message", "") for f in element.findall("failure")]
        skipped = element.find("skipped")
        outcome = "failed" if failures else "skipped" if skipped is not None else "passed"
        detail = "\n".join(failures) if failures else ""
        if skipped is not None and not failures:
            detail = (skipped.get("message") or "").strip().splitlines()[-1:] or ["no reason given"]
            detail = detail[0]
        cases.append(Case(name, outcome, detail, float(element.get("time", 0))))
    return cases


def json_cases(report):
    """The cases of a worker's report; one that started and never ended has failed."""
    cases, running = [], None
    with open(report) as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["outcome"] == "started":
                running = entry["name"]
                continue
            if entry["name"] == running:
                running = None
            cases.append(Case(entry["name"], entry["outcome"], entry["detail"], entry["seconds"]))
    if running:
        cases.append(Case(running, "failed", "it did not end"))
    return cases


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def end_tree(process):
    for pid in reversed(harness.descendants(process.pid)):
        send(pid, signal.SIGKILL)


def run_suite(suite, long):
    """Runs it to its end or its time-out → (cases, output)."""
    with tempfile.TemporaryDirectory(prefix="cloister-suite.") as folder:
        os.chmod(folder, 0o755)
        report, output = pathlib.Path(folder) / "report", pathlib.Path(folder) / "output"
        report.touch()
        command = list(suite.command)
        if suite.kind == "python":
            command.append(str(report))
        elif suite.kind == "gtest":
            command.append(f"--gtest_output=xml:{report}")
        env = {**os.environ, **suite.env, "CLOISTER_LONG": "1" if long else "0", "PYTHONDONTWRITEBYTECODE": "1"}
        timed_out = False
        with open(output, "wb") as sink:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                                       env=env, cwd=REPO, start_new_session=True)
            try:
                code = process.wait(suite.timeout)
            except subprocess.TimeoutExpired:
                timed_out, code = True, None
                end_tree(process)
                process.wait()
        text = output.read_text(errors="replace")
        return collect(suite, report, code, timed_out, text), text


def collect(suite, report, code, timed_out, text):
    cases = []
    try:
        if suite.kind == "gtest" and report.stat().st_size:
            cases = gtest_cases(report)
        elif suite.kind == "python":
            cases = json_cases(report)
    except (ValueError, xml.etree.ElementTree.ParseError) as error:
        cases = [Case("report", "failed", f"unreadable: {error}")]
    if suite.kind == "fuzz" and code == 0:
        cases = [Case("no finding", "passed")]
    if timed_out:
        cases.append(Case("(time-out)", "failed", f"killed after {suite.timeout} s\n{text[-4000:]}"))
    elif code != 0 and not any(case.outcome == "failed" for case in cases):
        cases.append(Case("(exit)", "failed", f"ended with {code}\n{text[-8000:]}"))
    elif not cases:
        cases = [Case("(nothing)", "failed", "it ran no test at all")]
    return cases


class Printer:
    """One line per suite as it ends, and its failures in full."""

    def __init__(self, total, strict=False):
        self._lock, self._done, self._total = threading.Lock(), 0, total
        self._strict = strict
        self.cases = []
        self.second = []  # what passed only when it ran again: (name, how it had failed)

    def more(self, suites):
        with self._lock:
            self._total += suites

    def suite(self, suite, cases, output, seconds):
        counts = collections.Counter(case.outcome for case in cases)
        with self._lock:
            self._done += 1
            self.cases += [(suite, case) for case in cases]
            mark = "FAIL" if counts["failed"] else "ok  "
            print(f"[{self._done}/{self._total}] {mark} {suite.name}: {counts['passed']} passed"
                  f"{', %d failed' % counts['failed'] if counts['failed'] else ''}"
                  f"{', %d skipped' % counts['skipped'] if counts['skipped'] else ''} ({seconds:.1f} s)", flush=True)
            for line in output.splitlines() if suite.kind == "python" else ():
                if line.startswith("counts: "):
                    print(f"       {line}", flush=True)
            for case in cases:
                if case.outcome == "failed":
                    print(f"\n--- {suite.name} {case.name}\n{case.detail.rstrip()}\n", flush=True)
            if counts["failed"] and suite.kind == "python" and output.strip():
                print(f"--- {suite.name}: its output ends\n{output[-6000:].rstrip()}\n", flush=True)

    def again(self, suite, cases):
        """The second run of a suite that failed: its cases take the place of the first one's, unless strict."""
        if any(case.outcome == "failed" for case in cases):
            return
        with self._lock:
            self.second += [(f"{one.name} {case.name}", case.detail) for one, case in self.cases
                            if one is suite and case.outcome == "failed"]
            if self._strict:
                return
            self.cases = [pair for pair in self.cases if pair[0] is not suite] + [(suite, case) for case in cases]

    def summary(self):
        reasons = collections.defaultdict(list)
        for suite, case in self.cases:
            if case.outcome == "skipped":
                reasons[case.detail.strip() or "no reason given"].append(f"{suite.name} {case.name}")
        if reasons:
            print("\nSkipped:")
            for reason, names in sorted(reasons.items()):
                print(f"  {len(names):3} {reason}\n      {', '.join(names[:3])}{' …' if len(names) > 3 else ''}")
        failed = [f"{suite.name} {case.name}" for suite, case in self.cases if case.outcome == "failed"]
        if failed:
            print("\nFailed:")
            for name in failed:
                print(f"  {name}")
        if self.second:
            print("\nPassed only when run again, alone:")
            for name, detail in self.second:
                print(f"  {name}\n{textwrap.indent(detail.strip()[-SECOND_DETAIL:], ' ' * 6)}")
        counts = collections.Counter(case.outcome for _, case in self.cases)
        print(f"\n{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
        return counts["failed"] == 0 and counts["passed"] > 0


class Builder:
    """Makes the presets' builds one after the other beside the suites, at the lowest priority."""

    def __init__(self, presets):
        self._process = None
        self._builds = {preset: concurrent.futures.Future() for preset in presets}
        if presets:
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for preset, done in self._builds.items():
            command = ["chrt", "--idle", "0", "nice", "-n", "19", str(REPO / "dev"), "build", preset]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            done.set_result(self._process.wait())

    @contextlib.contextmanager
    def paused(self):
        """Nothing is compiled meanwhile."""
        process, stopped = self._process, []
        try:
            # Parents come first, so that soon nothing is left that could start more.
            while process is not None and process.returncode is None:
                running = [pid for pid in (process.pid, *harness.descendants(process.pid)) if pid not in stopped]
                if not running:
                    break
                for pid in running:
                    send(pid, signal.SIGSTOP)
                stopped += running
            yield
        finally:
            for pid in reversed(stopped):
                send(pid, signal.SIGCONT)

    def wait(self, preset):
        """→ whether there is a build of it; at once for one that nobody asked for."""
        return preset not in self._builds or self._builds[preset].result() == 0


def run_suites(suites, long, printer, builder):
    """→ [(suite, output)] of those that failed."""
    failed = []

    def one(suite):
        start = time.monotonic()
        cases, output = run_suite(suite, long)
        printer.suite(suite, cases, output, time.monotonic() - start)
        if any(case.outcome == "failed" for case in cases):
            failed.append((suite, output + "".join(case.detail for case in cases)))

    for company in (ANY, SERVERS):
        with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
            list(pool.map(one, [suite for suite in suites if suite.company == company]))
    for suite in suites:
        if suite.company == NONE:
            with builder.paused() if suite.name.endswith(QUIET) else contextlib.nullcontext():
                one(suite)
    return failed


def run_again(failed, long, printer):
    """Once more, each by itself, what failed and may have been the machine's fault."""
    if len(failed) > SECOND_TRIES:
        return
    for suite, output in failed:
        if suite.kind == "fuzz" or any(word in output for word in SANITIZER_REPORTS):
            continue
        print(f"again: {suite.name}", flush=True)
        cases, text = run_suite(suite, long)
        for case in cases:
            if case.outcome == "failed":
                print(f"\n--- again: {suite.name} {case.name}\n{case.detail.rstrip()}\n{text[-4000:]}\n", flush=True)
        printer.again(suite, cases)


def run_all(options):
    builder = Builder(options.build)
    printer, failed = Printer(0, options.strict), []
    for preset in PRESETS:
        if not builder.wait(preset):
            broken = Suite(f"{preset}/build", [])
            printer.suite(broken, [Case("build", "failed", f"./dev build {preset} failed")], "", 0)
            continue
        suites = discover(options.long, options.pattern, (preset,))
        printer.more(len(suites))
        failed += run_suites(suites, options.long, printer, builder)
    run_again(failed, options.long, printer)
    if not printer.cases:
        print(f"no suite has {options.pattern!r} in its name; --list names them", file=sys.stderr)
    return printer.summary()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="full kill, soak and fuzz counts")
    parser.add_argument("--strict", action="store_true",
                        help="what passes only when run again, alone, has failed; --long implies it")
    parser.add_argument("--list", action="store_true", help="name the suites and run nothing")
    parser.add_argument("--build", action="append", default=[], choices=PRESETS[1:], metavar="PRESET",
                        help="build it beside the suites of the release build, then run its own")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    options.strict |= options.long
    if options.list:
        names = [suite.name for suite in discover(True, options.pattern)]
        print("\n".join(names))
        return 0 if names else 2
    return 0 if run_all(options) else 1


if __name__ == "__main__":
    sys.exit(main())
