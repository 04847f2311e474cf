# SPDX-License-Identifier: Apache-2.0
"""The suites, the tier of each, and the budget of each.

A suite is a file or program, with a name such as style/layers, unit/base, integration/api, hostile/kernel,
user/hostile/kernel (the same as an ordinary user), warm/hostile/kernel (the same in copies of a zygote),
gvisor/hostile/kernel, nested/hostile/kernel, guest, asan/unit/base, tsan/integration/api, replay/json, fuzz/json.

tests/suites.tsv lists each suite with its tier and its budget. `load()` refuses a list whose names differ from the
suites of the tree, so that no suite can be left out of both tiers.
"""

import dataclasses
import os
import pathlib
import re

import fuzzing

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", REPO / "build"))
TABLE = HERE / "suites.tsv"

PYTHON = "/usr/bin/python3"
PRESETS = ("release", "asan", "tsan")
LANDING, LONG = "landing", "long"
ALONE = "alone"  # a note in the table: nothing else may use the processors meanwhile
MOST_WALL = 45  # seconds a suite may be budgeted without a reason in its note
FOLDERS = ("integration", "hostile", "fault", "tools")
RESULTS = pathlib.Path("/tmp/results")  # the caller's folder, in the names of tests/jail.py
# The suites with a second run in ready sandboxes, and within a session's sandbox in gVisor.
WARM = {"hostile": ("clients", "kernel", "processes", "residue"), "fault": ("kill", "disk_full")}
NESTED = ("kernel",)
# The suites with a second run in gVisor, and, emulated and so slowly, in virtual machines.
GUESTS = {"gvisor": ("kernel", "processes", "egress"), "microvm": ("kernel", "processes", "egress")}
# The suites of the server that each sanitizer's build runs beside its unit tests.
SANITIZED = {
    "asan": ("integration/test_*", "hostile/test_*", "fault/test_*"),
    "tsan": ("integration/test_api*", "integration/test_prestart"),
}
# The folders with threads or coroutines of the server, as ./dev builds them. The others make processes by raw
# clone3(2), which ThreadSanitizer cannot follow, or have a single thread.
TSAN_UNITS = ("store", "orchestrator", "api", "node")
# Tests of a unit program with costs of their own, and so suites of their own: Gvisor/… and Microvm…/….
APART = {"sandbox": ("gvisor", "microvm")}
SANITIZER_ENV = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
FUZZ_SECONDS = 600  # all targets together, in the long tier
# The parts of the long tier, by the first word of a suite's name; all others are in the part "counts".
PARTS = {
    "style": "lint: format, clang-tidy on all units, layers, links, commit titles",
    "units": "unit tests of the release build",
    "counts": "the release build with the full counts of kills, claims and soak runs",
    "effects": "each setting without its effect, of which its test must fail",
    "opa": "the real Open Policy Agent",
    "user": "hostile programs as an ordinary user",
    "warm": "hostile programs in copies of a zygote",
    "gvisor": "hostile programs in gVisor, and in sandboxes within it",
    "microvm": "hostile programs in emulated virtual machines",
    "guest": "another kernel with cgroup v2: all suites",
    "asan": "everything under AddressSanitizer and UndefinedBehaviorSanitizer",
    "tsan": "the server under ThreadSanitizer",
    "fuzz": "fuzzing, and replay of the corpora",
}
PART_OF = {"systemd": "guest", "unit": "units", "nested": "gvisor", "replay": "fuzz"}
# A suite's needs from ./dev test, by a word in its command, its environment or its file.
NEEDS = {"npm": r"mcp_npm|oidc_provider|npm_packages|sbom_schema|web_case", "web": r"web_bundle|web_case", "runsc": r"gvisor|runsc", "microvm": r"microvm", "opa": r"CLOISTER_OPA"}


