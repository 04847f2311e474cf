# SPDX-License-Identifier: Apache-2.0
"""The suites again on another kernel: Debian's, under cgroup v2, in a QEMU guest in software
emulation. Reports each test of the guest as a test of its own; skips, with the reason, only where no
QEMU or kernel can be had.

    python3 tests/guest/guest.py REPORT          CLOISTER_GUEST_SUITES picks suites by a part of their names

The landing tier runs the suite of the kernel, those of the jails, and one more that the commit picks, so that all have
their turn. The long tier (CLOISTER_LONG=1) runs everything.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import image

TESTS = pathlib.Path(__file__).resolve().parents[1]
QEMU = "qemu-system-x86_64"
LONG = os.environ.get("CLOISTER_LONG") == "1"
SECONDS = 3000 if LONG else 1200
BOOT_SECONDS = 120
ALWAYS = ("hostile/test_kernel", "tools/test_jail", "tools/test_leaks")
IN_TURN = ("hostile/test_processes", "hostile/test_sessions")


def in_turn():
    """An element of IN_TURN, by the number of commits before the present."""
    done = subprocess.run(["git", "-c", f"safe.directory={TESTS.parent}", "-C", str(TESTS.parent), "rev-list", "--count", "HEAD"],
                          capture_output=True, text=True)
    return IN_TURN[int(done.stdout or 0) % len(IN_TURN)]


def suites():
    """Paths below tests/, with the modes that inside.py explains."""
    every = [f"{folder}/{p.stem}" for folder in ("integration", "hostile") for p in sorted((TESTS / folder).glob("test_*.py"))]
    chosen = [*ALWAYS, *(name for name in every if name not in ALWAYS)] if LONG else [*ALWAYS, in_turn()]
    paths = [pathlib.Path(f"{name}.py") for name in chosen]
    names = [str(p) for p in paths]
    # As an ordinary user: limits in a delegated cgroup (otherwise the host runs them), the rest bare.
    if LONG:
        names += [f"{'delegated' if p.stem == 'test_processes' else 'user'}:{p}"
                  for p in paths if p.parts[0] == "hostile"]
    wanted = os.environ.get("CLOISTER_GUEST_SUITES", "")
    return [name for name in names if wanted in name]


def boot(console, results):
    kernel, _ = image.kernel()
    words = ["console=ttyS0", "quiet", "panic=-1", "random.trust_cpu=on", "mitigations=off",
             f"cloister.suites={','.join(suites())}", f"cloister.seconds={SECONDS}"]
    command = [QEMU, "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3G",
               "-nodefaults", "-display", "none", "-no-reboot",
               "-kernel", kernel, "-initrd", image.initramfs(), "-append", " ".join(words),
               "-drive", f"file={image.root_image()},format=raw,if=virtio,snapshot=on",
               "-serial", f"file:{console}", "-serial", f"file:{results}"]
    return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL)


def relay(process, results, out):
    """Copies results as they come; True if the guest reported its end."""
    offset, ended, deadline = 0, False, time.monotonic() + BOOT_SECONDS + SECONDS
    while True:
        alive = process.poll() is None
        data = results.read_bytes()[offset:] if results.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        offset += len(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            ended = ended or entry["outcome"] == "end"
            if entry["outcome"] != "end":
                out.write(json.dumps(entry) + "\n")
                out.flush()
        if not alive:
            return ended
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.2)


def main():
    console, results = image.WORK / "console.log", image.WORK / "results.jsonl"
    with open(sys.argv[1], "a") as out:
        try:
            if shutil.which(QEMU) is None:
                raise image.Unavailable("qemu-system-x86 is not installed")
            image.WORK.mkdir(parents=True, exist_ok=True)
            for path in (console, results):
                path.unlink(missing_ok=True)
            process = boot(console, results)
        except image.Unavailable as reason:
            out.write(json.dumps({"name": "boot", "outcome": "skipped", "detail": str(reason), "seconds": 0}) + "\n")
            return
        try:
            ended = relay(process, results, out)
        finally:
            process.kill()
            process.wait()
        tail = console.read_text(errors="replace")[-6000:] if console.exists() else ""
        if not ended:
            entry = {"name": "power off", "outcome": "failed", "detail": f"the guest did not finish:\n{tail}", "seconds": 0}
            out.write(json.dumps(entry) + "\n")
        print(tail)


if __name__ == "__main__":
    main()
