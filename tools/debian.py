# SPDX-License-Identifier: Apache-2.0
"""Kernels and trees of files made of Debian's packages, for virtual machines: of the test suites, and
of the runtime microvm. Nothing here needs root or installs anything."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

KERNEL_META = "linux-image-cloud-amd64"
USRMERGE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
LEFT_OUT = re.compile(r"^/(usr/share/(doc|man|info|locale|lintian|bash-completion|gtk-doc)|var/lib/dpkg|boot)/")
ETC = ("passwd", "group", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "ssl", "python3.11",
       "protocols", "services")


class Unavailable(Exception):
    """This machine cannot have a guest; the message has the reason."""


def run(*command, cwd=None, input=None):
    done = subprocess.run([str(c) for c in command], cwd=cwd, input=input, capture_output=True)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout.decode(errors="replace")


# --- kernel ---------------------------------------------------------------------------------------


def kernel(work):
    """(vmlinuz, folder of its modules), fetched once into the folder `work`."""
    tree = work / "kernel"
    if not list(tree.glob("boot/vmlinuz-*")):
        fetch_kernel(tree)
    image = sorted(tree.glob("boot/vmlinuz-*"))[-1]
    version = image.name.removeprefix("vmlinuz-")
    return image, tree / "lib" / "modules" / version


def fetch_kernel(tree):
    packages = tree.with_name("packages")
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


def modules(folder, wanted):
    """Paths of these modules and of their dependencies, in a loadable order."""
    paths = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    order = []

    def add(name):
        if name not in paths:
            raise Unavailable(f"the kernel has no module {name}")
        needs = re.search(rb"\0depends=([^\0]*)\0", paths[name].read_bytes())
        for each in filter(None, needs[1].decode().split(",") if needs else ()):
            add(each.replace("-", "_"))
        if paths[name] not in order:
            order.append(paths[name])

    for name in wanted:
        add(name)
    return order


# --- packages -----------------------------------------------------------------------------------------


@functools.cache
def installed():
    """{package: names of its dependencies}, and {provided name: package}, of the installed packages."""
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
    # An alternative package installed in place of Debian's (a newer nodejs) brings its own libraries.
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


def link_alternatives(tree):
    """The names outside of all packages, as made by update-alternatives(1): /usr/bin/awk and the like. Names of
    programs missing in the tree go."""
    for link in (tree / "etc/alternatives").iterdir():
        if link.is_symlink() and not os.path.lexists(tree / os.readlink(link).lstrip("/")):
            link.unlink()
    for folder in ("usr/bin", "usr/sbin"):
        for link in (pathlib.Path("/") / folder).iterdir():
            target = os.readlink(link) if link.is_symlink() else ""
            if not target.startswith("/etc/alternatives/") or os.path.lexists(tree / folder / link.name):
                continue
            if (tree / os.path.realpath(link).lstrip("/")).exists():
                (tree / folder / link.name).symlink_to(target)


def user_space(packages, tree):
    """Makes `tree` of these packages and their dependencies, as far as installed here: a root that changes only with
    them. True after a change."""
    names = package_closure(packages)
    versions = run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names)
    stamp = hashlib.sha256(versions.encode() + pathlib.Path(__file__).read_bytes()).hexdigest()
    mark = tree.with_name(f"{tree.name}.stamp")
    if mark.exists() and mark.read_text() == stamp:
        return False
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
    link_alternatives(tree)
    run("/sbin/ldconfig", "-r", tree, "-X", "-i")  # of this tree's libraries, not of this machine's
    for path in (tree / "tmp", tree / "var/tmp"):
        path.chmod(0o1777)
    mark.write_text(stamp)
    return True
