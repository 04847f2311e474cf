# SPDX-License-Identifier: Apache-2.0
"""The root file system of images, made of packages of this machine with their dependencies. The same packages make
the same root."""

import shutil

import debian

BASE = ("bash", "dash", "coreutils", "mawk", "grep", "sed", "findutils", "diffutils", "procps", "tar", "gzip", "ca-certificates")
LANGUAGES = {
    "bash": (),
    "python": ("python3",),
    "node": ("nodejs",),
    "typescript": ("nodejs", "esbuild"),
    "c": ("gcc", "libc6-dev"),
    "cpp": ("g++", "libc6-dev"),
    "go": ("golang-go",),
    "rust": ("rustc", "gcc", "libc6-dev"),
    "java": ("default-jdk-headless",),
    "r": ("r-base-core",),
}
# The root has the packages' files below /usr, and these: mount points, and files that programs read.
KEPT = {"usr", "etc", *debian.USRMERGE}
PLACES = ("proc", "dev", "tmp", "workspace", "home/user", "run", "sys", "var/tmp")
ETC = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/home/user:/bin/sh\n"
              "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "hostname": "cloister\n",
    "hosts": "127.0.0.1 localhost cloister\n::1 localhost ip6-localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "resolv.conf": "",
}


def make(packages, tree):
    """Makes `tree` of BASE and these packages, unless it exists; True if made."""
    made = debian.user_space((*BASE, *packages), tree)
    for path in tree.iterdir():
        if path.name not in KEPT:
            shutil.rmtree(path)
    for name in PLACES:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name, text in ETC.items():
        (tree / "etc" / name).write_text(text)
    if not (tree / "etc" / "mtab").is_symlink():
        (tree / "etc" / "mtab").symlink_to("../proc/self/mounts")
    return made