@dataclasses.dataclass
class Suite:
    """A process to run: its results come as JSON lines, gtest XML, or its exit code alone."""

    name: str
    command: list
    kind: str = "python"  # "python", "gtest", "fuzz"
    preset: str = "release"
    timeout: int = 600  # seconds
    jailed: bool = True
    env: dict = dataclasses.field(default_factory=dict)

    @property
    def part(self):
        if self.preset == "release" and self.name.endswith(("integration/opa", "_microvm")):
            return re.split("[/_]", self.name)[-1]
        first = self.name.split("/")[0]
        first = PART_OF.get(first, first)
        return first if first in PARTS else "counts"

    @property
    def unit(self):
        """The folder of src/ whose unit tests the suite runs; None for another suite."""
        return pathlib.Path(self.command[0]).name.removesuffix("_test") if self.kind == "gtest" else None

    @property
    def program(self):
        """The program that must be built for the suite; None for a suite without a program."""
        if self.kind != "python":
            return pathlib.Path(self.command[0 if self.kind == "gtest" else 2])
        if self.name.startswith(("style/", "tools/")) and "harness.BIN" not in pathlib.Path(self.command[2]).read_text():
            return None
        return BUILD / self.preset / "bin" / "cloister"

    def needs(self):
        """Names of NEEDS, and of the needed builds: a preset, or the units of the release build."""
        files = [pathlib.Path(word) for word in self.command if word.endswith(".py")]
        text = " ".join([*self.command, *self.env.values(), *(file.read_text() for file in files)])
        built = {"units"} if self.name.startswith("unit/") else {self.preset} - {"release"}
        return built | {need for need, words in NEEDS.items() if re.search(words, text)}


@dataclasses.dataclass
class Row:
    """A line of the table. `cpu` and `wall`: seconds on one of two shared cores, four lanes; None: no budget."""

    tier: str
    cpu: float | None
    wall: float | None
    note: str = ""


# --- the table ------------------------------------------------------------------------------------


def seconds(text):
    return None if text == "-" else float(text)


def table(path=TABLE):
    """{suite: Row}, and the row "total" for a whole run of the landing tier."""
    rows = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) not in (4, 5) or fields[1] not in (LANDING, LONG):
            raise ValueError(f"{path.name}:{number}: not `suite TAB landing|long TAB cpu TAB wall [TAB note]`: {line!r}")
        name, tier, cpu, wall = fields[:4]
        if name in rows:
            raise ValueError(f"{path.name}:{number}: {name} is there twice")
        rows[name] = Row(tier, seconds(cpu), seconds(wall), fields[4] if len(fields) == 5 else "")
    return rows


def problems(rows, names):
    """The errors of the table, as lines: a suite without a row, a row without a suite or without a budget."""
    found = [f"{name}: not in tests/suites.tsv; give it a tier and a budget" for name in names if name not in rows]
    found += [f"{name}: in tests/suites.tsv, and there is no such suite" for name in rows
              if name != "total" and name not in names]
    for name, row in rows.items():
        if row.tier == LANDING and (row.cpu is None or row.wall is None):
            found.append(f"{name}: a suite of the landing tier has a budget")
        elif name != "total" and row.tier == LANDING and row.wall > MOST_WALL and not row.note:
            found.append(f"{name}: {row.wall:.0f} s are more than {MOST_WALL}: make it shorter, or say why in the note")
    return found


# --- discovery ------------------------------------------------------------------------------------


def environment(preset):
    env = {"CLOISTER_BIN": str(BUILD / preset / "bin"), "CLOISTER_TEST_REPO": str(REPO),
           "CLOISTER_MICROVM": str(BUILD / "microvm")}  # the image made by ./dev test
    return env if preset == "release" else {**env, "CLOISTER_SANITIZER": preset, **SANITIZER_ENV}


def python_suite(path, preset="release", prefix="", timeout=600, jailed=True, **env):
    short = path.stem.removeprefix("test_").removeprefix("check_")
    name = "/".join(part for part in (prefix, path.parent.name, short) if part)
    command = [PYTHON, str(HERE / "worker.py"), str(path), "REPORT"]
    return Suite(name, command, preset=preset, timeout=timeout, jailed=jailed, env={**environment(preset), **env})


