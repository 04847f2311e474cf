# SPDX-License-Identifier: Apache-2.0
"""sandbox.memory: JSON values that outlive the sandbox's programs and the sandbox itself."""

from __future__ import annotations

import json
from typing import Any, List

from .client import AsyncClient, name


class AsyncMemory:
    """Made by a sandbox, as `sandbox.memory`."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client = client
        self._path = f"/v1/sessions/{name(sandbox_id)}/memory"

    async def set(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can express."""
        content = json.dumps(value).encode()
        answer = await self._client.open("PUT", f"{self._path}/{name(key)}", content=content, headers={"Content-Type": "application/json"})
        await answer.close()

    async def get(self, key: str) -> Any:
        """The value. Raises NotFound if there is none."""
        answer = await self._client.open("GET", f"{self._path}/{name(key)}")
        return json.loads(await self._client.whole(answer))

    async def delete(self, key: str) -> None:
        await self._client.call("DELETE", f"{self._path}/{name(key)}")

    async def keys(self) -> List[str]:
        """The keys that have a value."""
        return [item["key"] for item in await self._client.pages(self._path, "memory", 10_000, {})]
