# SPDX-License-Identifier: Apache-2.0
"""A service whose policy wants approvals, with its requesters and approvers."""

import pathlib
import tempfile

import api_case
import harness

SECRET = "0123456789abcdef0123456789abcdef"
POLICY = """
version: 2
tiers:
  Assisted: {runtime: process}
  HumanApprove: {runtime: process, approve: {roles: [approver]}}
  ManualOnly: {runtime: process, approve: {roles: [approver], quorum: 2}}
rules:
  - {name: closed, why: nothing runs here, effect: deny, match: {tenants: [evil]}}
  - name: release
    why: what runs here is looked at first
    match: {tenants: [acme, other, counted]}
    effect: approve
    approve: {roles: [approver]}
  - name: owners
    why: their own administrators look first
    match: {tenants: [owned], languages: [bash]}
    effect: approve
    approve: {roles: [tenant-admin]}
  - name: owners of deployments
    why: their own administrators look first
    match: {tenants: [owned], tool_types: [deploy]}
    effect: approve
    approve: {roles: [tenant-admin]}
  - name: two
    why: two look first
    match: {tenants: [two]}
    effect: approve
    approve: {roles: [approver], quorum: 2, ttl_seconds: 600}
  - name: commands
    why: commands of sessions are looked at first
    match: {tenants: [mixed], languages: [command]}
    effect: approve
    approve: {roles: [approver]}
  - name: hurried
    why: at once or not at all
    match: {tenants: [hurried]}
    effect: approve
    approve: {ttl_seconds: 1}
  - {name: rest, why: all else runs, effect: allow}
"""


class Escalations(api_case.ApiTest):
    config = ""

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="cloister-escalations."))
        cls.dir.chmod(0o755)
        (cls.dir / "policy.yaml").write_text(POLICY)
        (cls.dir / "secret").write_text(SECRET + "\n")
        cls.server = harness.Server(config=f"policy: {cls.dir}/policy.yaml\n" + cls.make_config())
        cls.enterClassContext(cls.server)
        cls.keys = {}

    @classmethod
    def make_config(cls):
        return cls.config

    def key(self, tenant, role="agent", **who):
        """A credential, the same for the same arguments."""
        name = (tenant, role, *sorted(who.items()))
        if name not in self.keys:
            made = self.call("POST", "/v1/keys", {"tenant": tenant, "name": "test", "roles": [role], **who}, status=201)
            self.keys[name] = made.json()["secret"]
        return self.keys[name]

    def agent(self, tenant="acme"):
        return self.key(tenant, agent="coder", user="dev")

    def boss(self, tenant="acme", user="security-lead"):
        return self.key(tenant, "approver", user=user)

    def ask(self, tenant="acme", status=201, **run):
        run = run or {"language": "bash", "code": "echo hello"}
        return self.call("POST", "/v1/executions", run, key=self.agent(tenant), status=status).json()

    def vote(self, escalation, key, action="approve", status=200, **body):
        return self.call("POST", f"/v1/escalations/{escalation}:{action}", body, key=key, status=status).json()

    def id_of(self, execution):
        return execution["error"]["details"]["escalation_id"]

    def show(self, escalation, key=None):
        return self.call("GET", f"/v1/escalations/{escalation}", key=key or self.boss(), status=200).json()

    def audit(self, subject):
        rows, after = [], 0
        while after is not None:
            page = self.call("GET", f"/v1/audit?limit=1000&after={after}", status=200).json()
            rows += page["entries"]
            after = page["next_after"]
        return [row for row in rows if row["subject"] == subject]
