# SPDX-License-Identifier: Apache-2.0
"""Builds what the guest boots, under build/guest: Debian's cloud kernel (unpacked, never installed), a
small initramfs that mounts the root, and an ext4 root made of this machine's own packages, the
programs under test and the tests. Nothing here needs root."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[2]
WORK = pathlib.Path(os.environ.get("CLOISTER_BUILD", REPO / "build")) / "guest"
KERNEL_META = "linux-image-cloud-amd64"
MODULES = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk", "overlay")
# The user space of the guest, with all that these depend on.
PACKAGES = ("bash", "dash", "coreutils", "util-linux", "mount", "procps", "grep", "sed", "findutils", "tar", "gzip",
            "python3", "busybox-static", "nodejs", "esbuild", "gcc", "g++", "libc6-dev", "strace", "sqlite3",
            "python3-yaml", "python3-jsonschema", "ca-certificates")
USRMERGE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
LEFT_OUT = re.compile(r"^/(usr/share/(doc|man|info|locale|lintian|bash-completion|gtk-doc)|var/lib/dpkg|boot)/")
ETC = ("passwd", "group", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "ssl", "python3.11",
       "localtime", "protocols", "services", "ld.so.cache")
ROOT_MIB = 2048


class Unavailable(Exception):
    """This machine cannot have a guest; the message says why."""


def run(*command, cwd=None, input=None):
    done = subprocess.run([str(c) for c in command], cwd=cwd, input=input, capture_output=True)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout.decode(errors="replace")


# --- kernel ---------------------------------------------------------------------------------------


def kernel():
    """(vmlinuz, folder of its modules), fetched once."""
    tree = WORK / "kernel"
    if not list(tree.glob("boot/vmlinuz-*")):
        fetch_kernel(tree)
    image = sorted(tree.glob("boot/vmlinuz-*"))[-1]
    version = image.name.removeprefix("vmlinuz-")
    return image, tree / "lib" / "modules" / version


def fetch_kernel(tree):
    packages = WORK / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    try:
        name = kernel_package()
        run("apt-get", "download", name, cwd=packages)
    except Unavailable:
        if os.geteuid() != 0:
            raise
        run("apt-get", "update", "-q")
        name = kernel_package()
        run("apt-get", "download", name, cwd=packages)
    package = max(packages.glob(f"{name}_*.deb"), key=lambda p: p.stat().st_mtime)
    unpacked = tree.with_name("kernel.new")
    shutil.rmtree(unpacked, ignore_errors=True)
    run("dpkg-deb", "-x", package, unpacked)
    shutil.rmtree(tree, ignore_errors=True)
    unpacked.rename(tree)
    package.unlink()


def kernel_package():
    """The versioned package behind the meta package."""
    for line in run("apt-cache", "depends", KERNEL_META).splitlines():
        if "Depends:" in line and "linux-image-" in line:
            return line.split()[-1]
    raise Unavailable(f"{KERNEL_META} is not in this machine's package lists")


# --- initramfs ------------------------------------------------------------------------------------

INIT = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
/bin/busybox mount -t devtmpfs dev /dev
for name in {modules}; do /bin/busybox insmod /lib/$name.ko; done
n=0
until [ -b /dev/vda ]; do n=$((n+1)); [ $n -lt 500 ] || break; /bin/busybox usleep 10000; done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root || /bin/busybox poweroff -f
exec /bin/busybox switch_root /root {python} {repo}/tests/guest/inside.py
"""


def initramfs():
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Unavailable("busybox-static is not installed")
    _, modules = kernel()
    tree, archive = WORK / "initramfs", WORK / "initramfs.cpio"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("bin", "dev", "lib", "root"):
        (tree / folder).mkdir(parents=True)
    shutil.copy2(busybox, tree / "bin" / "busybox")
    for name in MODULES:
        found = list(modules.rglob(f"{name}.ko")) + list(modules.rglob(f"{name.replace('_', '-')}.ko"))
        if not found:
            raise Unavailable(f"the kernel has no module {name}")
        shutil.copy2(found[0], tree / "lib" / f"{name}.ko")
    init = tree / "init"
    init.write_text(INIT.format(modules=" ".join(MODULES), python="/usr/bin/python3", repo=REPO))
    init.chmod(0o755)
    names = "\n".join(sorted(str(p.relative_to(tree)) for p in tree.rglob("*")))
    with open(archive, "wb") as out:
        done = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names.encode(), stdout=out)
    if done.returncode != 0:
        raise Unavailable("cpio failed")
    return archive


