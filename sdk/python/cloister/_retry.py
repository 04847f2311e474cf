# SPDX-License-Identifier: Apache-2.0
"""Which failed request is sent again, and when: bounded in number and time, with jitter, after Retry-After."""

from __future__ import annotations

import random
import time
from typing import Optional

from .errors import CloisterError

_FIRST = 0.2
_LONGEST = 5.0


class Attempts:
    """The attempts of one request. `safe`: sending it twice has the effect of sending it once."""

    def __init__(self, retries: int, seconds: float, safe: bool) -> None:
        self._left, self._safe = retries, safe
        self._end = time.monotonic() + seconds
        self._pause = _FIRST

    def pause(self, error: CloisterError, sent: bool) -> Optional[float]:
        """Seconds until the next attempt; None if there is none. `sent`: the server may have carried out the request."""
        refused = error.status in (429, 503) and error.retryable  # the server has done nothing
        unclear = error.status in (None, 408, 502, 504)
        if self._left <= 0 or not (refused or (unclear and (self._safe or not sent))):
            return None
        self._left -= 1
        wait = random.uniform(self._pause / 2, self._pause)
        self._pause = min(self._pause * 2, _LONGEST)
        if error.retry_after is not None:
            wait = error.retry_after + random.uniform(0, 0.25)
        return wait if time.monotonic() + wait <= self._end else None
