# SPDX-License-Identifier: Apache-2.0
"""Tool calls: the registry, the use of arguments, each failure, access to a call, and its record."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import harness
from api_case import CONFIG, ApiTest

PAGE = harness.REPO / "docs" / "TOOLS.md"
OWN = """version: 1
tools:
  - {id: slow.call, title: Slow, why: w, tool_type: run_code, capabilities: [command_execution], risk: low, retry: {timeout: 2},
     request: {command: [sleep, "60"], timeout_seconds: 0.3}}
  - {id: built.in, title: Built in, why: w, tool_type: send_message, capabilities: [network], risk: low, request: {command: ["true"]}}
  - {id: asks.person, title: Asks, why: w, tool_type: run_code, capabilities: [command_execution], risk: high,
     request: {command: ["true"], tier: HumanApprove}}
  - {id: risky.call, title: Risky, why: w, tool_type: run_code, capabilities: [command_execution], risk: high,
     request: {command: ["true"]}}
  - {id: small.call, title: Small, why: w, tool_type: run_code, capabilities: [command_execution], risk: low,
     limits: {timeout_seconds: 9, pids: 5}, arguments: {seconds: {type: integer, min: 1, max: 99, description: Time.}},
     request: {command: "ulimit -u; sleep 0", timeout_seconds: "{seconds}"}}
  - {id: large.call, title: Large, why: w, tool_type: run_code, capabilities: [command_execution], risk: low,
     retry: {startup: 2, timeout: 2}, limits: {memory_mb: 64},
     request: {language: python, code: "b = bytearray(1 << 30)\\nfor i in range(0, len(b), 4096): b[i] = 1"}}
  - {id: web.call, title: Web, why: w, tool_type: run_code, capabilities: [network], network: restricted, risk: low,
     request: {command: ["true"]}}
  - {id: nothing.there, title: None, why: w, tool_type: run_code, capabilities: [command_execution], risk: low, retry: {startup: 1},
     request: {command: [/no/such/program]}}
