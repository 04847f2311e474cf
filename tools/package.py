#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes Debian packages of a release build, of its cloister-grpc and of the SDK for Python, with Debian's own tools, and
prints their paths (docs/adr/0066, docs/adr/0106, docs/adr/0120).

    tools/package.py BUILD OUTPUT            e.g. build/release build/package

The time stamps in the package are those of the last commit (or SOURCE_DATE_EPOCH): the same programs give the same
package.
"""

import datetime
import email.utils
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import package_grpc
import package_python

REPO = pathlib.Path(__file__).resolve().parents[1]
DEBIAN = REPO / "deploy" / "debian"
CONFIGURATION = "etc/default/cloister"  # dpkg keeps the administrator's changes to the file


def git(*arguments):
    """Git's output about this clone; "" for an unpacked archive."""
    done = subprocess.run(["git", "-c", f"safe.directory={REPO}", "-C", str(REPO), *arguments],
                          capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def quiet(*command, **options):
    """A command's output. Its errors are shown on a failure: dpkg's tools warn of each static program."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout


def version(build):
    """The project's version; between releases a version that sorts before, by the time of the last commit."""
    number = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    commit = git("rev-parse", "--short", "HEAD")
    if not commit or git("tag", "--points-at", "HEAD", "--list", f"v{number}"):
        return number
    time = datetime.datetime.fromtimestamp(int(git("log", "-1", "--format=%ct")), datetime.timezone.utc)
    return f"{number}~git{time:%Y%m%d.%H%M%S}.{commit}"


def epoch():
    """Seconds since 1970: of everything in the package."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or 0)


def compressed(text, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def source(work, build):
    """The folder debian/ for dpkg's tools."""
    shutil.copytree(DEBIAN, work / "debian")
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(epoch(), datetime.timezone.utc))
    maintainer = re.search(r"^Maintainer: (.+)$", (DEBIAN / "control").read_text(), re.MULTILINE)[1]
    (work / "debian" / "changelog").write_text(
        f"cloister ({version(build)}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {maintainer}  {date}\n")


def install_component(build, root, component):
    quiet("cmake", "--install", build, "--prefix", "/usr", "--strip", "--component", component,
          env={**os.environ, "DESTDIR": str(root)})


def install(build, root):
    """Installs the package's files below `root`."""
    install_component(build, root, "Unspecified")
    documents = root / "usr" / "share" / "doc" / "cloister"
    compressed((REPO / "CHANGELOG.md").read_text(), documents / "changelog.gz")
    compressed((root.parent / "debian" / "changelog").read_text(), documents / "changelog.Debian.gz")
    shutil.copy(DEBIAN / "copyright", documents / "copyright")
    (root / "etc" / "default").mkdir(parents=True)
    shutil.copyfile(documents / "examples" / "cloister.default", root / CONFIGURATION)


def dependencies(root, name):
    """The file DEBIAN/control of the package `name`, with the libraries that its programs need."""
    work = root.parent
    (root / "DEBIAN").mkdir()
    programs = [p for p in sorted((root / "usr" / "lib" / "cloister").iterdir()) if p.is_file()]
    quiet("dpkg-shlibdeps", "-Tdebian/substvars", *programs, cwd=work)
    quiet("dpkg-gencontrol", f"-p{name}", f"-P{root}", "-Tdebian/substvars", cwd=work)


def control(root):
    """The package's control files: its dependencies, its installation scripts, and the sums of its files."""
    own = root / "DEBIAN"
    dependencies(root, "cloister")
    for script in ("postinst", "prerm", "postrm"):
        shutil.copy(DEBIAN / script, own / script)
    (own / "conffiles").write_text(f"/{CONFIGURATION}\n")
    write_sums(root)


def write_sums(root):
    sums = [f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(root)}\n"
            for p in sorted(root.glob("usr/**/*")) if p.is_file() and not p.is_symlink()]
    (root / "DEBIAN" / "md5sums").write_text("".join(sums))


def python_root(root, programs):
    """Puts the package of the SDK below `root`, with documents of the package of the programs."""
    package_python.install(root, programs / "usr" / "share" / "doc" / "cloister")
    (root / "DEBIAN").mkdir()
    quiet("dpkg-gencontrol", f"-p{package_python.NAME}", f"-P{root}", "-Tdebian/substvars", cwd=root.parent)
    package_python.scripts(root / "DEBIAN")
    write_sums(root)


def grpc_root(build, root, programs):
    """Puts the package of cloister-grpc below `root`, with documents of the package of the programs."""
    install_component(build, root, "grpc")
    package_grpc.documents(root, programs / "usr" / "share" / "doc" / "cloister")
    dependencies(root, package_grpc.NAME)
    package_grpc.scripts(root / "DEBIAN")
    write_sums(root)


def archive(root, output, name):
    """Makes the package of `root` and prints its path."""
    quiet("chmod", "-R", "u+rwX,go+rX,go-w", root)
    quiet("dpkg-deb", "--root-owner-group", "--build", root, output / name,
          env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch())})
    print(output / name)


def main():
    build, output = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    work = output / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.umask(0o022)
    source(work, build)
    root = work / "root"
    install(build, root)
    control(root)
    machine = quiet("dpkg", "--print-architecture").strip()
    archive(root, output, f"cloister_{version(build)}_{machine}.deb")
    if (build / "bin" / package_grpc.NAME).exists():
        grpc = work / "grpc"
        grpc_root(build, grpc, root)
        archive(grpc, output, f"{package_grpc.NAME}_{version(build)}_{machine}.deb")
    python = work / "python"
    python_root(python, root)
    archive(python, output, f"{package_python.NAME}_{version(build)}_all.deb")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
