# SPDX-License-Identifier: Apache-2.0
"""A case, and one trial of a case with a driver: what ran, what arrived, and which problems that shows."""

import dataclasses
import time
import traceback
import typing

from doorcheck import inside
from doorcheck.driver import Policy

PASSED, FAILED, UNSUPPORTED, BROKEN = "passed", "failed", "unsupported", "broken"
QUICK_SECONDS = 2.0  # a refusal that takes longer is felt as a hang
CASES = {}


@dataclasses.dataclass(frozen=True)
class Case:
    number: int
    name: str  # of its function
    title: str
    needs: tuple
    check: typing.Callable


def case(number, title, needs=()):
    """A function that takes a Trial is the case `number`."""
    def add(check):
        assert number not in CASES, number
        CASES[number] = Case(number, check.__name__, title, tuple(needs), check)
        return check
    return add


def wait_for(condition, seconds):
    """Polls until `condition()` is truthy and returns it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s")
        time.sleep(0.02)
    return value


@dataclasses.dataclass
class Verdict:
    case: Case
    outcome: str
    problems: list
    seconds: float


class Trial:
    def __init__(self, driver, world, count=1.0):
        self.driver, self.world, self.problems = driver, world, []
        self.count = count  # a factor for the sizes of long cases

    # - running -

    def text(self, code, **values):
        return inside.program(code, CA=self.world.ca, PROXY=self.driver.proxy, **values)

    def run(self, code, policy=Policy(), seconds=60, **values):
        """Runs a program → (Result, events that arrived meanwhile)."""
        start = self.world.mark()
        result = self.driver.run(self.text(code, **values), policy, seconds)
        if not result.tries():
            raise AssertionError(f"the program did not try anything: {result.stdout[-500:]}{result.stderr[-1500:]}")
        return result, self.world.since(start)

    def begin(self, code, policy=Policy(), seconds=60, **values):
        return self.driver.begin(self.text(code, **values), policy, seconds)

    # - judging -

    def problem(self, text):
        self.problems.append(text)

    def refused(self, result, *names, but=()):
        """These attempts failed, or all of them but some, and soon."""
        for name, told in result.tries().items():
            if name in but or (names and name not in names):
                continue
            if told["ok"]:
                self.problem(f"{name}: it worked: {told['said']}")
            elif told["seconds"] > QUICK_SECONDS and not name.startswith(tuple(self.driver.unanswered)):
                self.problem(f"{name}: refused after {told['seconds']} s: {told['said']}")

    def worked(self, result, *names):
        for name in names:
            told = result.tries().get(name)
            if told is None or not told["ok"]:
                self.problem(f"{name}: it should work: {told and told['said']}")

    def nothing_arrived(self, events, *addresses):
        """At these addresses, or anywhere."""
        for event in self.world.reached(events, *addresses)[:5]:
            self.problem(f"it arrived: {brief(event)}")

    def never_asked(self, events, text=""):
        for name in self.world.asked(events, text)[:5]:
            self.problem(f"a query left: {name}")

    def denial_names(self, result, host, port):
        """The product says itself what it refused. A refusal at the look-up knows no port."""
        if not any(each.get("host") == host and each.get("port") in (port, 0) for each in result.denied):
            self.problem(f"the result does not name {host}:{port}: {result.denied}")


def brief(event):
    return ", ".join(f"{key} {value}" for key, value in event.items() if key not in ("at", "headers", "source"))


def judge(each, driver, world, count=1.0):
    """→ Verdict. An error of the trial itself is "broken": neither passed nor failed."""
    start = time.monotonic()
    missing = [feature for feature in each.needs if feature not in driver.features]
    if missing:
        return Verdict(each, UNSUPPORTED, [f"{driver.name} has no {', '.join(missing)}"], 0.0)
    trial = Trial(driver, world, count)
    try:
        world.reset()
        each.check(trial)
        outcome = FAILED if trial.problems else PASSED
    except Exception:
        trial.problem(traceback.format_exc(limit=-4))
        outcome = BROKEN
    return Verdict(each, outcome, trial.problems, time.monotonic() - start)
