# SPDX-License-Identifier: Apache-2.0
"""Runs the unittest cases of a file and writes a JSON line per case: name, outcome, detail, seconds. tests/run.py
starts a worker per file; so does the guest.

    python3 tests/worker.py FILE REPORT

An exception that ends a thread fails the running test, and so does an exception that Python cannot raise (in
__del__, say). Between tests and after the last test such an exception is a failed case of its own.
"""

import ctypes
import importlib.util
import json
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PR_SET_CHILD_SUBREAPER = 36


class Reporter(unittest.TestResult):
    """Writes each result as soon as known, so that a killed worker loses only the last."""

    def __init__(self, out):
        super().__init__()
        self._out = out
        self._lock = threading.RLock()  # threads of the tests report, too
        self._started = 0.0
        self._bad = None
        self._skipped = None

    def startTest(self, test):
        super().startTest(test)
        with self._lock:
            self._started = time.monotonic()
            self._bad = self._skipped = None
            self._write(test, "started", "")

    def stopTest(self, test):
        super().stopTest(test)
        with self._lock:
            if self._bad is not None:
                self._write(test, "failed", self._bad)
            elif self._skipped is not None:
                self._write(test, "skipped", self._skipped)
            else:
                self._write(test, "passed", "")
            self._started = 0.0

    def lost(self, where, error):
        """An exception outside of any test: fails the running test, or is a failed case `where`."""
        detail = f"{where}:\n{''.join(traceback.format_exception(error))}"
        with self._lock:
            if self._started:
                self._bad = self._joined(detail)
            else:
                self._write(where, "failed", detail)

    def _joined(self, detail):
        return detail if self._bad is None else f"{self._bad}\n{detail}"

    def _note(self, test, detail):
        """A failure inside a running test, or of a class or module around it."""
        if self._started and self._name(test) == self._current(test):
            self._bad = self._joined(detail)
        else:
            self._write(test, "failed", detail)

    def _current(self, test):
        return None if type(test).__name__ == "_ErrorHolder" else self._name(test)

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            text = self._exc_info_to_string(err, test)
            self._bad = f"{self._bad or ''}{subtest._subDescription()}\n{text}"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._bad = "passed although it is marked as an expected failure"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self._started and type(test).__name__ != "_ErrorHolder":
            self._skipped = reason
        else:
            self._write(test, "skipped", reason)

    @staticmethod
    def _name(test):
        return test.id() if hasattr(test, "id") else str(test)

    def _write(self, test, outcome, detail):
        seconds = time.monotonic() - self._started if self._started else 0.0
        name = self._name(test)
        name = name if " " in name else name.split(".", 1)[-1]  # "setUpClass (module.Class)" stays
        line = {"name": name, "outcome": outcome, "detail": detail, "seconds": round(seconds, 3)}
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


def load(path):
    """Imports a file under its own name, with its folder and the shared helpers in the path."""
    sys.path[:0] = [str(path.parent), str(HERE / "integration")]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def catch_lost(reporter):
    """Reports exceptions that Python would only print."""
    def thread_died(args):
        if args.exc_type is not SystemExit:
            name = args.thread.name if args.thread else "unknown"
            reporter.lost(f"(thread {name} died)", args.exc_value)

    def not_raised(args):
        reporter.lost(f"({args.err_msg or 'exception ignored in'} {args.object!r})", args.exc_value)

    threading.excepthook, sys.unraisablehook = thread_died, not_raised


def children():
    me = str(os.getpid())
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
            if text[text.rindex(")") + 2 :].split()[1] == me:
                yield int(path.parent.name)
        except OSError:
            continue


def kill_leftovers(seconds=10):
    """Processes left running by a test were re-parented to this worker: none may outlive the worker."""
    end = time.monotonic() + seconds
    while (left := list(children())) and time.monotonic() < end:
        for pid in left:  # their own children are ours next
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                continue
        time.sleep(0.01)


def main():
    path, report = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A shell ignores SIGINT in its background programs, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = open(report, "a")  # to the end of the process: a thread may outlive the last test, and die
    reporter = Reporter(out)
    catch_lost(reporter)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromModule(load(path))
    except unittest.SkipTest as skip:
        out.write(json.dumps({"name": path.stem, "outcome": "skipped", "detail": str(skip), "seconds": 0}) + "\n")
        out.flush()
        return
    suite.run(reporter)
    kill_leftovers()


if __name__ == "__main__":
    main()
