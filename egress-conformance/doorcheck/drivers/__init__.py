# SPDX-License-Identifier: Apache-2.0
"""The drivers. A driver is a module here with a class that derives from doorcheck.driver.Driver, named in NAMES."""

import importlib

NAMES = {"cloister": "Cloister", "control": "Control"}


def make(name, **options):
    """→ the driver of this name, made with the options."""
    return getattr(importlib.import_module(f"doorcheck.drivers.{name}"), NAMES[name])(**options)