def test_files(*folders):
    return [path for folder in folders for path in sorted((HERE / folder).glob("test_*.py"))]


def unit_folders(preset):
    """The folders of src/ with unit tests that a preset builds."""
    folders = {path.relative_to(REPO / "src").parts[0] for path in (REPO / "src").rglob("*_test.cc")}
    return sorted(folders & set(TSAN_UNITS) if preset == "tsan" else folders)


def unit_suites(preset):
    prefix = "" if preset == "release" else f"{preset}/"
    for folder in unit_folders(preset):
        apart = {name: f"{name.capitalize()}*" for name in APART.get(folder, ())}
        filters = {folder: "-" + ":".join(apart.values()), **{f"{folder}_{name}": tests for name, tests in apart.items()}}
        for name, tests in filters.items():
            command = [str(BUILD / preset / "bin" / f"{folder}_test"), "--gtest_output=xml:REPORT", f"--gtest_filter={tests}"]
            yield Suite(f"{prefix}unit/{name}", command, "gtest", preset, 1200, env=environment(preset))


def fuzz_suites():
    """Each target twice: with its kept corpus alone (replay), and looking for more (fuzz)."""
    total = os.environ.get("CLOISTER_FUZZ_SECONDS", FUZZ_SECONDS)
    for kind, replay in (("replay", True), ("fuzz", False)):
        for name, command, limit in fuzzing.commands(BUILD / "asan", REPO, total, replay):
            yield Suite(f"{kind}/{name}", command, "fuzz", "asan", limit, env=SANITIZER_ENV)


def release_suites(limit):
    suites = [python_suite(path, timeout=max(limit, 3600), jailed=False) for path in sorted((HERE / "style").glob("check_*.py"))]
    suites += [*unit_suites("release")]
    suites += [python_suite(path, timeout=limit) for path in test_files(*FOLDERS)]
    suites += [python_suite(path, prefix="user", timeout=limit, CLOISTER_AS_USER="1") for path in test_files("hostile")]
    again = [("warm", folder, name, {"CLOISTER_WARM": "1"}) for folder, names in WARM.items() for name in names]
    again += [(runtime, "hostile", name, {"CLOISTER_RUNTIME": runtime}) for runtime, names in GUESTS.items()
              for name in names]
    again += [("nested", "hostile", name, {"CLOISTER_RUNTIME": "gvisor", "CLOISTER_NESTED": "1"}) for name in NESTED]
    suites += [python_suite(HERE / folder / f"test_{name}.py", prefix=prefix, timeout=limit, **env)
               for prefix, folder, name, env in again]
    # Its tests have jails of their own.
    suites.append(Suite("effects", [PYTHON, str(HERE / "mutate_settings.py"), "--report", "REPORT"], timeout=max(limit, 7200),
                        jailed=False))
    # The guest fetches a kernel, which a jail without a network cannot.
    suites.append(Suite("guest", [PYTHON, str(HERE / "guest" / "guest.py"), "REPORT"], timeout=max(limit, 1500),
                        jailed=False))
    suites.append(Suite("systemd", [PYTHON, str(HERE / "guest" / "systemd.py"), "REPORT"], timeout=max(limit, 2400),
                        jailed=False))
    return suites


def sanitized_suites(preset, limit):
    suites = [*unit_suites(preset), *(fuzz_suites() if preset == "asan" else ())]
    paths = sorted({path for pattern in SANITIZED[preset] for path in HERE.glob(f"{pattern}.py")})
    return suites + [python_suite(path, preset, preset, timeout=max(limit, 1200)) for path in paths]


def discover(full=False):
    """Every suite of the tree, built or not. `full`: with time for the full counts."""
    limit = 7200 if full else 900  # a suite with emulated machines takes 530 s on a slow machine
    suites = release_suites(limit)
    for preset in PRESETS[1:]:
        suites += sanitized_suites(preset, limit)
    return suites
