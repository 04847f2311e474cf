#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an image for the runtime microvm (src/runtime/microvm/microvm.h) of Debian's cloud kernel and of
packages of this machine with what they depend on. The same packages make the same root, byte for byte.

    tools/microvm_image.py DIRECTORY [PACKAGE...]      without packages: those of every language here
"""

import pathlib
import shutil
import stat
import sys

import debian
import unpack_kernel

REPO = pathlib.Path(__file__).resolve().parents[1]
MODULES = ("virtio_mmio", "virtio_blk", "virtio_console", "virtio_rng", "vmw_vsock_virtio_transport", "squashfs")
BASE = ("bash", "dash", "coreutils", "mawk", "grep", "sed", "findutils", "diffutils", "procps", "tar", "gzip", "ca-certificates")
LANGUAGES = ("python3", "nodejs", "esbuild", "gcc", "g++", "libc6-dev", "golang-go", "rustc", "default-jdk-headless",
             "r-base-core")
# The root has what the packages have below /usr, and these: mount points, and what programs read.
KEPT = {"usr", "etc", *debian.USRMERGE}
PLACES = ("proc", "dev", "tmp", "workspace", "run", "sys", "var/tmp")
ETC = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n"
              "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "hostname": "cloister\n",
    "hosts": "127.0.0.1 localhost cloister\n::1 localhost ip6-localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "resolv.conf": "",
}


def entry(number, name, mode, content):
    """One file of a cpio archive of the "newc" kind."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = ("070701" + "".join(f"{field:08x}" for field in fields) + name + "\0").encode()
    return b"".join(part + b"\0" * (-len(part) % 4) for part in (head, content))


def archive(paths):
    parts = [entry(1, "modules", stat.S_IFDIR | 0o755, b"")]
    for number, path in enumerate(paths, 2):
        parts.append(entry(number, f"modules/{number:02}-{path.name}", stat.S_IFREG | 0o444, path.read_bytes()))
    return b"".join(parts) + entry(0, "TRAILER!!!", 0, b"")


def root(packages, work, target):
    tree = work / "root"
    if debian.user_space(packages, tree):
        target.unlink(missing_ok=True)
    if target.exists():
        return
    for path in tree.iterdir():
        if path.name not in KEPT:
            shutil.rmtree(path)
    for name in PLACES:
        (tree / name).mkdir(parents=True)
    for name, text in ETC.items():
        (tree / "etc" / name).write_text(text)
    if not (tree / "etc" / "mtab").is_symlink():
        (tree / "etc" / "mtab").symlink_to("../proc/self/mounts")
    new = target.with_suffix(".new")
    new.unlink(missing_ok=True)
    debian.run("mksquashfs", tree, new, "-comp", "lz4", "-all-root", "-all-time", "0", "-mkfs-time", "0", "-no-xattrs",
               "-noappend", "-quiet", "-no-progress")
    new.rename(target)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    directory, packages = pathlib.Path(sys.argv[1]), sys.argv[2:] or LANGUAGES
    if shutil.which("mksquashfs") is None:
        raise debian.Unavailable("squashfs-tools is not installed")
    directory.mkdir(parents=True, exist_ok=True)
    kernel, folder = debian.kernel(REPO / "build")
    shutil.copyfile(kernel, directory / "vmlinuz")
    (directory / "vmlinux").write_bytes(unpack_kernel.unpack(kernel.read_bytes()))
    (directory / "modules.cpio").write_bytes(archive(debian.modules(folder, MODULES)))
    root((*BASE, *packages), directory / "work", directory / "root.squashfs")


if __name__ == "__main__":
    try:
        main()
    except (debian.Unavailable, unpack_kernel.Malformed) as reason:
        sys.exit(f"microvm_image: {reason}")
