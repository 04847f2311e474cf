# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image (CycloneDX 1.5): the Debian packages that the image is made of, and programs of ours. The same
image has the same bill, byte for byte."""

import hashlib
import json
import platform
import urllib.parse

import debian

FORM = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"


def escaped(text):
    """As package URLs have it: unreserved characters stand for themselves."""
    return urllib.parse.quote(text, safe="")


def package_url(distribution, name, version, architecture, source, source_version):
    """`upstream` names the source package where it differs, as syft does: advisories of Debian are of sources."""
    upstream = source if source_version == version else f"{source}@{source_version}"
    qualifiers = {"arch": architecture, "distro": f"{distribution['ID']}-{distribution.get('VERSION_ID', 'sid')}",
                  **({"upstream": upstream} if upstream != name else {})}
    words = "&".join(f"{key}={escaped(value)}" for key, value in qualifiers.items())
    return f"pkg:deb/{distribution['ID']}/{escaped(name)}@{escaped(version)}?{words}"


def of_packages(names):
    """The components of installed packages."""
    distribution = platform.freedesktop_os_release()
    lines = sorted(debian.run("dpkg-query", "-W", "-f", FORM, *names).splitlines())
    for name, version, *rest in (line.split("\t") for line in lines):
        url = package_url(distribution, name, version, *rest)
        yield {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


def of_programs(tree, patterns, version):
    """The components of programs of ours, which have these patterns in the image's root `tree`."""
    for path in sorted(path for pattern in patterns for path in tree.glob(pattern)):
        place = f"/{path.relative_to(tree)}"
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield {"type": "application", "bom-ref": place, "name": path.name, "version": version,
               "hashes": [{"alg": "SHA-256", "content": digest}], "evidence": {"occurrences": [{"location": place}]}}


def serial_number(digest):
    """A UUID (RFC 9562, version 8) made of the image's digest."""
    digits = list(digest.removeprefix("sha256:")[:32])
    digits[12] = digits[16] = "8"
    text = "".join(digits)
    return f"urn:uuid:{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def bill(repository, digest, components):
    """The bill of the image with this manifest digest, as bytes."""
    url = f"pkg:oci/{escaped(repository.split('/')[-1])}@{escaped(digest)}"
    image = {"type": "container", "bom-ref": url, "name": repository, "version": digest, "purl": url}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": serial_number(digest), "version": 1,
                "metadata": {"component": image}, "components": list(components)}
    return json.dumps(document, indent=1).encode() + b"\n"
