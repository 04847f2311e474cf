# SPDX-License-Identifier: Apache-2.0
"""Writes OCI archives (the layout of the image specification, in a tar file): an image with a single layer, and the manifests that
belong to it. The same tree makes the same image, byte for byte. Nothing here needs root or a container engine."""

import hashlib
import io
import json
import os
import pathlib
import platform
import stat
import tarfile

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"
IMAGE = "application/vnd.oci.image"
REF_NAME = "org.opencontainers.image.ref.name"
# Of manifests that are no images: importers and engines that choose by platform pass over them.
NO_PLATFORM = {"os": "unknown", "architecture": "unknown"}


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
    """Writes the tree as a layer; its descriptor."""
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
    return {"mediaType": f"{IMAGE}.layer.v1.tar", "digest": f"sha256:{out.hash.hexdigest()}", "size": out.size}


class Layout:
    """A layout in the making: blobs in memory, layers in files, and the entries of index.json."""

    def __init__(self):
        self._blobs, self._files, self._entries = {}, {}, []

    def blob(self, media_type, data):
        """→ the descriptor of these bytes."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def _document(self, kind, value):
        return self.blob(f"{IMAGE}.{kind}", json.dumps(value, sort_keys=True).encode())

    def image(self, layer, content, config, name):
        """Adds an image with the layer `layer` from the file `content`, and the member `config` of its configuration. `name`: by
        which engines load the image. → its descriptor."""
        self._files[layer["digest"]] = content
        machine = {"os": "linux", "architecture": MACHINE[platform.machine()]}
        configuration = self._document("config.v1+json", {
            "created": EPOCH, **machine, "config": config, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}})
        image = self._document("manifest.v1+json", {
            "schemaVersion": 2, "mediaType": f"{IMAGE}.manifest.v1+json", "config": configuration, "layers": [layer]})
        self._entries.append({**image, "platform": machine, "annotations": {REF_NAME: name}})
        return image

    def artifact(self, subject, kind, layer, tag):
        """Adds a manifest of the type `kind` that belongs to the image `subject`. `layer`: a descriptor. Registries find it by its
        subject, or without the interface for referrers (OCI 1.1) by its tag. The configuration is that of an image, as cosign
        writes it: older registries take no other."""
        config = self._document("config.v1+json", {
            "created": EPOCH, **NO_PLATFORM, "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}})
        manifest = self._document("manifest.v1+json", {
            "schemaVersion": 2, "mediaType": f"{IMAGE}.manifest.v1+json", "artifactType": kind, "config": config,
            "layers": [layer], "subject": subject})
        self._entries.append({**manifest, "artifactType": kind, "platform": NO_PLATFORM, "annotations": {REF_NAME: tag}})

    def write(self, target):
        new = target.with_suffix(".new")
        with tarfile.open(new, "w", format=tarfile.PAX_FORMAT) as archive:
            def put(name, size, file):
                member = tarfile.TarInfo(name)
                member.size, member.mode = size, 0o644
                archive.addfile(member, file)

            index = {"schemaVersion": 2, "manifests": self._entries}
            for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", index)):
                data = json.dumps(value, sort_keys=True).encode()
                put(name, len(data), io.BytesIO(data))
            for digest, data in sorted(self._blobs.items()):
                put(f"blobs/{digest.replace(':', '/')}", len(data), io.BytesIO(data))
            for digest, content in self._files.items():
                with open(content, "rb") as file:
                    put(f"blobs/{digest.replace(':', '/')}", os.fstat(file.fileno()).st_size, file)
        new.rename(target)


def entries(archive):
    """The entries of index.json of an archive."""
    with tarfile.open(archive) as layout:
        return json.load(layout.extractfile("index.json"))["manifests"]
