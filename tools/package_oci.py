#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the container image of the service from its Debian package, as an OCI archive for `podman load`, `skopeo copy` and
`docker load` (docs/adr/0111), and prints its path. The bill of materials is beside the archive. Needs no root and no container
engine: the rest of the image is copied from the packages installed here.

    tools/package_oci.py [--sign KEY.pem] PACKAGE OUTPUT            e.g. build/package/cloister_0.1.0_amd64.deb build/package
"""

import argparse
import itertools
import pathlib
import re
import shutil
import subprocess
import sys

import debian
import image_archive
import image_bill
import image_root
import image_signature

# What programs of sandboxes find besides the dependencies of the package; left out where not installed here.
LANGUAGES = ("python3", "nodejs", "esbuild")
NAME = "localhost/cloister:latest"  # as engines load the image, and deploy/compose.yaml finds it
PROGRAMS = ("usr/lib/cloister/*", "usr/share/cloister/**/*.py", "usr/share/doc/cloister/**/*.py")
PORT = 8750
STATE = ("/var/lib/cloister", "/var/lib/cloister-images")
ACCOUNTS = {  # as deploy/systemd/cloister.sysusers.conf makes them
    "passwd": "root:x:0:0:root:/root:/bin/bash\n"
              "cloister:x:64750:64750:Cloister control plane:/:/usr/sbin/nologin\n"
              "cloister-egress:x:64752:64752:Cloister network access:/:/usr/sbin/nologin\n"
              "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\ncloister:x:64750:\ncloister-egress:x:64752:\nnogroup:x:65534:\n",
}
PLACES = ("proc", "sys", "dev", "run", "tmp", "root", "var/tmp", "var/cache/cloister", *(path[1:] for path in STATE))


def field(package, name):
    return debian.run("dpkg-deb", "--field", package, name).strip()


def dependencies(package):
    """The names of the packages that the package depends on."""
    return [re.split(r"[ (|:]", each.strip())[0] for each in field(package, "Depends").split(",") if each.strip()]


def unpack(package, tree):
    """As dpkg does: a folder of the package that is a link in the tree stays a link."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as content:
        done = subprocess.run(["tar", "-C", tree, "--keep-directory-symlink", "-xpf", "-"], stdin=content.stdout)
    if done.returncode != 0 or content.returncode != 0:
        raise debian.Unavailable(f"unpacking {package} failed")


def make_tree(package, tree):
    """The root of the image: Debian's packages, and the service's on top."""
    here, _ = debian.installed()
    names = (*image_root.BASE, *dependencies(package), *(name for name in LANGUAGES if name in here))
    debian.user_space(names, tree)
    unpack(package, tree)
    for name in PLACES:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (tree / name).chmod(0o1777)
    for name, text in ACCOUNTS.items():
        (tree / "etc" / name).write_text(text)
    (tree / "etc" / "nsswitch.conf").write_text(image_root.ETC["nsswitch.conf"])
    return debian.package_closure(names)


def configuration(package, packages):
    """The process, and what engines show of the image."""
    return {
        "Entrypoint": ["/usr/bin/cloister"],
        "Cmd": ["serve", "--listen", f"0.0.0.0:{PORT}"],
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "ExposedPorts": {f"{PORT}/tcp": {}},
        "Volumes": {path: {} for path in STATE},
        "StopSignal": "SIGTERM",
        "Labels": {"org.opencontainers.image.title": "cloister",
                   "org.opencontainers.image.version": field(package, "Version"),
                   "org.opencontainers.image.licenses": "Apache-2.0",
                   "debian.packages": " ".join(packages)}}


def make(package, output, key):
    work = output / "work-oci"
    tree = work / "tree"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    packages = make_tree(package, tree)
    target = output / f"{package.stem}.oci.tar"
    components = itertools.chain(image_bill.of_packages(packages), image_bill.of_programs(tree, PROGRAMS, field(package, "Version")))
    image_archive.write(tree, work / "layer", configuration(package, packages), target, NAME, components, key)
    shutil.rmtree(work)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--sign", type=image_signature.Key, metavar="KEY.pem")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    print(make(arguments.package.resolve(), output, arguments.sign))


if __name__ == "__main__":
    try:
        main()
    except (debian.Unavailable, image_signature.Unusable) as reason:
        sys.exit(f"package_oci: {reason}")
