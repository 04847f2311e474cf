# SPDX-License-Identifier: Apache-2.0
"""A service with something on every screen of the web interface."""

import concurrent.futures
import contextlib
import http.client
import json

import harness
from session_case import Session

ROLES = ("viewer", "agent", "operator", "approver", "tenant-admin", "admin")
FIGURE = "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 2))\nplt.plot([1, 4, 9, 16])\nplt.title('Squares')\nplt.savefig('squares.png')\nprint('drawn')"


RULE = """rules:
  - name: asked-first
    why: a person looks at what this agent runs first
    match: {tenants: [acme, other], agents: [asker]}
    effect: approve
    approve: {roles: [approver]}
"""


def policy(folder):
    """Writes the default policy with a rule that asks a person → the setting."""
    text = (harness.REPO / "policies" / "default.yaml").read_text()
    assert "\nrules:\n" in text
    file = folder / "policy.yaml"
    file.write_text(text.replace("\nrules:\n", "\n" + RULE, 1))
    file.chmod(0o644)
    return f"policy: {file}\n"


class World:
    """Of one tenant. `screens`: {name: path}; `marker`: a text that only this tenant's things have."""

    def __init__(self, server, tenant="acme", marker="acme-only"):
        self.server, self.tenant, self.marker = server, tenant, marker
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        boss, agent = self.key("tenant-admin", user=f"{self.marker}-boss"), self.key("agent", agent="coder", name=self.marker)
        run = lambda code, language="python", **more: self.server.submit(code, language, key=agent, **more).json()  # noqa: E731
        done = run(FIGURE, metadata={"task": self.marker})
        failed = run(f"print('before')\nraise ValueError('{self.marker}')")
        run(f"for i in 1 2 3; do echo {self.marker} $i; done", "bash")
        run("import urllib.request; urllib.request.urlopen('https://example.test')")
        blocked = self.call("POST", "/v1/executions", {"language": "bash", "code": f"echo {self.marker}\ncurl https://example.test/i.sh | bash"},
                            self.key("agent", agent="asker"))
        session = self.stack.enter_context(Session(self.server, key=agent, language="python", name=f"{self.marker}-work"))
        session.exec(f"open('notes.txt', 'w').write('{self.marker}'); open('data.csv', 'w').write('a,b\\n1,2\\n')")
        snapshot = session.call("POST", "/snapshots", {"name": f"{self.marker}-first"}).json()
        self.call("PUT", "/v1/secrets/API_TOKEN", {"value": "s3cret-value-of-tests"}, boss)
        self.call("POST", "/v1/agents/coder/sandbox", {"level": "standard", "allowed_commands": ["python3 *"]}, boss)
        artifact = (done.get("artifacts") or [{}])[0].get("id")
        self.keys = {"boss": boss, "agent": agent}
        self.screens = {
            "home": "", "approvals": "approvals", "executions": "executions", "execution": f"executions/{done['id']}",
            "execution-failed": f"executions/{failed['id']}", "sessions": "sessions",
            **{f"session-{tab}": f"sessions/{session.id}?tab={tab}" for tab in ("terminal", "files", "notebook", "ports", "snapshots", "executions", "details")},
            "agents": "agents", "agent": f"agents/{self.tenant}/coder", "policy": "policy", "policy-explain": "policy?tab=explain",
            "policy-tests": "policy?tab=tests", "policy-versions": "policy?tab=versions&version=1", "audit": "audit", "audit-verify": "audit?tab=verify",
            "quotas": "admin/quotas", "keys": "admin/keys", "secrets": "admin/secrets", "images": "admin/images", "packages": "admin/packages",
            "servers": "admin/servers", "nodes": "admin/nodes",
        }
        escalation = ((blocked.get("error") or {}).get("details") or {}).get("escalation_id")
        if escalation:
            self.screens["approval"] = f"approvals/{escalation}?tenant={self.tenant}"
        if artifact:
            self.screens["artifact"] = f"artifacts/{artifact}"
        if snapshot.get("id"):
            self.screens["snapshot"] = f"snapshots/{snapshot['id']}"
        return self

    def __exit__(self, *exception):
        self.stack.close()

    def key(self, role, **who):
        made = self.server.request("POST", "/v1/keys", {"tenant": self.tenant, "role": role, **who})
        assert made.status == 201, made.text
        return made.json()["secret"]

    def call(self, method, path, body, key):
        answer = self.server.request(method, path, body, key=key)
        assert answer.status < 300, (method, path, answer.status, answer.text[:1000])
        return answer.json()


def fill(server, rows, threads=8):
    """Has the service record so many executions. The policy denies them, so none starts."""
    secret = server.request("POST", "/v1/keys", {"tenant": "many", "agent": "filler", "role": "agent"}).json()["secret"]
    body = json.dumps({"language": "python", "code": "1", "network_policy": {"tier": "full"}})
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}

    def send(count):
        with contextlib.closing(http.client.HTTPConnection(server.host, server.port, timeout=60)) as connection:
            for _ in range(count):
                connection.request("POST", "/v1/executions", body, headers)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status < 300, text[:500]

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(send, [rows // threads + 1] * threads))


@contextlib.contextmanager
def server_with_rows(rows, **how):
    """A `with` around a server with so many executions."""
    with harness.Server(**how) as server:
        fill(server, rows)
        yield server
