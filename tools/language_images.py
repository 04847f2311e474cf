#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an OCI archive for each language, of packages of this machine with what they depend on
(image_root.py), for `cloister image import` and whatever else reads OCI archives. The same packages make
the same archive, byte for byte.

    tools/language_images.py DIRECTORY [LANGUAGE...]      without languages: all whose packages are here
"""

import hashlib
import io
import json
import os
import pathlib
import platform
import stat
import sys
import tarfile

import debian
import image_root

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
EPOCH = "1970-01-01T00:00:00Z"


class Digested:
    """A file written once, from its beginning, and its digest."""

    def __init__(self, path):
        self.file, self.hash, self.size = open(path, "wb"), hashlib.sha256(), 0

    def write(self, data):
        self.hash.update(data)
        self.size += len(data)
        return self.file.write(data)


def plain(member):
    """Leaves out metadata that differs between machines, and metadata that no sandbox may have."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode &= ~(stat.S_ISUID | stat.S_ISGID)
    return member


def write_layer(tree, path):
    out = Digested(path)
    with out.file, tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for folder, directories, files in os.walk(tree):
            directories.sort()
            here = pathlib.Path(folder)
            links = [name for name in directories if (here / name).is_symlink()]
            for name in sorted((*files, *links)):
                archive.add(here / name, (here / name).relative_to(tree), recursive=False, filter=plain)
            for name in directories:
                if name not in links:
                    archive.add(here / name, (here / name).relative_to(tree), recursive=False, filter=plain)
    return described("layer.v1.tar", out.hash.hexdigest(), out.size)


def described(kind, digest, size):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": size}


def write_archive(layer, content, packages, target):
    """The layout of the image specification, with a single layer from the file `content`."""
    def blob(kind, value):
        data = json.dumps(value, sort_keys=True).encode()
        what = described(kind, hashlib.sha256(data).hexdigest(), len(data))
        blobs[what["digest"]] = data
        return what

    blobs = {}
    architecture = MACHINE[platform.machine()]
    config = blob("config.v1+json", {
        "created": EPOCH, "os": "linux", "architecture": architecture,
        "config": {"Env": [PATH], "Cmd": ["/bin/bash"], "Labels": {"debian.packages": " ".join(packages)}},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}})
    manifest = blob("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
        "layers": [layer]})
    manifest["platform"] = {"os": "linux", "architecture": architecture}
    index = {"schemaVersion": 2, "manifests": [manifest]}
    new = target.with_suffix(".new")
    with tarfile.open(new, "w", format=tarfile.PAX_FORMAT) as archive:
        def put(name, size, file):
            member = tarfile.TarInfo(name)
            member.size, member.mode = size, 0o644
            archive.addfile(member, file)

        for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", index)):
            data = json.dumps(value, sort_keys=True).encode()
            put(name, len(data), io.BytesIO(data))
        for digest, data in sorted(blobs.items()):
            put(f"blobs/{digest.replace(':', '/')}", len(data), io.BytesIO(data))
        with open(content, "rb") as file:
            put(f"blobs/{layer['digest'].replace(':', '/')}", layer["size"], file)
    new.rename(target)


def absent(language):
    return [name for name in image_root.LANGUAGES[language] if not debian.package_closure([name])]


def make(language, directory):
    packages = image_root.LANGUAGES[language]
    tree, target = directory / "work" / language, directory / f"{language}.tar"
    if image_root.make(packages, tree):
        target.unlink(missing_ok=True)
    if not target.exists():
        layer = directory / "work" / f"{language}.layer"
        write_archive(write_layer(tree, layer), layer, debian.package_closure((*image_root.BASE, *packages)), target)
        layer.unlink()
    print(target)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    directory, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    for language in wanted:
        if language not in image_root.LANGUAGES:
            sys.exit(f"language_images: no language {language}; there are {', '.join(image_root.LANGUAGES)}")
        if absent(language):
            sys.exit(f"language_images: {language} needs packages that are not here: apt-get install {' '.join(absent(language))}")
    directory.mkdir(parents=True, exist_ok=True)
    for language in wanted or [each for each in image_root.LANGUAGES if not absent(each)]:
        make(language, directory)


if __name__ == "__main__":
    try:
        main()
    except debian.Unavailable as reason:
        sys.exit(f"language_images: {reason}")