# --- root -----------------------------------------------------------------------------------------


@functools.cache
def installed():
    """{package: names it depends on}, and {provided name: package}, of what is installed here."""
    depends, provided = {}, {}
    form = "${db:Status-Status}\t${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    for line in run("dpkg-query", "-W", "-f", form).splitlines():
        status, name, needs, provides = (line.split("\t") + ["", "", ""])[:4]
        if status != "installed":
            continue
        depends[name] = [re.split(r"[ (:]", one.strip())[0]
                         for part in needs.split(",") for one in part.split("|") if one.strip()]
        for one in provides.split(","):
            if one.strip():
                provided.setdefault(re.split(r"[ (:]", one.strip())[0], name)
    return depends, provided


def package_closure(names):
    depends, provided = installed()
    seen, todo = set(), list(names)
    while todo:
        name = todo.pop()
        name = name if name in depends else provided.get(name)
        if name is not None and name not in seen:
            seen.add(name)
            todo += depends[name]
    return sorted(seen)


def package_files(names):
    found = set()
    for path in run("dpkg-query", "-L", *names).splitlines():
        if path.startswith("/") and path != "/." and not LEFT_OUT.match(path + "/") and not path.startswith("/etc/"):
            found.add(path)
    # An alternative package that is installed in place of Debian's (a newer nodejs) brings its own.
    return sorted(path for path in found if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)))


def libraries(programs):
    """The shared libraries of `programs`, with the links that lead to them."""
    found = set()
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
        for path in re.findall(r"(/\S+) \(0x", done.stdout):
            found |= {path, os.path.realpath(path)}
    return sorted(found)


def copy_tree(paths, root):
    """Copies files by their names; a name below /lib goes where the link lib → usr/lib leads."""
    listing = "\0".join(path.lstrip("/") for path in paths)
    pack = subprocess.Popen(["tar", "-C", "/", "--no-recursion", "--null", "-T", "-", "-cf", "-"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    unpack = subprocess.Popen(["tar", "-C", str(root), "--keep-directory-symlink", "-xpf", "-"],
                              stdin=pack.stdout, stderr=subprocess.PIPE)
    pack.stdout.close()
    pack.stdin.write(listing.encode())
    pack.stdin.close()
    error = unpack.communicate()[1]
    if pack.wait() not in (0, 1) or unpack.returncode != 0:
        raise Unavailable(f"tar failed: {error.decode(errors='replace')[-500:]}")


def base_root():
    """The user space, which changes only with the packages of this machine."""
    names = package_closure(PACKAGES)
    versions = run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names)
    stamp = hashlib.sha256(versions.encode() + pathlib.Path(__file__).read_bytes()).hexdigest()
    tree, mark = WORK / "root", WORK / "root.stamp"
    if mark.exists() and mark.read_text() == stamp:
        return tree
    mark.unlink(missing_ok=True)
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("proc", "sys", "dev", "run", "tmp", "etc", "root", "home", "var/lib", "var/tmp"):
        (tree / folder).mkdir(parents=True)
    for name in USRMERGE:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    copy_tree(package_files(names), tree)
    for name in ETC:
        source = pathlib.Path("/etc") / name
        if source.is_dir():
            shutil.copytree(source, tree / "etc" / name, symlinks=True, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("private"))
        elif source.exists():
            shutil.copy2(source, tree / "etc" / name, follow_symlinks=True)
    for path in (tree / "tmp", tree / "var/tmp"):
        path.chmod(0o1777)
    mark.write_text(stamp)
    return tree


def project(tree):
    """Puts the programs and the tests where they are on this machine, so that links hold."""
    build = WORK.parent / "release"
    target = tree / str(REPO).lstrip("/")
    shutil.rmtree(target, ignore_errors=True)
    for folder in ("tests", "languages", "policies", "spec"):
        shutil.copytree(REPO / folder, target / folder, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__"))
    programs = [p for p in (build / "bin").iterdir() if p.name.startswith("cloister")]
    inside = target / "build" / "release"  # where inside.py looks, wherever it was built here
    (inside / "bin").mkdir(parents=True)
    for program in programs:
        shutil.copy2(program, inside / "bin" / program.name)
    for folder in ("share", "hostile"):
        if (build / folder).is_dir():
            shutil.copytree(build / folder, inside / folder, symlinks=True)
    folder = inside
    while folder != tree:
        folder.chmod(0o755)
        folder = folder.parent
    copy_tree(libraries(programs), tree)


def root_image():
    tree, image = base_root(), WORK / "root.ext4"
    project(tree)
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
