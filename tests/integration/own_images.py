# SPDX-License-Identifier: Apache-2.0
"""Images as `./dev images oci` makes them, as small as can be: of dash and the packages that it needs."""

import contextlib
import io
import json
import pathlib
import sys
import tarfile
import unittest.mock

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import image_root  # noqa: E402
import image_signature  # noqa: E402
import language_images  # noqa: E402


def make(folder, key=None):
    """→ the path of the archive in this folder. `key`: the file of a private key, which signs."""
    folder.mkdir(parents=True, exist_ok=True)
    signer = image_signature.Key(str(key)) if key else None
    with unittest.mock.patch.object(image_root, "BASE", ("dash",)), contextlib.redirect_stdout(io.StringIO()) as said:
        language_images.make("bash", folder, signer)
    return pathlib.Path(said.getvalue().strip())


class Archive:
    """The content of an archive: `index`, the entries of index.json, and `blobs`, bytes by their digests."""

    def __init__(self, path):
        with tarfile.open(path) as layout:
            content = {member.name: layout.extractfile(member).read() for member in layout}
        self.index = json.loads(content["index.json"])["manifests"]
        self.blobs = {name.removeprefix("blobs/").replace("/", ":"): data for name, data in content.items() if name.startswith("blobs/")}

    def manifest(self, entry):
        return json.loads(self.blobs[entry["digest"]])

    def tag(self, entry):
        """The tag by which an entry is pushed."""
        name = entry["annotations"]["org.opencontainers.image.ref.name"]
        return name.rpartition(":")[2]
