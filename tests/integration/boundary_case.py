# SPDX-License-Identifier: Apache-2.0
"""Every route with an id, called by tests for another owner's objects."""

import re

from api_case import DOCUMENT

# A valid body, for routes that refuse {}.
BODIES = {
    "POST /v1/executions/{id}/input": {"data": "x"},
    "POST /v1/executions/{id}:signal": {"signal": "SIGTERM"},
    "POST /v1/executions/{id}:resize": {"cols": 80, "rows": 24},
    "POST /v1/sessions/{id}/renew": {"ttl_seconds": 60},
    "POST /v1/sessions/{id}/exec": {"command": "true"},
    "POST /v1/sessions/{id}/files:move": {"from": "a", "to": "b"},
    "POST /v1/sessions/{id}/files:mkdir": {"path": "a"},
    "PUT /v1/sessions/{id}/files/{path}": b"x",
    "PUT /v1/sessions/{id}/archive": b"\0" * 1024,
    "PUT /v1/sessions/{id}/memory/{key}": {"a": 1},
    "POST /v1/escalations/{id}:deny": {"reason": "x"},
    "PUT /v1/agents/{agent}/escalation-policy": {"auto_approve": "safe"},
    "PUT /v1/agents/{agent}/runtime": {"memory_mb": 128},
    "PUT /v1/quotas/agents/{agent}": {"sessions": 1},
    "POST /v1/agents/{agent}/sandbox": {"level": "restricted"},
    "POST /v1/agents/{agent}/sandbox:dry-run": {"level": "restricted"},
    "POST /v1/agents/{agent}/sandbox:update": {"level": "restricted"},
    "POST /v1/agents/{agent}/sandbox:validate": {"operation": {"type": "command", "command": "ls"}},
}
# An agent's name belongs to its tenant: these routes make or show one's own agent of the name.
BY_NAME = {
    "POST /v1/agents/{agent}/sandbox", "PUT /v1/quotas/agents/{agent}", "PUT /v1/agents/{agent}/escalation-policy",
    "GET /v1/agents/{agent}/escalation-policy", "PUT /v1/agents/{agent}/runtime", "POST /v1/agents/{agent}/sandbox:dry-run",
}
OTHER_PARTS = {"path": "f", "port": "8000", "rest": "x", "name": "python", "key": "k"}


def permission(operation):
    method, template = operation.split(" ")
    return DOCUMENT.root["paths"][template][method.lower()]["x-permission"]


def operations():
    return sorted(f"{method} {template}" for method, template in DOCUMENT.operations())


def request_of(operation, id_):
    """The method, path and body of a valid request about an object with the id."""
    method, template = operation.split(" ")
    path = re.sub(r"\{(id|agent|upload)\}", id_, template)
    for name, value in OTHER_PARTS.items():
        path = path.replace(f"{{{name}}}", value)
    return method, path, BODIES.get(operation, {} if method == "POST" else b"x" if method in ("PUT", "PATCH") else None)


def unknown(id_):
    """An unused id of the same kind."""
    return "ESC-2031-999" if id_.startswith("ESC-") else id_[:-4] + "zzzz"


def list_queries(path, values):
    """Queries of a list: without a filter, and with each of the documented `values`."""
    names = [each.get("name") for each in map(
        DOCUMENT.resolve, DOCUMENT.root["paths"][path]["get"].get("parameters", []) +
        DOCUMENT.root["paths"][path].get("parameters", []))]
    return [""] + [f"?{name}={value}" for name, value in values if name in names]