"""


def setUpModule():
    folder = unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="cloister-tools."))
    os.chmod(folder, 0o755)
    text = (harness.REPO / "policies" / "tools.yaml").read_text()
    path = pathlib.Path(folder, "tools.yaml")
    path.write_text(text + OWN.split("tools:\n", 1)[1])
    # Without gVisor too, there is something to approve.
    policy = pathlib.Path(folder, "policy.yaml")
    text = (harness.REPO / "policies" / "default.yaml").read_text()
    policy.write_text(text.replace("{runtime: gvisor,", "{runtime: process,"))
    ApiTest.server = harness.Server(config=CONFIG + f"tools: {path}\npolicy: {policy}\n")
    unittest.enterModuleContext(ApiTest.server)


class ToolCase(ApiTest):
    def ask(self, tool, key=None, headers=None, query="", session=None, metadata=None, approval=None, parent=None,
            sandbox=None, **arguments):
        body = {"tool_id": tool, "arguments": arguments}
        if sandbox:
            body["sandbox"] = sandbox
        if approval:
            body["approval"] = approval
        if session:
            body["session_id"] = session
        if parent:
            body["parent_id"] = parent
        if metadata:
            body["metadata"] = metadata
        return self.call("POST", "/v1/tool-calls" + query, body, headers, key)

    def effect(self, tool, status=200, **more):
        answer = self.ask(tool, **more)
        self.assertEqual(answer.status, status, answer.body[:1000])
        return answer.json()


class Calls(ToolCase):
    def test_a_call_and_its_effect(self):
        effect = self.effect("python.execute", code="import sys; print(sys.argv[1:], input())", args=["a", "b c"], input="in\n",
                             metadata={"step": "3", "tool_type": "send_message"})
        self.assertEqual((effect["status"], effect["exit_code"], effect["error"]), ("completed", 0, None))
        self.assertEqual(effect["output"]["stdout"], "['a', 'b c'] in\n")
        self.assertEqual(self.effect("node.execute", code="console.log(6 * 7)")["output"]["stdout"], "42\n")
        self.assertEqual(self.effect("shell.execute", command="echo out; echo err >&2; exit 3")["exit_code"], 3)
        shown = self.call("GET", f"/v1/tool-calls/{effect['id']}", status=200).json()
        self.assertEqual(shown, effect)
        execution = self.call("GET", f"/v1/executions/{effect['id']}", status=200).json()
        self.assertEqual(execution["metadata"], {"step": "3", "tool_type": "run_code", "cloister.tool": "python.execute",
                                                 "cloister.capabilities": "command_execution", "cloister.risk": "low"})
        self.assertEqual(effect["metadata"]["container_id"], execution["provenance"]["permit_id"])
        self.assertEqual(effect["metadata"]["output_sha256"], execution["provenance"]["output_sha256"])
        self.assertEqual(effect["metadata"]["duration_ms"], execution["resource_usage"]["wall_ms"])

    def test_what_is_shown_of_tools(self):
        tools = self.call("GET", "/v1/capabilities", status=200).json()["tools"]
        shell = next(tool for tool in tools if tool["id"] == "shell.execute")
        self.assertEqual(shell["arguments"]["required"], ["command"])
        self.assertEqual(shell["arguments"]["properties"]["timeout_seconds"]["maximum"], 300)
        self.assertEqual((shell["capabilities"], shell["network"], shell["risk"], shell["tier"], shell["limits"]),
                         (["command_execution"], "none", "low", "Auto", {"memory_mb": 256, "timeout_seconds": 300}))

    def test_arguments_are_words_and_no_more(self):
        for pattern in ("x; touch made", "$(touch made)", "`touch made`", "x\ntouch made", "' touch made '", "-f/etc/passwd",
                        "{path}", "--include=made", "\\"):
            effect = self.effect("text.search", pattern=pattern, path=".")
            self.assertEqual((effect["output"]["stdout"], effect["artifacts"]), ("", []), pattern)
        effect = self.effect("text.search", pattern="root", path="--no-such-flag")
        self.assertIn("--no-such-flag: No such file", effect["output"]["stderr"])

    def test_what_is_refused(self):
        for body, status, field in (
                ({"tool_id": "shell.exec"}, 404, "tool_id"), ({}, 422, "tool_id"),
                ({"tool_id": "shell.execute"}, 422, "arguments.command"),
                ({"tool_id": "shell.execute", "arguments": {"command": 1}}, 422, "arguments.command"),
                ({"tool_id": "shell.execute", "arguments": {"command": "ls", "env": {}}}, 422, "arguments.env"),
                ({"tool_id": "shell.execute", "arguments": {"command": "x" * 65537}}, 413, "arguments.command"),
                ({"tool_id": "shell.execute", "arguments": {"command": "a\0b"}}, 422, "command"),
                ({"tool_id": "shell.execute", "arguments": {"command": "ls", "timeout_seconds": 301}}, 422,
                 "arguments.timeout_seconds"),
                ({"tool_id": "shell.execute", "arguments": {"command": "ls"}, "metadata": {"cloister.tool": "x"}}, 422,
                 "metadata.cloister.tool"),
                ({"tool_id": "shell.execute", "arguments": {"command": "ls"}, "runtime": "process"}, 422, "runtime")):
            self.assertProblem(self.call("POST", "/v1/tool-calls", body), status, field=field)
        self.assertIn("did you mean shell.execute",
                      self.ask("shell.exec").json()["error"]["message"])
        forged = self.call("POST", "/v1/executions", {"command": ["ls"], "metadata": {"cloister.tool": "shell.execute"}})
        self.assertProblem(forged, 422, field="metadata.cloister.tool")


class Rules(ToolCase):
    """The registry's decisions about a call, whatever its arguments say."""

    def test_the_risk_is_the_lowest_tier(self):
        held = self.effect("risky.call", status=202, query="?wait=0")
        self.assertEqual((held["status"], held["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"), held)
        metadata = self.call("GET", f"/v1/executions/{held['id']}", status=200).json()["metadata"]
        self.assertEqual((metadata["cloister.risk"], metadata["cloister.risk_tier"]), ("high", "HumanApprove"))
        self.cancel(held)
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        inside = self.effect("risky.call", status=202, session=session)
        self.assertEqual((inside["status"], inside["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"), inside)
        self.cancel(inside)

    def test_limits_are_the_most(self):
        effect = self.effect("small.call")
        execution = self.call("GET", f"/v1/executions/{effect['id']}", status=200).json()
        self.assertEqual(execution["status"], "completed", execution)
        accepted = next(entry for entry in self.call("GET", "/v1/audit?limit=500", status=200).json()["entries"]
                        if entry["subject"] == effect["id"] and entry["action"] == "execution.accepted")
        self.assertEqual((accepted["details"]["limits"]["wall_ms"], accepted["details"]["limits"]["pids"]), (9000, 5))
        self.assertEqual(self.effect("small.call", seconds=9)["status"], "completed")
        over = self.ask("small.call", seconds=10)
        self.assertProblem(over, 422, field="timeout_seconds")
        self.assertIn("more than small.call allows; ask for at most 9", over.json()["detail"])

    def test_the_network_is_the_tools(self):
        effect = self.effect("web.call")
        self.assertEqual((effect["status"], effect["error"]["type"]), ("denied", "PERMISSION_DENIED"), effect)
        self.assertIn("no rule of policy", effect["error"]["message"])
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        self.assertProblem(self.ask("web.call", session=session), 422, field="session_id")

    def test_an_agent_without_what_it_needs(self):
        self.call("POST", "/v1/agents/unread/sandbox", {"level": "training"}, status=201)
        self.call("POST", "/v1/agents/unread/sandbox:update", {"revoke": ["file_read"]}, status=200)
        key = self.new_key("default", roles=["agent"], agent="unread")["secret"]
        effect = self.effect("text.search", key=key, pattern="x")
        self.assertEqual((effect["status"], effect["error"]["type"]), ("denied", "PERMISSION_DENIED"), effect)
        self.assertIn("text.search needs file_read", effect["error"]["message"])


class Failures(ToolCase):
    def test_memory(self):
        effect = self.effect("python.execute", code="b = bytearray(1 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1")
        self.assertEqual((effect["exit_code"], effect["error"]["type"]), (137, "RESOURCE_LIMIT_EXCEEDED"), effect)
        details = effect["error"]["details"]
        self.assertEqual((details["limit"], details["memory_limit_mb"]), ("memory_mb", 512))
        self.assertGreaterEqual(details["memory_used_mb"], 400)
        self.assertIsNone(effect["metadata"]["retry_of"])

    def test_time_and_its_retries(self):
        effect = self.effect("slow.call")
        self.assertEqual((effect["status"], effect["exit_code"], effect["error"]["type"]), ("timed_out", 124, "TIMEOUT"), effect)
        tries = [effect]
        while tries[-1]["metadata"]["retry_of"]:
            tries.append(self.call("GET", f"/v1/tool-calls/{tries[-1]['metadata']['retry_of']}", status=200).json())
        self.assertEqual([each["status"] for each in tries], ["timed_out"] * 3)
        self.assertEqual([each["metadata"]["attempts"] for each in tries], [3, 2, 1])
        records = [self.call("GET", f"/v1/executions/{each['id']}", status=200).json() for each in tries]
        self.assertEqual([record["metadata"].get("cloister.retry_of") for record in records],
                         [records[1]["id"], records[2]["id"], None])
        self.assertIsNone(self.effect("shell.execute", command="sleep 60", timeout_seconds=1)["metadata"]["retry_of"])

    def test_memory_and_refusals_are_not_tried_again(self):
        effect = self.effect("large.call")
        self.assertEqual((effect["error"]["type"], effect["exit_code"], effect["metadata"]["signal"]),
                         ("RESOURCE_LIMIT_EXCEEDED", 137, "SIGKILL"), effect)
        self.assertEqual((effect["metadata"]["attempts"], effect["metadata"]["retry_of"]), (1, None))
        self.assertEqual(effect["error"]["details"]["memory_limit_mb"], 64)
        denied = self.effect("built.in")
        self.assertEqual((denied["error"]["type"], denied["metadata"]["attempts"]), ("PERMISSION_DENIED", 1), denied)

    def test_a_program_that_is_not_there(self):
        effect = self.effect("nothing.there")
        self.assertIn(effect["exit_code"], (126, 127, None), effect)
        self.assertNotEqual(effect["status"], "running")

    def test_denied(self):
        effect = self.effect("built.in")
        self.assertEqual((effect["status"], effect["exit_code"], effect["error"]["type"]),
                         ("denied", None, "PERMISSION_DENIED"), effect)

    def test_what_a_person_must_approve(self):
        effect = self.effect("asks.person", status=202, query="?wait=0")
        self.assertEqual(effect["status"], "blocked", effect)
        self.cancel(effect)

    def test_an_approval_lets_it_go_on(self):
        key = self.new_key("tools-asked", roles=["agent"], agent="coder", user="dev")["secret"]
        boss = self.new_key("tools-asked", roles=["approver"], user="lead")["secret"]
        held = self.effect("asks.person", 202, key=key, query="?wait=0")
        escalation = held["error"]["details"]["escalation_id"]
        self.assertEqual(self.ask("asks.person", key=key, approval=escalation).json()["error"]["details"]["reason"],
                         "approval_pending")
        self.call("POST", f"/v1/escalations/{escalation}:approve", {}, key=boss, status=200)
        shown = self.call("GET", f"/v1/escalations/{escalation}", key=boss, status=200).json()
        self.assertIn("\ntool: asks.person, risk high\n", shown["display"])
        self.assertEqual(shown["reason"], "the request asks for tier HumanApprove, which wants an approval")
        self.server.wait_end(held["id"])
        shown = self.call("GET", f"/v1/tool-calls/{held['id']}", key=key, status=200).json()
        self.assertEqual((shown["status"], shown["exit_code"]), ("completed", 0), shown)

    def test_an_approval_got_ahead_is_for_that_call_once(self):
        key = self.new_key("tools-ahead", roles=["agent"], agent="coder", user="dev")["secret"]
        boss = self.new_key("tools-ahead", roles=["approver"], user="lead")["secret"]
        asked = self.call("POST", "/v1/escalations", {
            "operation": "run", "reason": "release",
            "request": {"command": ["true"], "tier": "HumanApprove", "metadata": {"tool_type": "run_code"}}},
            key=key, status=201).json()["id"]
        self.call("POST", f"/v1/escalations/{asked}:approve", {}, key=boss, status=200)
        refused = self.effect("shell.execute", key=key, approval=asked, command="true")
        self.assertEqual(refused["error"]["details"]["reason"], "approval_mismatch", refused)
        called = self.server.cli("tool", "call", "asks.person", "--approval", asked, env={"CLOISTER_API_KEY": key})
        self.assertEqual(called.returncode, 0, called.stderr)
        again = self.effect("asks.person", key=key, approval=asked)
        self.assertEqual((again["status"], again["error"]["details"]["reason"]), ("denied", "approval_used"), again)

    def test_over_a_quota(self):
        key = self.new_key("tools-quota", roles=["agent"])["secret"]
        self.call("PUT", "/v1/quotas/tenants/tools-quota", {"runs_per_minute": 1}, status=200)
        self.assertEqual(self.ask("shell.execute", key=key, command="true").status, 200)
        answer = self.ask("shell.execute", key=key, command="true")
        self.assertProblem(answer, 429, "QUOTA_EXCEEDED")
        self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)

    def test_an_agents_level_holds_its_tools(self):
        self.call("POST", "/v1/agents/tooled/sandbox", {"level": "training"}, status=201)
        key = self.new_key("default", roles=["agent"], agent="tooled")["secret"]
        self.assertEqual(self.effect("shell.execute", key=key, command="git status")["status"], "completed")
        held = self.ask("shell.execute", key=key, command="curl example.test").json()
        self.assertEqual((held["status"], held["error"]["type"]), ("blocked", "APPROVAL_REQUIRED"), held)


class Record(ToolCase):
    def test_other_tenants_see_nothing(self):
        mine = self.effect("shell.execute", command="echo mine")
        other = self.new_key("tools-other", roles=["agent"])["secret"]
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        none = "exec_" + "0" * 26
        for path in (f"/v1/tool-calls/{mine['id']}", f"/v1/tool-calls/{none}"):
            answer = self.call("GET", path, key=other)
            self.assertProblem(answer, 404)
            self.assertEqual(answer.json()["detail"], "there is no such tool call")
        refused = [self.ask("shell.execute", key=other, session=id, command="true").json()["detail"]
                   for id in (session, "ses_" + "0" * 26)]
        self.assertEqual(refused[0].replace(session, "ses_" + "0" * 26), refused[1])
        plain = self.run_code("1")
        self.assertProblem(self.call("GET", f"/v1/tool-calls/{plain['id']}"), 404)
        viewer = self.new_key("default", roles=["viewer"])["secret"]
        self.assertProblem(self.ask("shell.execute", key=viewer, command="true"), 403, "PERMISSION_DENIED")

    def test_the_same_key_is_the_same_call(self):
        once = {"Idempotency-Key": "tools-once"}
        first, second = (self.effect("slow.call", headers=once) for _ in range(2))
        self.assertEqual(first, second)
        self.assertProblem(self.ask("shell.execute", headers=once, command="true"), 409)

    def test_what_each_call_leaves(self):
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        for where in (None, session):
            effect = self.effect("shell.execute", session=where, command="echo out; kill -9 $$")
            metadata = effect["metadata"]
            record = self.call("GET", f"/v1/executions/{effect['id']}", status=200).json()
            self.assertEqual((effect["exit_code"], metadata["signal"], record["signal"]), (137, "SIGKILL", "SIGKILL"), effect)
            self.assertEqual(metadata["output_sha256"], hashlib.sha256(b"out\n").hexdigest())
            self.assertEqual(record["provenance"]["output_sha256"], metadata["output_sha256"])
            self.assertEqual((metadata["session_id"], record["session_id"]), (where, where))
            self.assertEqual(metadata["container_id"], record["provenance"]["permit_id"])
            self.assertEqual(record["provenance"].get("sandbox"), "fresh" if where else None)
            self.assertEqual(metadata["resource_usage"], record["resource_usage"])
            self.assertGreater(record["resource_usage"]["processes"], 0)
            self.assertEqual(metadata["duration_ms"], record["resource_usage"]["wall_ms"])
            self.assertLessEqual(record["started_at"], record["finished_at"])
            rows = [row for row in self.call("GET", "/v1/audit?limit=1000", status=200).json()["entries"]
                    if row["subject"] == effect["id"]]
            self.assertEqual({row["details"].get("session_id") for row in rows}, {where})
            self.assertEqual({row["details"].get("sandbox") for row in rows}, {"fresh" if where else None})

    def test_log_and_receipt(self):
        effect = self.effect("shell.execute", command="echo x")
        events = [entry for entry in self.call("GET", "/v1/audit?limit=500", status=200).json()["entries"]
                  if entry["subject"] == effect["id"]]
        self.assertEqual({entry["action"] for entry in events},
                         {"execution.accepted", "execution.started", "execution.finished"})
        self.assertEqual({entry["details"]["tool"] for entry in events}, {"shell.execute"})
        receipt = self.server.cli("audit", "receipt", effect["id"], "--json")
        self.assertEqual(receipt.returncode, 0, receipt.stderr)

    def test_in_a_session(self):
        session = self.call("POST", "/v1/sessions", {"language": "bash", "metadata": {"tools": "shell.execute, text.search"}},
                            status=201).json()["id"]
        self.effect("shell.execute", session=session, command="echo needle > hay")
        found = self.effect("text.search", session=session, pattern="needle")
        self.assertEqual(found["output"]["stdout"], "./hay:1:needle\n")
        record = self.call("GET", f"/v1/executions/{found['id']}", status=200).json()
        self.assertEqual((found["metadata"]["container_id"], found["metadata"]["session_id"]),
                         (record["provenance"]["permit_id"], session))
        refused = self.ask("python.execute", session=session, code="1")
        self.assertProblem(refused, 403, "PERMISSION_DENIED", field="tool_id")
        self.assertProblem(self.ask("asks.person", session=session), 403, "PERMISSION_DENIED")
        self.call("DELETE", f"/v1/sessions/{session}", status=200)
        free = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        self.assertProblem(self.ask("asks.person", session=free), 422, field="session_id")
        self.assertEqual(self.effect("python.execute", session=free, code="print(1)")["output"]["stdout"], "1\n")


class Fresh(ToolCase):
    """The place of a call in a session."""

    def setUp(self):
        super().setUp()
        self.session = self.call("POST", "/v1/sessions", {"language": "bash", "memory_mb": 300}, status=201).json()["id"]
        self.addCleanup(self.call, "DELETE", f"/v1/sessions/{self.session}")

    def sh(self, command, **more):
        return self.effect("shell.execute", session=self.session, command=command, **more)["output"]["stdout"]

    def ended(self, id):
        def last():
            now = self.call("GET", f"/v1/executions/{id}", status=200).json()
            return now if harness.finished(now) else None

        return harness.wait_for("its end", last)

    def test_each_call_has_a_sandbox_with_the_sessions_files(self):
        first = self.sh("echo 1 > kept; echo 1 > /tmp/gone; sleep 600 & readlink /proc/self/ns/pid")
        second = self.sh("cat kept; ls /tmp; cat /proc/[0-9]*/comm | grep -c sleep; readlink /proc/self/ns/pid")
        self.assertEqual(second.split("\n")[:2], ["1", "0"])
        self.assertNotEqual(first, second.split("\n")[2] + "\n")

    def test_or_runs_in_the_sessions_own(self):
        self.sh("echo 1 > /tmp/kept", sandbox="session")
        self.assertEqual(self.sh("cat /tmp/kept", sandbox="session"), "1\n")
        self.assertEqual(self.sh("cat /tmp/kept 2>/dev/null; echo none", sandbox="fresh"), "none\n")
        metadata = self.effect("shell.execute", session=self.session, command="true", sandbox="session")["metadata"]
        self.assertEqual(metadata["container_id"], self.session)

    def test_memory_is_the_smaller_of_two(self):
        shown = self.sh("grep MemTotal /proc/meminfo")
        self.assertEqual(int(shown.split()[1]), 256 * 1024, "what its entry has")
        shown = self.sh("grep MemTotal /proc/meminfo", sandbox="session")
        self.assertEqual(int(shown.split()[1]), 300 * 1024)

    def test_a_program_asks_for_one_as_well(self):
        done = self.call("POST", f"/v1/sessions/{self.session}/exec?wait=60",
                         {"command": "ulimit -n; pwd", "sandbox": "fresh", "open_files": 50, "cwd": "/tmp"}, status=200).json()
        self.assertEqual((done["stdout"], done["provenance"]["sandbox"]), ("50\n/tmp\n", "fresh"))
        for more, field in (({"kernel": "python", "language": "python", "code": "1"}, "kernel"), ({"keep_input": True}, "keep_input"),
                            ({"sandbox": "old"}, "sandbox"), ({"disk_mb": 5}, "disk_mb"), ({"memory_mb": 301}, "memory_mb")):
            body = {"command": "true", "sandbox": "fresh", **more}
            if "code" in body:
                del body["command"]
            self.assertProblem(self.call("POST", f"/v1/sessions/{self.session}/exec", body), 422, field=field)
        body = {"tool_id": "shell.execute", "arguments": {"command": "true"}, "sandbox": "fresh"}
        self.assertProblem(self.call("POST", "/v1/tool-calls", body), 422, field="sandbox")

    def test_it_goes_when_the_session_goes(self):
        body = {"command": "echo begun; sleep 600", "sandbox": "fresh", "timeout_seconds": 600}
        id = self.call("POST", f"/v1/sessions/{self.session}/exec?wait=0", body, status=202).json()["id"]
        harness.wait_for("its output", lambda: self.call("GET", f"/v1/executions/{id}", status=200).json()["stdout"])
        self.call("DELETE", f"/v1/sessions/{self.session}", status=200)
        self.assertIn(self.ended(id)["status"], ("cancelled", "failed"))

    def test_the_workspace_is_not_kept_while_one_changes_it(self):
        body = {"command": "echo begun; sleep 600", "sandbox": "fresh", "timeout_seconds": 600}
        id = self.call("POST", f"/v1/sessions/{self.session}/exec?wait=0", body, status=202).json()["id"]
        harness.wait_for("its output", lambda: self.call("GET", f"/v1/executions/{id}", status=200).json()["stdout"])
        self.assertProblem(self.call("POST", f"/v1/sessions/{self.session}/snapshots", {}), 409)
        self.call("DELETE", f"/v1/executions/{id}", status=202)
        self.ended(id)
        self.call("POST", f"/v1/sessions/{self.session}/snapshots", {}, status=201)


class Scope(ToolCase):
    """The scope of a session binds every caller, whatever policy says."""

    def scoped(self, *capabilities):
        session = self.call("POST", "/v1/sessions", {"language": "bash", "capabilities": list(capabilities)}, status=201).json()
        self.addCleanup(self.call, "DELETE", f"/v1/sessions/{session['id']}")
        shown = self.call("GET", f"/v1/sessions/{session['id']}", status=200).json()
        self.assertEqual(shown["capabilities"], sorted(capabilities))
        return session["id"]

    def assertRefused(self, effect, *missing):
        self.assertEqual((effect["status"], effect["error"]["type"]), ("denied", "PERMISSION_DENIED"), effect)
        self.assertEqual(effect["error"]["details"]["missing"], list(missing))
        self.assertIn("make a session whose capabilities have " + ", ".join(missing), effect["error"]["message"])

    def test_tool_calls_and_programs(self):
        reads = self.scoped("file_read")
        self.assertEqual(self.effect("text.search", session=reads, pattern="x")["status"], "completed")
        self.assertRefused(self.effect("shell.execute", session=reads, command="true"), "command_execution")
        refused = self.call("POST", f"/v1/sessions/{reads}/exec?wait=30", {"command": ["true"]}, status=200).json()
        self.assertRefused(refused, "command_execution")
        cell = self.call("POST", f"/v1/sessions/{reads}/exec?wait=30", {"language": "python", "code": "1"}, status=200).json()
        self.assertRefused(cell, "command_execution")
        self.assertEqual(self.call("GET", f"/v1/executions/{refused['id']}", status=200).json()["status"], "denied")
        runs = self.scoped("command_execution")
        self.assertEqual(self.effect("shell.execute", session=runs, command="true")["status"], "completed")
        self.assertRefused(self.effect("text.search", session=runs, pattern="x"), "file_read")
        self.assertIsNone(self.call("POST", "/v1/sessions", {}, status=201).json()["capabilities"])

    def test_files_and_ports(self):
        session = self.scoped("file_read", "file_write")
        file = f"/v1/sessions/{session}/files/a"
        self.call("PUT", file, b"x", status=200)
        self.assertEqual(self.call("GET", file, status=200).body, b"x")
        for method, path in (("DELETE", file), ("GET", f"/v1/sessions/{session}/ports/8000/")):
            answer = self.call(method, path)
            self.assertProblem(answer, 403, "PERMISSION_DENIED", field="capabilities")
        rows = [row for row in self.call("GET", "/v1/audit?limit=500", status=200).json()["entries"]
                if row["subject"] == session and row["action"] == "session.refused"]
        self.assertEqual([row["details"]["missing"] for row in rows], [["file_delete"], ["network"]])
        forked = self.server.cli("session", "fork", session)
        fork = self.call("GET", f"/v1/sessions/{forked.stdout.strip()}", status=200).json()
        self.assertEqual(fork["capabilities"], ["file_read", "file_write"], forked.stderr)
        writes = self.scoped("file_write")
        self.call("PUT", f"/v1/sessions/{writes}/files/a", b"x", status=200)
        for path in ("files/a", "files?path=&depth=1", "archive?path="):
            self.assertProblem(self.call("GET", f"/v1/sessions/{writes}/{path}"), 403, "PERMISSION_DENIED", field="capabilities")
        self.assertProblem(self.call("POST", f"/v1/sessions/{writes}/snapshots", {}), 403, "PERMISSION_DENIED", field="capabilities")
        reads = self.scoped("file_read")
        self.assertProblem(self.call("PUT", f"/v1/sessions/{reads}/files/a", b"x"), 403, "PERMISSION_DENIED", field="capabilities")


class Stack(ToolCase):
    """The callers of a call, and its depth."""

    def test_a_call_names_its_parent(self):
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        parent = self.effect("shell.execute", session=session, command="true")
        self.assertEqual((parent["metadata"]["parent_id"], parent["metadata"]["depth"]), (None, 0))
        for depth in range(1, 9):
            call = self.effect("shell.execute", session=session, parent=parent["id"], command="true")
            self.assertEqual((call["metadata"]["parent_id"], call["metadata"]["depth"]), (parent["id"], depth))
            parent = call
        execution = self.call("GET", f"/v1/executions/{parent['id']}", status=200).json()
        self.assertEqual((execution["parent_id"], execution["depth"]), (parent["metadata"]["parent_id"], 8))
        shown = self.server.cli("execution", "show", parent["id"])
        self.assertRegex(shown.stdout, r"(?m)^depth: +8$")
        deep = self.effect("shell.execute", session=session, parent=parent["id"], command="true")
        self.assertEqual((deep["status"], deep["error"]["type"], deep["error"]["details"]["reason"]),
                         ("denied", "PERMISSION_DENIED", "call_depth"), deep)
        ran = self.server.cli("exec", "--parent", execution["parent_id"], session, "--", "true")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        tool = self.server.cli("tool", "call", "shell.execute", "--arg", "command=true", "--session", session, "--parent",
                               execution["parent_id"], "--json")
        self.assertIn('"depth":8', tool.stdout)

    def test_what_is_no_parent(self):
        session = self.call("POST", "/v1/sessions", {"language": "bash"}, status=201).json()["id"]
        for more in ({"parent": "exec_" + "0" * 26, "session": session}, {"parent": "mine", "session": session},
                     {"parent": self.effect("shell.execute", command="true")["id"], "session": session},
                     {"parent": "exec_" + "0" * 26}):
            self.assertProblem(self.ask("shell.execute", command="true", **more), 422, field="parent_id")


class Settings(unittest.TestCase):
    def test_rate_and_depth_are_as_configured(self):
        with harness.Server(config=CONFIG + "session: {calls_per_minute: 3, max_call_depth: 1}\n") as server:
            session = server.request("POST", "/v1/sessions", {"language": "bash"}).json()["id"]
            path = f"/v1/sessions/{session}/exec?wait=30"
            first = server.request("POST", path, {"command": ["true"]}).json()
            second = server.request("POST", path, {"command": ["true"], "parent_id": first["id"]}).json()
            self.assertEqual((second["status"], second["depth"]), ("completed", 1), second)
            third = server.request("POST", path, {"command": ["true"], "parent_id": second["id"]}).json()
            self.assertEqual((third["status"], third["error"]["details"]["reason"]), ("denied", "call_depth"), third)
            over = server.request("POST", "/v1/tool-calls", {"tool_id": "text.search", "session_id": session,
                                                             "arguments": {"pattern": "x"}})
            self.assertEqual((over.status, over.json()["error"]["type"]), (429, "QUOTA_EXCEEDED"), over.body)
            self.assertGreaterEqual(int(over.headers["retry-after"]), 1)


class CommandLine(ToolCase):
    def test_list_call_and_show(self):
        listed = self.server.cli("tool", "list")
        self.assertIn("shell.execute  Run a shell command\n   command (required): The command line for bash.\n", listed.stdout)
        self.assertIn("   needs command_execution; network none; risk low (Auto); at most timeout_seconds 300, memory_mb 256\n",
                      listed.stdout)
        called = self.server.cli("tool", "call", "shell.execute", "--arg", "command=echo out; echo err >&2; exit 4")
        self.assertEqual((called.returncode, called.stdout, called.stderr), (4, "out\n", "err\n"))
        late = self.server.cli("tool", "call", "slow.call", "--json")
        self.assertEqual(late.returncode, 124, late.stderr)
        shown = self.server.cli("tool", "show", re.search(r'"id": ?"(exec_\w+)"', late.stdout)[1], "--json")
        self.assertEqual(shown.stdout, late.stdout)
        wrong = self.server.cli("tool", "call", "shell.exec")
        self.assertEqual(wrong.returncode, 125)
        self.assertIn("did you mean shell.execute", wrong.stderr)

    def test_a_call_that_waits_for_an_approval(self):
        key = self.new_key("tools-waits", roles=["agent"], agent="coder", user="dev")["secret"]
        boss = self.new_key("tools-waits", roles=["approver"], user="lead")["secret"]
        env = {"CLOISTER_API_KEY": key}
        left = self.server.cli("tool", "call", "asks.person", env=env)
        self.assertEqual((left.returncode, left.stdout), (125, ""), left.stderr)
        escalation = re.search(r"`cloister escalation approve (ESC-\d{4}-\d{3})`", left.stderr)[1]
        call = re.search(r"`cloister tool show (exec_\w+)`", left.stderr)[1]
        self.assertEqual(self.server.get(call)["status"], "blocked", "it was ended")
        self.call("POST", f"/v1/escalations/{escalation}:deny", {"reason": "no"}, key=boss, status=200)
        for vote, status in (("approve", 0), ("deny", 125)):
            with concurrent.futures.ThreadPoolExecutor() as pool:
                waiting = pool.submit(self.server.cli, "tool", "call", "asks.person", "--wait-approval", "--json", env=env)
                asked = harness.wait_for("the request", lambda: next(iter(self.call(
                    "GET", "/v1/escalations?status=pending", key=boss, status=200).json()["escalations"]), None))
                self.call("POST", f"/v1/escalations/{asked['id']}:{vote}", {"reason": "looked"}, key=boss, status=200)
                done = waiting.result()
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(asked["id"], done.stderr)
            self.assertEqual(json.loads(done.stdout)["status"], "denied" if status else "completed")

    def test_the_pages_examples_work(self):
        block = re.search(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
        steps = [step.split("\n", 1) for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
        self.assertGreater(len(steps), 2)
        env = {**os.environ, "CLOISTER_URL": self.server.url, "CLOISTER_API_KEY": self.server.key,
               "PATH": f"{harness.BIN}:{os.environ['PATH']}"}
        for command, expected in steps:
            done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.stdout, expected, command + "\n" + done.stderr)

    def test_a_registry_with_a_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            path = pathlib.Path(folder, "tools.yaml")
            path.write_text(OWN.replace("[sleep, \"60\"]", "[sleep, \"{seconds}\"]"))
            config = pathlib.Path(folder, "config.yaml")
            config.write_text(f"tools: {path}\n")
            done = harness.cli("serve", "--state", f"{folder}/state", "--listen", "127.0.0.1:0", "--config", config)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("tools[0].request.command[1]: braces may hold the name of an argument only", done.stderr)


if __name__ == "__main__":
    unittest.main()
