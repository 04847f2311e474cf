# SPDX-License-Identifier: Apache-2.0
# Generated from _async/memory.py by tools/sdk_sync.py: do not edit.
"""sandbox.memory: JSON values that outlive the sandbox's programs and the sandbox itself."""

from __future__ import annotations

import json
from typing import Any, List

from .client import Client, name


class Memory:
    """Made by a sandbox, as `sandbox.memory`."""

    def __init__(self, client: Client, sandbox_id: str) -> None:
        self._client = client
        self._path = f"/v1/sessions/{name(sandbox_id)}/memory"

    def set(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can express."""
        content = json.dumps(value).encode()
        answer = self._client.open("PUT", f"{self._path}/{name(key)}", content=content, headers={"Content-Type": "application/json"})
        answer.close()

    def get(self, key: str) -> Any:
        """The value. Raises NotFound if there is none."""
        answer = self._client.open("GET", f"{self._path}/{name(key)}")
        return json.loads(self._client.whole(answer))

    def delete(self, key: str) -> None:
        self._client.call("DELETE", f"{self._path}/{name(key)}")

    def keys(self) -> List[str]:
        """The keys that have a value."""
        return [item["key"] for item in self._client.pages(self._path, "memory", 10_000, {})]
