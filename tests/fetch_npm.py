#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the suites' npm packages into build/, as pinned by tests/*/package-lock.json and that of the SDK.

    tests/fetch_npm.py [browser|compat|letta|mcp|oidc|otlp|sbom|sdk]…

Needs npm and a network, and skips installed packages. Ends with 1 and the reason if packages are not available: the
suites that need them would fail.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import npm_packages  # noqa: E402


def main():
    names = sys.argv[1:] or npm_packages.NAMES
    unknown = [name for name in names if name not in npm_packages.NAMES]
    if unknown:
        print(f"fetch_npm: unknown set {unknown[0]!r}; there are: {', '.join(npm_packages.NAMES)}", file=sys.stderr)
        return 2
    for name in names:
        try:
            npm_packages.Packages(name).fetch()
        except npm_packages.Absent as why:
            print(f"fetch_npm: {name}: {why}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
