# SPDX-License-Identifier: Apache-2.0
"""Builds the files that the guest boots, under build/guest: Debian's cloud kernel (unpacked, never installed), a
small initramfs that mounts the root, and an ext4 root made of this machine's own packages, the programs under test
and the tests. Nothing here needs root."""

import os
import pathlib
import shutil
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools"))

import debian
from debian import Unavailable

WORK = pathlib.Path(os.environ.get("CLOISTER_BUILD", REPO / "build")) / "guest"
MODULES = ("virtio_pci", "virtio_blk", "overlay")
# The user space of the guest, with all dependencies.
PACKAGES = ("bash", "dash", "coreutils", "util-linux", "mount", "procps", "grep", "sed", "findutils", "tar", "gzip",
            "python3", "busybox-static", "nodejs", "esbuild", "gcc", "g++", "libc6-dev", "strace", "sqlite3",
            "python3-yaml", "python3-jsonschema", "ca-certificates")
ROOT_MIB = 2048


def kernel():
    """(vmlinuz, folder of its modules)."""
    return debian.kernel(WORK.parent)


# --- initramfs ------------------------------------------------------------------------------------

INIT = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
/bin/busybox mount -t devtmpfs dev /dev
for name in {modules}; do /bin/busybox insmod /lib/$name.ko; done
n=0
until [ -b /dev/vda ]; do n=$((n+1)); [ $n -lt 500 ] || break; /bin/busybox usleep 10000; done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root || /bin/busybox poweroff -f
exec /bin/busybox switch_root /root {init}
"""


def initramfs(init=f"/usr/bin/python3 {REPO}/tests/guest/inside.py", name="initramfs"):
    """`init`: the command that becomes process 1 in the root."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Unavailable("busybox-static is not installed")
    _, folder = kernel()
    modules = debian.modules(folder, MODULES)
    tree, archive = WORK / name, WORK / f"{name}.cpio"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("bin", "dev", "lib", "root"):
        (tree / folder).mkdir(parents=True)
    shutil.copy2(busybox, tree / "bin" / "busybox")
    for path in modules:
        shutil.copy2(path, tree / "lib" / path.name)
    script = tree / "init"
    script.write_text(INIT.format(modules=" ".join(path.stem for path in modules), init=init))
    script.chmod(0o755)
    names = "\n".join(sorted(str(p.relative_to(tree)) for p in tree.rglob("*")))
    with open(archive, "wb") as out:
        done = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names.encode(), stdout=out)
    if done.returncode != 0:
        raise Unavailable("cpio failed")
    return archive


# --- root -----------------------------------------------------------------------------------------


def project(tree):
    """Puts the programs and the tests at the same paths as on this machine, so that links hold."""
    build = WORK.parent / "release"
    target = tree / str(REPO).lstrip("/")
    shutil.rmtree(target, ignore_errors=True)
    for folder in ("tests", "languages", "policies", "spec", "sdk"):
        shutil.copytree(REPO / folder, target / folder, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__", "node_modules", "dist"))
    programs = [p for p in (build / "bin").iterdir() if p.name.startswith("cloister")]
    inside = target / "build" / "release"  # the path for inside.py, independent of the build's place
    (inside / "bin").mkdir(parents=True)
    for program in programs:
        shutil.copy2(program, inside / "bin" / program.name)
    for folder in ("share", "hostile"):
        if (build / folder).is_dir():
            shutil.copytree(build / folder, inside / folder, symlinks=True, ignore=shutil.ignore_patterns("microvm"))
    folder = inside
    while folder != tree:
        folder.chmod(0o755)
        folder = folder.parent
    debian.copy_tree(debian.libraries(programs), tree)


def root_image():
    tree = WORK / "root"
    debian.user_space(PACKAGES, tree)
    project(tree)
    return file_system(tree, WORK / "root.ext4")


def file_system(tree, image):
    """Makes the ext4 file system `image` of `tree`."""
    image.unlink(missing_ok=True)
    with open(image, "wb") as out:
        out.truncate(ROOT_MIB << 20)
    command = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", tree, image]
    if os.geteuid() != 0:  # seen from a user namespace, the builder's files belong to root
        command = ["unshare", "-r", *command]
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"mke2fs failed: {done.stderr.strip()[-500:]}")
    return image
