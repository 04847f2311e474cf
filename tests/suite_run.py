# SPDX-License-Identifier: Apache-2.0
"""Runs a suite to its end, in a jail of its own if possible, and collects its cases."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import suites
from suites import HERE, PYTHON, REPO

sys.path.insert(0, str(HERE / "integration"))
from processes import descendants  # noqa: E402

JAIL = [PYTHON, str(HERE / "jail.py")]
NO_JAIL = 125
END_SECONDS = 30  # for a jail after the request to end
RUNNING = {}  # process: whether the process is a jail
USERS = itertools.count(54_321)  # for the suites that run the service as an ordinary user


@dataclasses.dataclass
class Case:
    name: str
    outcome: str  # "passed", "failed", "skipped"
    detail: str = ""
    seconds: float = 0.0


@dataclasses.dataclass
class Outcome:
    """`cpu`: seconds of all processes of the suite; without a jail, of the reaped processes only. None for a suite
    killed outside of a jail."""

    suite: suites.Suite
    cases: list
    output: str
    wall: float
    cpu: float | None = None

    @property
    def failed(self):
        return any(case.outcome == "failed" for case in self.cases)


def work_folder():
    """The place of suites' files while they run: on the same file system as the builds."""
    folder = suites.BUILD / "suites"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def no_jail():
    """The reason why this machine can have no jails, "" if jails work."""
    with tempfile.TemporaryDirectory(dir=work_folder()) as folder:
        done = subprocess.run([*JAIL, folder, "true"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return "" if done.returncode == 0 else done.stderr.strip() or f"a jail ended with {done.returncode}"


# --- results --------------------------------------------------------------------------------------


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
    """The cases of a worker's report; a case that started and never ended has failed."""
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


# --- running --------------------------------------------------------------------------------------


def end_tree(process):
    for pid in reversed(descendants(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def end_jail(process):
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        end_tree(process)


def end_all():
    """Ends the running suites; their run() returns."""
    for process, jailed in list(RUNNING.items()):
        (end_jail if jailed else end_tree)(process)


def run(suite, jailed, counts):
    """→ Outcome. `counts`: with the full counts of the long tier. A sanitizer's build keeps the ordinary counts:
    sanitizers look for errors on a path, and further rounds take the same paths many times slower."""
    start = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(dir=work_folder()))
    try:
        folder.chmod(0o755)
        (folder / "report").touch()
        jailed = jailed and suite.jailed
        seen = suites.RESULTS if jailed else folder
        command = [word.replace("REPORT", str(seen / "report")) for word in suite.command]
        counts = counts and suite.preset == "release"
        env = {**os.environ, **suite.env, "CLOISTER_LONG": "1" if counts else "0", "PYTHONDONTWRITEBYTECODE": "1",
               "CLOISTER_TEST_USER": str(next(USERS))}
        code, timed_out, cpu = wait(suite, folder, command, env, jailed)
        text = (folder / "output").read_text(errors="replace")
        cases = collect(suite, folder / "report", code, timed_out, text)
        usage = folder / "usage.json"
        if jailed:
            cpu = json.loads(usage.read_text())["cpu_seconds"] if usage.exists() else None
        return Outcome(suite, cases, text, time.monotonic() - start, cpu)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_measured(process, timeout):
    """→ (exit code, CPU-seconds of the process and of its reaped descendants). TimeoutExpired if the process runs
    on."""
    try:
        handle = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(timeout * 1000):
                raise subprocess.TimeoutExpired(process.args, timeout)
        finally:
            os.close(handle)
        _, status, used = os.wait4(process.pid, 0)
    except (ProcessLookupError, ChildProcessError):  # end_all() has waited for it
        return process.wait(), None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def wait(suite, folder, command, env, jailed):
    """→ (exit code, whether ended for taking too long, CPU-seconds by its parent's count)."""
    with open(folder / ("jail" if jailed else "output"), "wb") as sink:
        if jailed:
            command = [*JAIL, str(folder), *command]
            (folder / "output").touch()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env, cwd=REPO,
                                   start_new_session=True)
        RUNNING[process] = jailed
        try:
            code, cpu = wait_measured(process, suite.timeout)
        except subprocess.TimeoutExpired:
            (end_jail if jailed else end_tree)(process)
            return None, True, None
        finally:
            del RUNNING[process]
    if jailed and code == NO_JAIL:
        (folder / "output").write_bytes((folder / "jail").read_bytes())
    return code, False, cpu
