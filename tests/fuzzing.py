#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one fuzz target, for a time or only over its kept corpus, and fails on every finding.

    tests/fuzzing.py PROGRAM (--seconds N | --replay) --found FOLDER [--corpus FOLDER]

A finding is a crash, a sanitizer's report, a leak, a time-out or too much memory. Its input is kept in
FOLDER/findings; the path is printed, and the input itself in base64 if it is small. A target that ends without
keeping an input, such as one that the kernel killed, has failed as well; its seed is printed. New inputs of a timed
run are kept in FOLDER/corpus for the next one.

tests/suites.py gets its command lines from commands().
"""

import argparse
import base64
import os
import pathlib
import secrets
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
TIMEOUT_SECONDS = 10  # for an input
MEMORY_MB = 1024  # libFuzzer compares once a second, and each single allocation at once
HARD_MEMORY_MB = 1536  # AddressSanitizer compares ten times a second
SMALL_BYTES = 4096  # an input up to this size is printed
START_SECONDS = 120  # a target's time beyond its share: to start, and to read its corpus
REPLAY_SECONDS = 300
# AddressSanitizer's quarantine of freed memory counts against the limit, too: by default 256 MB.
ASAN = f"hard_rss_limit_mb={HARD_MEMORY_MB}:quarantine_size_mb=64"


def commands(build, repo, seconds, replay):
    """→ [(name, command, seconds until considered stuck)] for each fuzz target, built or not. Each gets an equal
    share of `seconds`; with `replay` each only runs its kept corpus once."""
    names = sorted(path.stem for path in (pathlib.Path(repo) / "fuzz").glob("*.cc"))
    share = max(1, int(seconds) // max(1, len(names)))
    mode, limit = (["--replay"], REPLAY_SECONDS) if replay else (["--seconds", str(share)], share + START_SECONDS)
    found = []
    for name in names:
        program, kept = pathlib.Path(build) / "bin" / f"fuzz_{name}", pathlib.Path(build) / "fuzz" / name
        command = [sys.executable, str(HERE), str(program), *mode, "--found", str(kept)]
        corpus = pathlib.Path(repo) / "fuzz" / "corpus" / name
        found.append((name, command + (["--corpus", str(corpus)] if corpus.is_dir() else []), limit))
    return found


def command_of(options, findings, seed):
    command = [options.program, f"-seed={seed}", f"-timeout={options.timeout}", f"-rss_limit_mb={MEMORY_MB}",
               "-verbosity=0", "-print_final_stats=0", f"-artifact_prefix={findings}/"]
    if options.replay:
        return [*command, "-runs=0", *options.corpus]
    grown = options.found / "corpus"
    grown.mkdir(parents=True, exist_ok=True)
    return [*command, f"-max_total_time={options.seconds}", str(grown), *options.corpus]


def describe(path):
    """The path of an input, and a small input's bytes."""
    data = path.read_bytes()
    text = f"  {path} ({len(data)} bytes)"
    return f"{text}\n    base64: {base64.b64encode(data).decode()}" if len(data) <= SMALL_BYTES else text


def run(options):
    """→ the exit status: 0 if nothing was found."""
    findings = options.found / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    seed = secrets.randbelow(2**32 - 1) + 1
    command = command_of(options, findings, seed)
    inherited = os.environ.get("ASAN_OPTIONS")
    env = {**os.environ, "ASAN_OPTIONS": f"{inherited}:{ASAN}" if inherited else ASAN}
    status = subprocess.run(command, env=env, stdin=subprocess.DEVNULL).returncode
    new = sorted(set(findings.iterdir()) - before)
    if status == 0 and not new:
        return 0
    ended = f"killed by signal {-status}" if status < 0 else f"status {status}"
    print(f"\nfinding: {pathlib.Path(options.program).name} ended with {ended}", file=sys.stderr)
    for path in new:
        print(describe(path), file=sys.stderr)
    if not new:
        print(f"  no new input was kept. To run it again, with the same seed:\n    {' '.join(command)}", file=sys.stderr)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--found", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--timeout", type=int, default=TIMEOUT_SECONDS, metavar="SECONDS", help="of one input")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--seconds", type=int)
    mode.add_argument("--replay", action="store_true", help="run each input of the corpus once")
    parser.add_argument("--corpus", action="append", default=[], metavar="FOLDER")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
