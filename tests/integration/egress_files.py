# SPDX-License-Identifier: Apache-2.0
"""What package clients and git ask for, as files for the fake internet: small packages of our own."""

import base64
import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
import tempfile
import zipfile

NAME, VERSION = "doorhello", "1.0.0"


def run(*command, **how):
    subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **how)


def zip_entry(name):
    """Of a fixed date: the same content is the same archive, whenever it is made."""
    entry = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    return entry


def wheel():
    """A wheel of one module (PEP 427)."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {f"{NAME}.py": "GREETING = 'hello by pip'\n",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
              for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(zip_entry(name), text)
    return out.getvalue()


def put_python(files):
    """A simple index (PEP 503) at /simple/."""
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    (files / "files").mkdir(exist_ok=True)
    (files / "files" / name).write_bytes(wheel())
    (files / "simple" / NAME).mkdir(parents=True)
    digest = hashlib.sha256(wheel()).hexdigest()
    (files / "simple" / NAME / "index").write_text(f'<a href="/files/{name}#sha256={digest}">{name}</a>')


def put_npm(files, host):
    """A registry at /npm/."""
    package = json.dumps({"name": NAME, "version": VERSION, "main": "index.js"})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in (("package.json", package), ("index.js", "module.exports = 'hello by npm';\n")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    folder = files / "npm" / NAME
    folder.mkdir(parents=True)
    (folder / f"{NAME}-{VERSION}.tgz").write_bytes(out.getvalue())
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(out.getvalue()).digest()).decode()
    dist = {"tarball": f"https://{host}/npm/{NAME}/{NAME}-{VERSION}.tgz", "integrity": integrity}
    (folder / "index").write_text(json.dumps({
        "name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: {"name": NAME, "version": VERSION, "dist": dist}}}))


def put_debian(files):
    """A flat repository at /files/debian/."""
    folder = files / "files" / "debian"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as top:
        tree = pathlib.Path(top) / "tree"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/share/doorhello").mkdir(parents=True)
        (tree / "usr/share/doorhello/greeting").write_text("hello by apt\n")
        control = f"Package: {NAME}\nVersion: {VERSION}\nArchitecture: all\nMaintainer: tests <tests@example.org>\nDescription: a greeting\n"
        (tree / "DEBIAN/control").write_text(control)
        run("dpkg-deb", "--root-owner-group", "-b", tree, folder / f"{NAME}.deb")
    data = (folder / f"{NAME}.deb").read_bytes()
    (folder / "Packages").write_text(f"{control}Filename: ./{NAME}.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n")


def put_git(files):
    """A repository at /git/hello.git, also for ssh."""
    with tempfile.TemporaryDirectory() as top:
        who = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
        run("git", "init", "-q", "-b", "main", top)
        (pathlib.Path(top) / "greeting").write_text("hello by git\n")
        run("git", "-C", top, "add", "greeting")
        run("git", "-C", top, *who, "commit", "-q", "-m", "greet")
        (files / "git").mkdir()
        run("git", "clone", "-q", "--bare", top, files / "git" / "hello.git")


def put_all(files):
    put_python(files)
    put_npm(files, "packages.test")
    put_debian(files)
    put_git(files)
