# SPDX-License-Identifier: Apache-2.0
"""Bills of materials are judged by the JSON schema of CycloneDX 1.5, in CycloneDX's own validator."""

import json
import subprocess

import npm_packages


def validate(bill):
    """The faults that the validator of CycloneDX finds; None for none."""
    packages = npm_packages.Packages("sbom").need()
    done = subprocess.run(["node", packages.script("validate.mjs")], input=bill, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
