# SPDX-License-Identifier: Apache-2.0
"""Amounts with units: sizes ("512MB", "2g"), times ("30s", "1h", a timedelta), processors (0.5, "500m")."""

from __future__ import annotations

import datetime
import math
import re
from typing import Union

from .errors import InvalidRequest

Size = Union[int, str]
Duration = Union[int, float, str, datetime.timedelta]
Cores = Union[int, float, str]

_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*\Z")
# MB and m mean MiB, as memory_mb of the API does.
_BYTES = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
          "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30, "t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40}
_SECONDS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _refused(name: str, value: object, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: {value!r} is not understood", field=name, remedy=remedy)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def size_bytes(name: str, value: Size, unit: int) -> int:
    """The bytes of a size; a number without a unit counts `unit` bytes each."""
    remedy = "give a size such as \"512MB\" or \"2g\""
    if _is_number(value) and not isinstance(value, str):
        amount = float(value) * unit
    else:
        found = _AMOUNT.match(value) if isinstance(value, str) else None
        scale = _BYTES.get(found[2].lower()) if found and found[2] else unit
        if found is None or scale is None:
            raise _refused(name, value, remedy)
        amount = float(found[1]) * scale
    if amount <= 0:
        raise _refused(name, value, remedy)
    return math.ceil(amount)


def mebibytes(name: str, value: Size) -> int:
    """MiB, rounded up; a number is MiB already."""
    return -(-size_bytes(name, value, 1 << 20) // (1 << 20))


def seconds(name: str, value: Duration) -> float:
    """Seconds; a number is seconds already."""
    remedy = "give a time such as 30, \"30s\", \"1h\" or a timedelta"
    if isinstance(value, datetime.timedelta):
        amount = value.total_seconds()
    elif isinstance(value, str):
        found = _AMOUNT.match(value)
        scale = _SECONDS.get(found[2].lower() or "s") if found else None
        if found is None or scale is None:
            raise _refused(name, value, remedy)
        amount = float(found[1]) * scale
    elif _is_number(value):
        amount = float(value)
    else:
        raise _refused(name, value, remedy)
    if amount <= 0:
        raise _refused(name, value, remedy)
    return amount


def whole_seconds(name: str, value: Duration) -> int:
    """Seconds, rounded up."""
    return math.ceil(seconds(name, value))


def cpu_millis(name: str, value: Cores) -> int:
    """Thousandths of a core; a number is cores, "500m" is half a core."""
    found = _AMOUNT.match(value) if isinstance(value, str) else None
    if found is not None and found[2] in ("", "m"):
        amount = float(found[1]) * (1 if found[2] == "m" else 1000)
    elif _is_number(value):
        amount = float(value) * 1000
    else:
        amount = 0.0
    if amount < 1:
        raise _refused(name, value, "give cores such as 0.5, 2 or \"500m\"")
    return round(amount)
