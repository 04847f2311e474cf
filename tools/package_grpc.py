# SPDX-License-Identifier: Apache-2.0
"""The Debian package of cloister-grpc, which tools/package.py makes beside that of the programs (docs/adr/0120)."""

import shutil

NAME = "cloister-grpc"
SCRIPTS = {
    "postinst": 'if [ "$1" = configure ] && [ -d /run/systemd/system ]; then\n  systemctl daemon-reload || true\n'
                f'  [ -z "$2" ] || systemctl try-restart {NAME}.service || true\nfi',
    "prerm": 'if [ "$1" = remove ] && [ -d /run/systemd/system ]; then\n'
             f'  systemctl disable --now {NAME}.service || true\nfi',
}


def documents(root, programs):
    """Puts the documents below `root`. `programs`: the folder with those of the package of the programs."""
    folder = root / "usr" / "share" / "doc" / NAME
    folder.mkdir(parents=True)
    for name in ("copyright", "changelog.Debian.gz", "docs/howto/grpc.md"):
        shutil.copy(programs / name, folder)
    shutil.copytree(programs.parents[1] / "cloister" / "spec" / "proto", folder / "proto")


def scripts(folder):
    """Writes the scripts of the installation into DEBIAN/."""
    for name, command in SCRIPTS.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\nset -e\n{command}\n")
        path.chmod(0o755)
