# SPDX-License-Identifier: Apache-2.0
"""Cloister: a service of its own, reached over its HTTP API. The policy of a trial is the policy document in force."""

import contextlib
import json
import os
import pathlib
import signal
import sys

from doorcheck.driver import BYTES, DAMAGE, FULL, HTTP_RULES, KILL, NARROW, PROXY, Driver, Result, Running

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "integration"))
import harness  # noqa: E402

# gVisor's stack sends to groups, to everybody and to neighbours of a link. Nobody answers, and no rule can: a refusal of a
# packet to a group is never sent (RFC 1122, 3.2.2).
UNANSWERED = {"gvisor": ("224.", "255.255.255.255", "fe80:", "link-local")}
PROXY_NAME, PROXY_PORT = "proxy.cloister.internal", 3128


def entry_of(entry):
    """A driver's Entry as an entry of a policy document."""
    members = {"name": entry.name, "ports": [entry.port], "protocol": entry.spoken}
    optional = {"methods": list(entry.methods), "paths": list(entry.paths), "max_bytes": entry.max_bytes}
    return {**members, **{name: value for name, value in optional.items() if value}}


def document_of(policy, note=""):
    """A policy document, as JSON, which is YAML as well."""
    none = {"name": "no-network", "why": "code without a network", "effect": "allow", "tier": "Auto",
            "match": {"network_tiers": ["none"]}}
    rules = [none]
    if policy.full:
        rules.append({**none, "name": "full", "why": "every public name" + note, "match": {"network_tiers": ["full"]},
                      "network": [{"name": "*"}]})
    elif policy.allow:
        rules.append({**none, "name": "door", "why": "the policy under trial" + note, "match": {"network_tiers": ["restricted"]},
                      "network": [entry_of(entry) for entry in policy.allow]})
    return json.dumps({"version": 2, "rules": rules}, indent=1)


def tier_of(policy):
    return "full" if policy.full else "restricted" if policy.allow else "none"


class CloisterRun(Running):
    def __init__(self, server, execution):
        self._server, self._id = server, execution

    def output(self):
        return self._server.get(self._id)["stdout"]

    def wait(self, seconds):
        done = self._server.wait_end(self._id, seconds)
        if done["status"] != "completed":
            raise AssertionError(f"{self._id} is {done['status']}: {done['error']}\n{done['stdout'][-1000:]}{done['stderr'][-1000:]}")
        return Result(done["exit_code"], done["stdout"], done["stderr"], (done.get("network") or {}).get("denied", []))

    def end(self):
        if not harness.finished(self._server.get(self._id)):
            self._server.request("DELETE", f"/v1/executions/{self._id}")
            self._server.wait_end(self._id, 30)


class Cloister(Driver):
    """`user`: the service runs as an ordinary user. `request`: further members of each request, such as the runtime.
    `config`: further text of the configuration."""

    name = "cloister"
    features = frozenset((PROXY, HTTP_RULES, BYTES, FULL, NARROW, DAMAGE, KILL))
    proxy = (PROXY_NAME, PROXY_PORT)

    def __init__(self, user=False, request=None, config=""):
        self._user, self._request, self._config = user, request or {}, config
        self.unanswered = UNANSWERED.get(self._request.get("runtime"), ())
        self._document = self._policy = None

    def start(self, world):
        # The rate is no rule: it must not refuse an attempt before the rules do.
        config = f"egress:\n  resolver: {world.resolver}\n  connections_per_second: 10000\n" + self._config
        self._exit = contextlib.ExitStack()
        self.server = self._exit.enter_context(harness.Server(config, user=self._user))

    def stop(self):
        self._exit.close()

    def _apply(self, document, status=201):
        answer = self.server.request("POST", "/v1/policies", {"document": document})
        if answer.status != status:
            raise AssertionError(f"POST /v1/policies: {answer.status} {answer.body[:1000]!r}")

    def _in_force(self, policy):
        if policy != self._policy:
            self._document = document_of(policy)
            self._apply(self._document)
            self._policy = policy

    def begin(self, program, policy, seconds=60):
        self._in_force(policy)
        answer = self.server.submit(program, wait=0, timeout_seconds=seconds, artifacts=[],
                                    network_policy={"tier": tier_of(policy)}, **self._request)
        if answer.status not in (200, 201, 202):
            raise AssertionError(f"POST /v1/executions: {answer.status} {answer.body[:1000]!r}")
        return CloisterRun(self.server, answer.json()["id"])

    def narrow(self, policy):
        self._in_force(policy)

    def damage(self):
        document = self._document
        broken = ("", "{", document[:len(document) // 2], document.replace('"version": 2', '"version": 99'),
                  document.replace('"network"', '"netwrok"'), "\x00" * 100, "version: 2\nrules: []\nrules: []\n")
        for each in broken:
            answer = self.server.request("POST", "/v1/policies", {"document": each})
            if answer.status < 400:
                raise AssertionError(f"a broken document was accepted: {each[:100]!r}")
            yield
        for number in range(5):  # edits that leave the network as it is
            self._apply(document_of(self._policy, f", edit {number}"))
            yield
        self._apply(document)

    def kill_mediator(self):
        os.kill(self.server.pid_of("cloister-egress"), signal.SIGKILL)
