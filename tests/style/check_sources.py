# SPDX-License-Identifier: Apache-2.0
"""Licence headers, lengths, words of unfinished work, and the places of system calls."""

import re
import unittest

import tree

SPDX = "SPDX-License-Identifier: Apache-2.0"
FILE_LINES = {".cc": 600, ".h": 300, ".py": 600, ".c": 600}
FUNCTION_LINES = 60
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")
# Calls that change a process's rights or view in the kernel.
PRIVILEGED = re.compile(
    r"(?<![\w.>:])(?:::)?(syscall|unshare|setns|mount|umount2?|pivot_root|chroot|prctl|clone3?|ptrace|"
    r"setres[ug]id|setgroups|capset|sethostname)\(")
MAY_CALL = ("src/linux/", "src/runner/", "src/guest/", "src/vmm/")
# Questions to the ledger over all tenants, and the reason of each place.
EVERY_TENANT = re.compile(r"\ballTenants\(\)|[.>](unfinished|unfinishedSessions|mismatches|sessionMismatches|"
    r"dueEscalations|dueNotifications)\(")
EVERY_AGENT = re.compile(r"\bScope::ofTenant\(")
MAY_ASK_ABOUT_ALL = {
    "src/store/scope.h": "where it is made",
    "src/api/compat/e2b/files.cc": "a signed URL has no tenant; its signature is of the sandbox's token",
    "src/api/compat/e2b/sandbox.cc": "a sandbox's token has no principal; its signature has the tenant",
    "src/audit/audit.cc": "verification walks the whole chain",
    "src/audit/rights.cc": "verification looks at every key",
    "src/auth/auth.cc": "the holder of a key, who is named by a signature that was checked",
    "src/bin/admin_key.cc": "the administrator's own key, before anyone is served",
    "src/orchestrator/egress/doors.cc": "the last recorded batch of attempts, after a start",
    "src/orchestrator/storage/artifact_service.cc": "a link has no principal; its signature has the tenant",
    "src/orchestrator/governance/escalations.cc": "what is at its end, whoever asked",
    "src/orchestrator/governance/notifier.cc": "what is to be told, whoever asked",
    "src/orchestrator/runs/run_service.cc": "recovery after a start",
    "src/orchestrator/sessions/session_end.cc": "recovery after a start",
    "src/store/store.cc": "the standing of a credential, whoever has it",
}
# The same for Scope::ofTenant(): all agents of a tenant, whichever of them asks.
MAY_ASK_ABOUT_AGENTS = {
    "src/orchestrator/guard/agent_guard.cc": "approvals of the agent that is judged, whoever it is judged for",
    "src/orchestrator/guard/approval.cc": "the settings of whoever asked, when another decides",
    "src/orchestrator/runs/blocking.cc": "the escalation that a blocked run waits for",
    "src/orchestrator/governance/escalations.cc": "an administrator names the tenant",
    "src/orchestrator/governance/agent_dry_run.cc": "the maker of the session of a stored request, for its tenant's manager",
    "src/orchestrator/governance/network_asks.cc": "the approvals of a sandbox's destinations, and alike requests",
    "src/orchestrator/governance/notifier.cc": "what is to be told, whoever asked",
    "src/orchestrator/runs/run_asks.cc": "the escalation that runs share",
    "src/orchestrator/sessions/session_asks.cc": "the escalation that a blocked session waits for",
}
TEST_HEADERS = ("_fixture.h", "brittle_store.h", "suite/accept.h", "suite/agents.h", "suite/approvals.h", "suite/audit.h",
                "suite/boundary.h", "suite/escalations.h", "suite/fixture.h", "suite/images.h",
                "suite/lifecycle.h", "suite/sessions.h", "session_testing.h", "store_testing.h")
COMMENT = re.compile(r"//.*$")
OPENS = re.compile(r"^( *)(?!namespace\b|class\b|struct\b|enum\b|union\b|extern\b|#|//)\S.*(?<!=) \{$")
TYPE = re.compile(r"^ *(template|namespace|class|struct|enum|union|extern)\b")


def long_functions(text):
    """(first line, length) of each body over the limit, in text laid out by clang-format."""
    opened = {}  # indentation → line number of the last line that opened a block there
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        if indent > 2:
            continue
        if OPENS.match(line):
            opened[indent] = number
        elif TYPE.match(line):
            opened.pop(indent, None)
        elif line.strip().startswith("}") and indent in opened:
            start = opened.pop(indent)
            if number - start + 1 > FUNCTION_LINES + 2:
                yield start, number - start + 1


class Sources(unittest.TestCase):
    def fail_with(self, lines):
        self.assertEqual(lines, [], "\n" + "\n".join(lines))

    def test_licence_headers(self):
        self.fail_with([str(path) for path in tree.sources()
                        if SPDX not in "\n".join(tree.text(path).splitlines()[:2])])

    def test_files_are_short(self):
        self.fail_with([f"{path}: {tree.text(path).count(chr(10))} lines, at most {FILE_LINES[path.suffix]}"
                        for path in tree.sources()
                        if tree.text(path).count("\n") > FILE_LINES.get(path.suffix, 600)])

    def test_functions_are_short(self):
        self.fail_with([f"{path}:{line}: a function of {length} lines, at most {FUNCTION_LINES}"
                        for path in tree.with_suffix(".cc", ".h", ".c")
                        for line, length in long_functions(tree.text(path))])

    def test_nothing_is_marked_unfinished(self):
        self.fail_with([f"{path}:{number}: {line.strip()}"
                        for path in tree.sources() + tree.with_suffix(".md", ".yaml", ".cmake", ".txt")
                        for number, line in enumerate(tree.text(path).splitlines(), 1)
                        if UNFINISHED.search(line)])

    def test_privileged_calls_have_their_place(self):
        wrong = []
        for path in tree.with_suffix(".cc", ".h"):
            name = str(path)
            if not name.startswith("src/") or name.startswith(MAY_CALL) or name.endswith("_test.cc"):
                continue
            for number, line in enumerate(tree.text(path).splitlines(), 1):
                if PRIVILEGED.search(COMMENT.sub("", line)):
                    wrong.append(f"{path}:{number}: {line.strip()}")
        self.fail_with(wrong)

    def test_few_places_ask_about_every_tenant_or_agent(self):
        for pattern, may in ((EVERY_TENANT, MAY_ASK_ABOUT_ALL), (EVERY_AGENT, MAY_ASK_ABOUT_AGENTS)):
            found = {str(path) for path in tree.with_suffix(".cc", ".h")
                     if str(path).startswith("src/") and pattern.search(tree.text(path))
                     and not str(path).endswith(("_test.cc", *TEST_HEADERS))}
            self.assertEqual(sorted(found - may.keys()), [])
            self.assertEqual(sorted(may.keys() - found), [], "no longer needed")

    def test_the_length_rule_itself(self):
        body = "void f() {\n" + "  g();\n" * 61 + "}\n"
        self.assertEqual([length for _, length in long_functions(body)], [63])
        self.assertEqual(list(long_functions(body.replace("  g();\n", "", 5))), [])


if __name__ == "__main__":
    unittest.main()
