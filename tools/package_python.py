# SPDX-License-Identifier: Apache-2.0
"""The Debian package of the SDK for Python, which tools/package.py makes beside that of the programs (docs/adr/0106)."""

import pathlib
import shutil

REPO = pathlib.Path(__file__).resolve().parents[1]
SDK = REPO / "sdk" / "python"
NAME = "python3-cloister"
# Debian's python3 compiles the modules, and removes what it made.
SCRIPTS = {
    "postinst": f'if [ "$1" = configure ] && command -v py3compile >/dev/null; then py3compile -p {NAME}; fi',
    "prerm": f'if command -v py3clean >/dev/null; then py3clean -p {NAME}; fi',
}


def install(root, debian):
    """Installs the package's files below `root`. `debian`: the folder with copyright and changelog.Debian.gz."""
    modules = root / "usr" / "lib" / "python3" / "dist-packages" / "cloister"
    shutil.copytree(SDK / "cloister", modules, ignore=shutil.ignore_patterns("__pycache__"))
    documents = root / "usr" / "share" / "doc" / NAME
    documents.mkdir(parents=True)
    for name in ("copyright", "changelog.Debian.gz"):
        shutil.copy(debian / name, documents / name)
    shutil.copy(REPO / "docs" / "howto" / "sdk-python.md", documents)


def scripts(folder):
    """Writes the scripts of the installation into DEBIAN/."""
    for name, command in SCRIPTS.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\nset -e\n{command}\n")
        path.chmod(0o755)
