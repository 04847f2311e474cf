# SPDX-License-Identifier: Apache-2.0
"""./dev bench [NAME] [ARGUMENT…]: builds and runs bench/NAME_bench.cc (all of them without a name).
Each prints its table, and writes JSON where it is told to: build/bench/NAME.json."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CLOISTER_BUILD", ROOT / "build")) / "release"
NAMES = {path.name.removesuffix("_bench.cc"): path for path in (ROOT / "bench").glob("*_bench.cc")}

# What a benchmark needs beside itself.
PROGRAMS = ("cloister", "cloisterd", "cloister-node", "cloister-runner")


def run(name, arguments):
    target = f"{name}_bench"
    subprocess.run(["ninja", "-C", BUILD, target, *PROGRAMS], check=True, stdout=subprocess.DEVNULL)
    out = BUILD.parent / "bench"
    out.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "CLOISTER_BENCH_OUT": str(out),
                   "CLOISTER_BENCH_DOCS": str(ROOT / "docs")}
    return subprocess.run([BUILD / "bin" / target, *arguments], env=environment).returncode


def main(arguments):
    if arguments and arguments[0] not in NAMES:
        print(f"no benchmark {arguments[0]!r}; there are: {', '.join(sorted(NAMES))}",
              file=sys.stderr)
        return 2
    chosen = arguments[:1] or sorted(NAMES)
    return max(run(name, arguments[1:]) for name in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
