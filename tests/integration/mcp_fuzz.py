# SPDX-License-Identifier: Apache-2.0
"""Malformed MCP messages: valid ones, changed by a generator with a fixed seed."""

import copy
import json
import random

import mcp_client

ODD = (None, True, False, -1, 0, 2**53 + 1, 2**70, 1e308, -0.0, 1.5, "", "\u0000", "../../etc/passwd",
       "A" * 5000, [], {}, [[]],
       {"": {}}, [None] * 50, "\U0001f4a5", "null", "\r\n", "ses_" + "0" * 26, "exec_" + "0" * 26, "%s%n")
BYTES = (b"\x00", b"\xff\xfe", b"\"", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\\ud800", b"1e999", b"//", b"\t",
         b"\"id\":1,", b"NaN", b"\xf0\x9f", b"-", b"true", b"\x1b[2J")


def valid(era):
    """Valid messages that start no program."""
    def request(method, **params):
        if era == "modern":
            params["_meta"] = {**mcp_client.era_meta(), "progressToken": 5}
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    tools = {"list_sessions": {"limit": 3}, "get_logs": {"execution_id": "exec_none", "offset": 0},
             "list_artifacts": {"limit": 2}, "cancel": {"execution_id": "exec_none"},
             "download": {"session_id": "ses_none", "path": "a", "offset": 1},
             "upload": {"session_id": "ses_none", "path": "a", "content": "x"},
             "terminate": {"session_id": "ses_none"}, "exec": {"session_id": "ses_none", "command": "true"},
             "run": {"language": "none", "code": "1", "args": ["a"], "env": {"A": "b"}, "timeout_seconds": 1}}
    messages = [request("tools/call", name=name, arguments=arguments) for name, arguments in tools.items()]
    messages += [request("tools/list"), request("resources/list"), request("resources/templates/list"),
                 request("resources/read", uri="cloister://limits"), request("prompts/list"),
                 request("prompts/get", name="analyse_file", arguments={"path": "a"}),
                 request("completion/complete", ref={"type": "ref/prompt", "name": "analyse_file"},
                         argument={"name": "session_id", "value": "s"})]
    if era == "modern":
        messages.append(request("server/discover"))
    else:
        messages += [request("ping"), request("logging/setLevel", level="info"),
                     request("initialize", protocolVersion="2025-11-25", capabilities={},
                             clientInfo={"name": "f", "version": "1"})]
    messages.append({"jsonrpc": "2.0", "method": "notifications/cancelled",
                     "params": {"requestId": 1, **({"_meta": mcp_client.era_meta()} if era == "modern" else {})}})
    return messages


class Mutator:
    """The same messages for the same seed."""

    def __init__(self, era, seed):
        self.random = random.Random(f"{era} {seed}")
        self._valid = valid(era)

    def message(self):
        """(bytes, the valid message behind them)."""
        origin = self.random.choice(self._valid)
        tree = copy.deepcopy(origin)
        if self.random.random() < 0.6:
            for _ in range(self.random.randint(1, 3)):
                tree = self._change_tree(tree)
        data = json.dumps(tree, ensure_ascii=self.random.random() < 0.5, allow_nan=True).encode("utf-8", "replace")
        if self.random.random() < 0.5:
            for _ in range(self.random.randint(1, 3)):
                data = self._change_bytes(data)
        return data, origin

    def _paths(self, value, path=()):
        yield path
        if isinstance(value, dict):
            for key in value:
                yield from self._paths(value[key], (*path, key))
        elif isinstance(value, list):
            for index in range(min(len(value), 5)):
                yield from self._paths(value[index], (*path, index))

    def _change_tree(self, tree):
        path = self.random.choice(list(self._paths(tree)))
        odd = copy.deepcopy(self.random.choice(ODD))
        if not path:
            return self.random.choice((odd, [tree], [tree, tree], {"x": tree}, tree))
        parent = tree
        for step in path[:-1]:
            parent = parent[step]
        kind = self.random.randint(0, 4)
        if kind == 0 and isinstance(parent, dict):
            del parent[path[-1]]
        elif kind == 1 and isinstance(parent, dict):
            parent[f"x{self.random.randint(0, 9)}"] = odd
        elif kind == 2 and isinstance(parent, dict):
            parent[str(path[-1]).swapcase()] = parent.pop(path[-1])
        else:
            parent[path[-1]] = odd
        return tree

    def _change_bytes(self, data):
        at = self.random.randint(0, len(data))
        kind = self.random.randint(0, 5)
        if kind == 0:
            return data[:at]
        if kind == 1:
            return data[:at] + self.random.choice(BYTES) + data[at:]
        if kind == 2:
            return data[:at] + data[at + self.random.randint(1, 20):]
        if kind == 3 and at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << self.random.randint(0, 7)]) + data[at + 1:]
        if kind == 4:
            return data[:at] + b"[" * self.random.choice((1, 40, 3000)) + data[at:]
        end = min(len(data), at + self.random.randint(1, 60))
        return data[:end] + data[at:end] + data[end:]
