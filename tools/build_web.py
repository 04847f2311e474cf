#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the web interface into build/web, unless the built files are those of the sources (docs/adr/0118).

    tools/build_web.py [OUTPUT]

Needs npm, and a network for packages that are not installed yet. Ends with 1 and the reason if the build fails; the
files of an earlier build stay then.
"""

import fcntl
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[1]
WEB = REPO / "web"
ALSO_READ = (REPO / "policies" / "policy.schema.json",)  # completion in the editor of policies
BUILD_SECONDS = 600
COMPRESSED = (".css", ".js")  # the service sends these as they are to browsers that take gzip


class Failed(Exception):
    """The build failed; the message says why."""


def sources():
    """The files that the build reads."""
    found = [path for path in WEB.rglob("*") if path.is_file() and "node_modules" not in path.relative_to(WEB).parts]
    return sorted([*found, *ALSO_READ])


def digest():
    total = hashlib.sha256()
    for path in sources():
        total.update(f"{path.relative_to(REPO)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def run(*command, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLOISTER_")}
    try:
        done = subprocess.run(command, cwd=WEB, env={**kept, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)} took over {BUILD_SECONDS} s") from None
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def install():
    """npm's packages of the lock, unless they are installed."""
    installed = WEB / "node_modules" / ".cloister-lock"
    lock = (WEB / "package-lock.json").read_text()
    if installed.exists() and installed.read_text() == lock:
        return
    if shutil.which("npm") is None:
        raise Failed("npm is not installed: apt-get install npm")
    run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=2", "--fetch-timeout=60000")
    installed.write_text(lock)


def build(output):
    """Checks and builds, beside `output`, and puts the files there at the end. The folder `output` itself stays: links lead there."""
    fresh = output.parent / f"{output.name}.fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    tools = WEB / "node_modules" / ".bin"
    run(str(tools / "tsc"), "-p", ".")
    run(str(tools / "vite"), "build", "--logLevel", "warn", CLOISTER_WEB_OUT=str(fresh))
    for path in [each for each in (fresh / "assets").iterdir() if each.suffix in COMPRESSED]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    output.mkdir(parents=True, exist_ok=True)
    for old in output.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for new in fresh.iterdir():
        new.rename(output / new.name)
    fresh.rmdir()


def main():
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else REPO / "build" / "web").absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    mark = output.parent / f"{output.name}.sha256"
    with open(output.parent / f"{output.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = digest()
        if mark.exists() and mark.read_text() == wanted and (output / "index.html").exists():
            return 0
        try:
            install()
            mark.unlink(missing_ok=True)
            build(output)
        except Failed as why:
            print(f"build_web: {why}", file=sys.stderr)
            return 1
        mark.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
