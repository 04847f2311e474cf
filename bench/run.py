# SPDX-License-Identifier: Apache-2.0
"""./dev bench [NAME] [ARGUMENT…]: builds and runs bench/NAME_bench.cc, or runs bench/NAME_bench.py (all benchmarks
without a name). Each prints its table, and writes JSON to the given place: build/bench/NAME.json."""

import os
import pathlib
import subprocess
import sys

import policy_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", ROOT / "build")) / "release"
NAMES = {path.stem.removesuffix("_bench"): path for path in (ROOT / "bench").glob("*_bench.*")}

# Names for several benchmarks together: a single table reports their lines of JSON.
GROUPS = {"policy": (("policy", "filter", "agent"), policy_table.report)}
# Programs needed by benchmarks.
PROGRAMS = ("cloister", "cloisterd", "cloister-node", "cloister-runner")


def run(name, arguments, **how):
    script = NAMES[name].suffix == ".py"
    targets = PROGRAMS if script else (f"{name}_bench", *PROGRAMS)
    subprocess.run(["ninja", "-C", BUILD, *targets], check=True, stdout=subprocess.DEVNULL)
    out = BUILD.parent / "bench"
    out.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "CLOISTER_BENCH_OUT": str(out),
                   "CLOISTER_BENCH_DOCS": str(ROOT / "docs"), "CLOISTER_BIN": str(BUILD / "bin")}
    command = [sys.executable, NAMES[name]] if script else [BUILD / "bin" / f"{name}_bench"]
    return subprocess.run([*command, *arguments], env=environment, **how)


def run_group(name, arguments):
    members, report = GROUPS[name]
    done = [run(member, arguments, stdout=subprocess.PIPE, text=True) for member in members]
    failed = int(any(each.returncode for each in done))
    if failed == 0:
        report([line for each in done for line in each.stdout.splitlines()], BUILD.parent / "bench",
               ROOT / "docs")
    return failed


def main(arguments):
    if arguments and arguments[0] not in (*NAMES, *GROUPS):
        print(f"no benchmark {arguments[0]!r}; there are: {', '.join(sorted({*NAMES, *GROUPS}))}",
              file=sys.stderr)
        return 2
    if arguments and arguments[0] in GROUPS:
        return run_group(arguments[0], arguments[1:])
    return max(run(name, arguments[1:]).returncode for name in (arguments[:1] or sorted(NAMES)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
