# SPDX-License-Identifier: Apache-2.0
"""Dependency layers in numbers: the first request that installs the packages, later runs beside runs without packages, and the
memory and disk of one layer in many sandboxes.

    ./dev bench deps [--pairs N] [--sandboxes N] [--mib N]

The packages are wheels in a folder, so no network is measured. Runs with and without `deps` come in random order from one
client. Each of the sandboxes is a session whose program maps a file of the layer and reads every page.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))
import harness  # noqa: E402
from session_case import Session  # noqa: E402
from test_deps import wheel  # noqa: E402

PAIRS, SANDBOXES, MIB, WARM_UP, SEED = 300, 100, 16, 20, 1
TARGETS = {"second_adds_ms": 10.0, "pss_layers": 2.0, "disk_layers": 1.1}
MAPPED = "data.bin"
HOLD = f"""
import mmap, sys, time
with open('/run/deps/python/big/{MAPPED}', 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for at in range(0, len(mapped), 4096): mapped[at]
print('mapped', flush=True)
sys.stdin.read()
"""


def config(folder, sandboxes):
    return (f"node:\n  images: {folder}/images\n  max_sandboxes: {sandboxes + 16}\nsession:\n  max: {sandboxes}\n  max_per_tenant: {sandboxes}\n"
            f"  memory_percent: 100\nhttp:\n  requests_per_tenant: 1000\npool:\n  ready: 4\npackages:\n  pypi: {{index: {folder}/wheels}}\n"
            "  rules: {undated: allow}\n")


def make_wheels(folder, mib):
    """small: one module. big: a large file, which no compression shortens."""
    wheels = folder / "wheels"
    wheels.mkdir()
    wheel(wheels, "small", "1.0", files=20)
    path = wheel(wheels, "big", "1.0")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"big/{MAPPED}", os.urandom(mib << 20))


def run_ms(server, **request):
    start = time.perf_counter()
    answer = server.submit("pass", wait=120, artifacts=[], **request)
    took = 1000 * (time.perf_counter() - start)
    if answer.status != 200 or answer.json()["exit_code"] != 0:
        raise SystemExit(f"a run failed: {answer.body[:500]!r}")
    return took


def later_runs(server, pairs):
    """Milliseconds of runs without and with packages that are installed already."""
    kinds, order = {"without": {}, "with": {"deps": ["small"]}}, random.Random(SEED)
    taken = {kind: [] for kind in kinds}
    for number in range(WARM_UP + pairs):
        for kind in order.sample(sorted(kinds), 2):
            took = run_ms(server, **kinds[kind])
            if number >= WARM_UP:
                taken[kind].append(took)
    return {kind: {"p50_ms": round(statistics.median(each), 3), "p99_ms": round(sorted(each)[len(each) * 99 // 100], 3)}
            for kind, each in taken.items()}


def mapped_pss():
    """Bytes: the proportional share of all mappings of the file, over all processes of the machine."""
    total = 0
    for maps in pathlib.Path("/proc").glob("[0-9]*/smaps"):
        with contextlib.suppress(OSError):
            counts = False
            for line in maps.read_text(errors="replace").splitlines():
                if "-" in line.split(" ")[0]:
                    counts = line.endswith("/" + MAPPED)
                elif counts and line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
    return total


def disk_of(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def shared(server, folder, sandboxes):
    with contextlib.ExitStack() as stack:
        programs = []
        for _ in range(sandboxes):
            session = stack.enter_context(Session(server, language="python", deps=["big"], memory_mb=64))
            programs.append((session, session.start(HOLD, keep_input=True)))
        for session, program in programs:
            session.wait_output(program, "mapped")
        return {"pss_bytes": mapped_pss(), "disk_bytes": disk_of(folder / "images" / "layers")}


def measure(chosen):
    with tempfile.TemporaryDirectory(prefix="cloister-bench-deps.") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        make_wheels(folder, chosen.mib)
        with harness.Server(config(folder, chosen.sandboxes)) as server:
            for _ in range(WARM_UP):
                run_ms(server)
            found = {"first_ms": round(run_ms(server, deps=["small"]), 1), "runs": later_runs(server, chosen.pairs)}
            run_ms(server, deps=["big"])
            found.update(shared(server, folder, chosen.sandboxes))
    size = chosen.mib << 20
    found["second_adds_ms"] = round(found["runs"]["with"]["p50_ms"] - found["runs"]["without"]["p50_ms"], 3)
    found["pss_layers"] = round(found["pss_bytes"] / size, 2)
    found["disk_layers"] = round(found["disk_bytes"] / size, 2)
    return {**found, "targets": TARGETS, "pairs": chosen.pairs, "sandboxes": chosen.sandboxes, "mib": chosen.mib}


def table(found):
    lines = [f"{'':18}{'p50 ms':>10}{'p99 ms':>10}"]
    lines += [f"{kind + ' packages':18}{row['p50_ms']:10.3f}{row['p99_ms']:10.3f}" for kind, row in found["runs"].items()]
    lines += [f"{'first, installs':18}{found['first_ms']:10.1f}", "",
              f"{found['sandboxes']} sandboxes with a file of {found['mib']} MiB: {found['pss_bytes'] / 2**20:.1f} MiB of memory (PSS), "
              f"{found['disk_bytes'] / 2**20:.1f} MiB of disk", ""]
    lines += [f"{name} {found[name]} (target at most {target})" for name, target in TARGETS.items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--sandboxes", type=int, default=SANDBOXES)
    parser.add_argument("--mib", type=int, default=MIB)
    found = measure(parser.parse_args())
    print(table(found))
    out = os.environ.get("CLOISTER_BENCH_OUT")
    if out:
        pathlib.Path(out, "deps.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
