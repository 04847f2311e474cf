# SPDX-License-Identifier: Apache-2.0
"""A small client of the interface /letta, for the source of tools: the names of the official client that work here, without
its dependencies. A tool has it as `client`, and as letta_client.Letta or letta.LettaClient."""
import json
import os
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 60
PAGE = 50


class APIError(Exception):
    """An answer with an error; `status_code` and `body` are the server's."""

    def __init__(self, status_code, body):
        detail = body.get("detail") if isinstance(body, dict) else body
        super().__init__(f"Error code: {status_code} - {detail}")
        self.status_code, self.body = status_code, body


class Model(dict):
    """An answer; its members are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _modelled(value):
    if isinstance(value, dict):
        return Model({name: _modelled(each) for name, each in value.items()})
    return [_modelled(each) for each in value] if isinstance(value, list) else value


class _Resource:
    def __init__(self, client):
        self._client = client


class _Tools(_Resource):
    def create(self, *, source_code, **more):
        return self._client.post("/v1/tools/", {"source_code": source_code, **more})

    def upsert(self, *, source_code, **more):
        return self._client.put("/v1/tools/", {"source_code": source_code, **more})

    def retrieve(self, tool_id):
        return self._client.get(f"/v1/tools/{urllib.parse.quote(tool_id, safe='')}")

    def update(self, tool_id, **changes):
        return self._client.patch(f"/v1/tools/{urllib.parse.quote(tool_id, safe='')}", changes)

    def delete(self, tool_id):
        return self._client.delete(f"/v1/tools/{urllib.parse.quote(tool_id, safe='')}")

    def list(self, **query):
        """→ an iterator over all tools."""
        query.setdefault("limit", PAGE)
        while True:
            page = self._client.get("/v1/tools/", query)
            yield from page
            if not page:
                return
            query["after"] = page[-1]["id"]

    def search(self, **body):
        return self._client.post("/v1/tools/search", body)

    def run(self, *, source_code, args=None, **more):
        return self._client.post("/v1/tools/run", {"source_code": source_code, "args": args or {}, **more})


class _AgentTools(_Resource):
    def run(self, tool_name, *, agent_id, args=None):
        agent, name = (urllib.parse.quote(each, safe="") for each in (agent_id, tool_name))
        return self._client.post(f"/v1/agents/{agent}/tools/{name}/run", {"args": args or {}})


class _Agents(_Resource):
    def __init__(self, client):
        super().__init__(client)
        self.tools = _AgentTools(client)


class Letta:
    def __init__(self, base_url=None, api_key=None, token=None, project_id=None, timeout=TIMEOUT):
        self.base_url = (base_url or os.environ.get("LETTA_BASE_URL", "")).rstrip("/")
        self.api_key = api_key or token or os.environ.get("LETTA_API_KEY")
        self.project_id = project_id or os.environ.get("LETTA_PROJECT_ID")
        self.timeout = timeout
        self.tools, self.agents = _Tools(self), _Agents(self)
        # No proxy: the sandbox reaches the service itself.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def request(self, method, path, body=None, query=None):
        if not self.base_url:
            raise ValueError("LETTA_BASE_URL is not set, and base_url was not given")
        url = self.base_url + path
        if query:
            url += "?" + urllib.parse.urlencode({name: each for name, each in query.items() if each is not None})
        headers = {"Authorization": f"Bearer {self.api_key}"}
        if self.project_id:
            headers["X-Project-Id"] = self.project_id
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            with self._open(request, timeout=self.timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                text = json.loads(text)
            except ValueError:
                text = text.decode("utf-8", "replace")
            raise APIError(error.code, text) from None
        return _modelled(json.loads(text)) if text else None

    def get(self, path, query=None):
        return self.request("GET", path, query=query)

    def post(self, path, body=None):
        return self.request("POST", path, {} if body is None else body)

    def put(self, path, body=None):
        return self.request("PUT", path, {} if body is None else body)

    def patch(self, path, body=None):
        return self.request("PATCH", path, {} if body is None else body)

    def delete(self, path):
        return self.request("DELETE", path)


LettaClient = Letta
