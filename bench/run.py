# SPDX-License-Identifier: Apache-2.0
"""./dev bench [NAME] [ARGUMENT…]: builds and runs bench/NAME_bench.cc, or runs bench/NAME_bench.py (all of
them without a name). Each prints its table, and writes JSON where it is told to: build/bench/NAME.json."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", ROOT / "build")) / "release"
NAMES = {path.stem.removesuffix("_bench"): path for path in (ROOT / "bench").glob("*_bench.*")}

# Several that are asked for as one.
GROUPS = {"policy": [name for name in ("policy", "filter", "agent") if name in NAMES]}
# What a benchmark needs beside itself.
PROGRAMS = ("cloister", "cloisterd", "cloister-node", "cloister-runner")


def run(name, arguments):
    script = NAMES[name].suffix == ".py"
    targets = PROGRAMS if script else (f"{name}_bench", *PROGRAMS)
    subprocess.run(["ninja", "-C", BUILD, *targets], check=True, stdout=subprocess.DEVNULL)
    out = BUILD.parent / "bench"
    out.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "CLOISTER_BENCH_OUT": str(out),
                   "CLOISTER_BENCH_DOCS": str(ROOT / "docs"), "CLOISTER_BIN": str(BUILD / "bin")}
    command = [sys.executable, NAMES[name]] if script else [BUILD / "bin" / f"{name}_bench"]
    return subprocess.run([*command, *arguments], env=environment).returncode


def main(arguments):
    if arguments and arguments[0] not in (*NAMES, *GROUPS):
        print(f"no benchmark {arguments[0]!r}; there are: {', '.join(sorted({*NAMES, *GROUPS}))}",
              file=sys.stderr)
        return 2
    chosen = GROUPS.get(arguments[0], arguments[:1]) if arguments else sorted(NAMES)
    return max(run(name, arguments[1:]) for name in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
