#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an image for the runtime microvm (src/sandbox/microvm/microvm.h) of Debian's cloud kernel and of
packages of this machine with what they depend on (image_root.py).

    tools/microvm_image.py DIRECTORY [PACKAGE...]      without packages: those of every language here
"""

import pathlib
import shutil
import stat
import sys

import debian
import image_root
import unpack_kernel

REPO = pathlib.Path(__file__).resolve().parents[1]
MODULES = ("virtio_mmio", "virtio_blk", "virtio_console", "virtio_rng", "vmw_vsock_virtio_transport", "squashfs")
NETWORK_MODULES = ("virtio_net", "overlay")  # loaded in machines with a network alone


def entry(number, name, mode, content):
    """A file of a cpio archive of the "newc" kind."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = ("070701" + "".join(f"{field:08x}" for field in fields) + name + "\0").encode()
    return b"".join(part + b"\0" * (-len(part) % 4) for part in (head, content))


def archive(**directories):
    """`directories`: the modules of each, in the order in which they are loaded."""
    parts = []
    for directory, paths in directories.items():
        name = directory.replace("_", "-")
        parts.append(entry(len(parts) + 1, name, stat.S_IFDIR | 0o755, b""))
        for number, path in enumerate(paths, 2):
            parts.append(entry(len(parts) + 1, f"{name}/{number:02}-{path.name}", stat.S_IFREG | 0o444, path.read_bytes()))
    return b"".join(parts) + entry(0, "TRAILER!!!", 0, b"")


def modules(folder):
    always = debian.modules(folder, MODULES)
    network = [path for path in debian.modules(folder, NETWORK_MODULES) if path not in always]
    return archive(modules=always, modules_network=network)


def root(packages, work, target):
    tree = work / "root"
    if image_root.make(packages, tree):
        target.unlink(missing_ok=True)
    if target.exists():
        return
    new = target.with_suffix(".new")
    new.unlink(missing_ok=True)
    debian.run("mksquashfs", tree, new, "-comp", "lz4", "-all-root", "-all-time", "0", "-mkfs-time", "0", "-no-xattrs",
               "-noappend", "-quiet", "-no-progress")
    new.rename(target)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[1])
    packages = sys.argv[2:] or sorted({name for names in image_root.LANGUAGES.values() for name in names})
    if shutil.which("mksquashfs") is None:
        raise debian.Unavailable("squashfs-tools is not installed")
    directory.mkdir(parents=True, exist_ok=True)
    kernel, folder = debian.kernel(REPO / "build")
    shutil.copyfile(kernel, directory / "vmlinuz")
    (directory / "vmlinux").write_bytes(unpack_kernel.unpack(kernel.read_bytes()))
    (directory / "modules.cpio").write_bytes(modules(folder))
    root(packages, directory / "work", directory / "root.squashfs")


if __name__ == "__main__":
    try:
        main()
    except (debian.Unavailable, unpack_kernel.Malformed) as reason:
        sys.exit(f"microvm_image: {reason}")
