# SPDX-License-Identifier: Apache-2.0
"""Holds messages of an MCP server to the protocol's own JSON Schema, as the official suite does."""

import json

import jsonschema

CORE_RESULTS = ("complete", "input_required")
# Integers by an oversight of these two documents; any number is meant.
NUMBERS = ("minimum", "maximum", "default")


class Schema:
    """A version of the protocol. `document`: its schema.json."""

    def __init__(self, version, document):
        self.version = version
        self._key = "$defs" if "$defs" in document else "definitions"
        self._defs = document[self._key]
        modern_dialect = "2020-12" in document.get("$schema", "")
        self._dialect = jsonschema.Draft202012Validator if modern_dialect else jsonschema.Draft7Validator
        if version in ("2025-06-18", "2025-11-25"):
            for name in NUMBERS:
                member = self._defs.get("NumberSchema", {}).get("properties", {}).get(name, {})
                if member.get("type") == "integer":
                    member["type"] = "number"
        self._validators, self._of_method, self._of_error, self._of_result = {}, {}, {}, {}
        for name, definition in self._defs.items():
            self._index(name, definition)

    def _index(self, name, definition):
        properties = definition.get("properties", {})
        method = properties.get("method", {}).get("const")
        if isinstance(method, str):
            self._of_method[method] = name
            result = name.removesuffix("Request") + "Result"
            if name.endswith("Request") and result in self._defs:
                self._of_result[method] = result
        for part in properties.get("error", {}).get("allOf", ()):
            code = part.get("properties", {}).get("code", {}).get("const")
            if isinstance(code, int):
                self._of_error[code] = name

    def _problems(self, name, value):
        if name not in self._validators:
            self._validators[name] = self._dialect(
                {"$ref": f"#/{self._key}/{name}", self._key: self._defs})
        return [f"{name}{error.json_path[1:]}: {error.message[:300]}"
                for error in self._validators[name].iter_errors(value)]

    def _first(self, *names):
        return next(name for name in names if name in self._defs)

    def problems(self, message, method=None):
        """The errors of a server's message, [] if none. `method`: of the request that a response answers."""
        if not isinstance(message, dict):
            return [f"not one JSON object: {str(message)[:200]}"]
        if isinstance(message.get("method"), str):
            generic = "JSONRPCRequest" if "id" in message else "JSONRPCNotification"
            return self._problems(self._of_method.get(message["method"], generic), message)
        if message.get("error") is not None:
            code = message["error"].get("code") if isinstance(message["error"], dict) else None
            generic = self._first("JSONRPCErrorResponse", "JSONRPCError")
            return self._problems(self._of_error.get(code, generic), message)
        if "result" not in message:
            return [f"neither a request, a notification nor a response: {str(message)[:200]}"]
        kind = message["result"].get("resultType") if isinstance(message["result"], dict) else None
        name = self._of_result.get(method)
        if kind == "input_required" and "InputRequiredResult" in self._defs:
            name = "InputRequiredResult"
        found = self._problems(name, message["result"]) if name else []
        if self.version == "2026-07-28" and kind not in CORE_RESULTS:
            found.append(f"resultType is {kind!r}")
        return found or self._problems(self._first("JSONRPCResultResponse", "JSONRPCResponse"), message)

    def check(self, message, method=None):
        found = self.problems(message, method)
        assert not found, f"{self.version}: {found[:5]} in {json.dumps(message)[:1500]}"


def load(npm):
    """{version: Schema} from the installed packages."""
    return {version: Schema(version, document) for version, document in npm.schemas().items()}
