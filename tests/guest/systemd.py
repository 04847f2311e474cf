# SPDX-License-Identifier: Apache-2.0
"""The Debian package under a real systemd: installed, enabled, restarted, upgraded, removed. Boots a guest with Debian's
kernel and systemd in QEMU (guest.py has the reasons), in which systemd_story.py is a service, and reports each step as a
test.

    python3 tests/guest/systemd.py REPORT
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import guest
import image

TESTS = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("bash", "dash", "coreutils", "util-linux", "mount", "procps", "grep", "sed", "findutils", "tar", "gzip", "dpkg",
            "python3", "systemd", "systemd-sysv", "dbus", "kmod", "udev", "passwd", "login", "libpam-systemd")
STORY = """[Unit]
Description=The story of the package
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /story/systemd_story.py
ExecStopPost=/usr/bin/systemctl poweroff --force --force
TimeoutStartSec=infinity
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
"""


def packages(folder):
    """Two packages of the programs under test: this version, and the next."""
    build = image.WORK.parent / "release"
    env = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none"}
    done = subprocess.run([sys.executable, TESTS.parent / "tools" / "package.py", build, folder / "made"], env=env,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise image.Unavailable(f"no package: {done.stderr[-500:]}")
    first = pathlib.Path(done.stdout.splitlines()[0])
    shutil.copy(first, folder / "first.deb")
    image.debian.run("dpkg-deb", "-R", first, folder / "next")
    control = folder / "next" / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1.next", control.read_text()))
    image.debian.run("dpkg-deb", "--root-owner-group", "-Znone", "--build", folder / "next", folder / "next.deb")
    shutil.rmtree(folder / "next")
    shutil.rmtree(folder / "made")


def root():
    tree = image.WORK / "systemd-root"
    image.debian.user_space(PACKAGES, tree)
    story = tree / "story"
    shutil.rmtree(story, ignore_errors=True)
    story.mkdir()
    packages(story)
    shutil.copy(TESTS / "guest" / "systemd_story.py", story)
    units = tree / "etc" / "systemd" / "system"
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    (units / "story.service").write_text(STORY)
    link = wanted / "story.service"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/systemd/system/story.service")
    for name in ("info", "updates", "triggers"):
        (tree / "var/lib/dpkg" / name).mkdir(parents=True, exist_ok=True)
    for name in ("status", "available"):
        (tree / "var/lib/dpkg" / name).write_text("")
    for name in ("var/log", "var/cache"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "etc/machine-id").write_text("")
    for name in ("sysusers.d", "tmpfiles.d"):
        (tree / "usr/lib" / name).mkdir(parents=True, exist_ok=True)
    libraries = image.debian.libraries((image.WORK.parent / "release" / "bin").glob("cloister*"))
    image.debian.copy_tree(libraries, tree)
    return image.file_system(tree, image.WORK / "systemd.ext4")


def boot(console, results):
    kernel, _ = image.kernel()
    words = ["console=ttyS0", "quiet", "panic=-1", "random.trust_cpu=on", "mitigations=off", "systemd.show_status=false",
             "systemd.mask=systemd-udev-trigger.service", "systemd.mask=serial-getty@ttyS0.service"]
    command = [guest.QEMU, "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2G",
               "-nodefaults", "-display", "none", "-no-reboot", "-kernel", kernel,
               "-initrd", image.initramfs("/lib/systemd/systemd", "initramfs-systemd"), "-append", " ".join(words),
               "-drive", f"file={root()},format=raw,if=virtio,snapshot=on",
               "-serial", f"file:{console}", "-serial", f"file:{results}"]
    return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL)


def main():
    console, results = image.WORK / "systemd-console.log", image.WORK / "systemd-results.jsonl"
    with open(sys.argv[1], "a") as out:
        try:
            if shutil.which(guest.QEMU) is None:
                raise image.Unavailable("qemu-system-x86 is not installed")
            image.WORK.mkdir(parents=True, exist_ok=True)
            for path in (console, results):
                path.unlink(missing_ok=True)
            process = boot(console, results)
        except image.Unavailable as reason:
            out.write(json.dumps({"name": "boot", "outcome": "skipped", "detail": str(reason), "seconds": 0}) + "\n")
            return
        try:
            ended = guest.relay(process, results, out)
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
