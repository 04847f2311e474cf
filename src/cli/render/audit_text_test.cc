// SPDX-License-Identifier: Apache-2.0
#include "cli/render/audit_text.h"

#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

namespace json = base::json;

json::object entryOf(std::string_view action, const json::object& details) {
  return {{"at", int64_t{1'769'856'127'000'000}},
          {"action", action},
          {"subject", "ESC-2026-003"},
          {"tenant", "acme"},
          {"agent", ""},
          {"user", "security-lead"},
          {"key", "key_1"},
          {"details", details}};
}

TEST(AuditText, SaysWhoDidWhatToWhatForWhom) {
  EXPECT_EQ(auditLine(entryOf("escalation.approved", {{"operation", "file_write"},
                                                      {"what", "/srv/data"},
                                                      {"requester", {{"agent", "junior-agent"}}}})),
            "2026-01-31T10:42:07Z  security-lead approved ESC-2026-003 (file_write /srv/data) for "
            "agent junior-agent");
}

TEST(AuditText, NamesTheVotesThatWereStruckWithOne) {
  EXPECT_EQ(auditLine(entryOf("escalation.approved",
                              {{"operation", "run"},
                               {"requester", {{"agent", "coder"}}},
                               {"revoked_credentials", json::array{"key_a", "key_b"}}})),
            "2026-01-31T10:42:07Z  security-lead approved ESC-2026-003 (run) for agent coder; the "
            "votes of revoked credentials no longer count: key_a, key_b");
}

TEST(AuditText, LeavesOutWhatWasRedacted) {
  EXPECT_EQ(auditLine(entryOf("escalation.denied",
                              {{"operation", "command"}, {"what", {{"sealed", "00"}}}})),
            "2026-01-31T10:42:07Z  security-lead denied ESC-2026-003 (command)");
}

TEST(AuditText, NamesAnActionThatItDoesNotKnow) {
  EXPECT_EQ(auditLine(entryOf("tool.registered", {})),
            "2026-01-31T10:42:07Z  security-lead tool.registered ESC-2026-003");
}

TEST(AuditText, SaysTheAgentOrTheServiceWhereThereIsNoPerson) {
  json::object entry = entryOf("execution.started", {{"node", "local"}});
  entry["user"] = "";
  entry["agent"] = "bot";
  EXPECT_EQ(auditLine(entry), "2026-01-31T10:42:07Z  bot got a sandbox for ESC-2026-003 (local)");
  entry["agent"] = entry["key"] = "";
  EXPECT_EQ(auditLine(entry),
            "2026-01-31T10:42:07Z  cloister got a sandbox for ESC-2026-003 (local)");
}

TEST(AuditText, SaysWhyTheServiceDenied) {
  json::object entry =
      entryOf("escalation.denied", {{"operation", "command"}, {"reason", "a.sh changed"}});
  entry["user"] = entry["key"] = "";
  EXPECT_EQ(auditLine(entry),
            "2026-01-31T10:42:07Z  cloister denied ESC-2026-003 (command a.sh changed)");
}

TEST(AuditText, SaysWhoseSessionRefusedAVisitor) {
  json::object entry = entryOf("session.refused", {{"reason", "agent_boundary"},
                                                   {"doing", "running in a session"},
                                                   {"session_agent", "coder"}});
  entry["user"] = "";
  entry["agent"] = "bob";
  EXPECT_EQ(auditLine(entry),
            "2026-01-31T10:42:07Z  bob was refused in ESC-2026-003 (running in a session): the "
            "session is of agent coder, and lets programs do more than bob may");
}

TEST(AuditText, NamesTheTenantIfItIsTold) {
  const json::object entry = entryOf("escalation.denied", {});
  EXPECT_EQ(auditLine(entry), "2026-01-31T10:42:07Z  security-lead denied ESC-2026-003");
  EXPECT_EQ(auditLine(entry, true),
            "2026-01-31T10:42:07Z  security-lead denied ESC-2026-003 in tenant acme");
}

TEST(AuditText, BeginsWithTheNumberThatOtherCommandsTake) {
  json::object entry = entryOf("escalation.denied", {});
  entry["seq"] = 17;
  EXPECT_EQ(auditLine(entry), "17  2026-01-31T10:42:07Z  security-lead denied ESC-2026-003");
  entry["position"] = 1027;  // for administrators
  EXPECT_EQ(auditLine(entry), "1027  2026-01-31T10:42:07Z  security-lead denied ESC-2026-003");
}

TEST(AuditText, SaysWhatAQuotaIs) {
  const auto line = [](const json::object& quota) {
    return auditLine(entryOf("quota.set", {{"quota", quota}}));
  };
  EXPECT_EQ(line({{"concurrent", 4}, {"memory_mb", 512}}),
            "2026-01-31T10:42:07Z  security-lead set ESC-2026-003 (concurrent 4, memory_mb 512)");
  EXPECT_EQ(line({}), "2026-01-31T10:42:07Z  security-lead set ESC-2026-003 (none)");
}

TEST(AuditText, SaysWhichFiles) {
  const auto line = [](std::string_view action, const json::array& arguments) {
    return auditLine(entryOf(action, {{"arguments", arguments}})).substr(22);
  };
  EXPECT_EQ(line("file.written", {"notes.txt", ""}),
            "security-lead wrote a file in ESC-2026-003 (notes.txt)");
  EXPECT_EQ(line("file.moved", {"a", "b", "0"}),
            "security-lead moved a file in ESC-2026-003 (a, b)");
}

TEST(AuditText, AnEmptyAnswerNamesTheActionThatWasMeant) {
  EXPECT_EQ(noEntriesText(""), "no entries\n");
  EXPECT_EQ(noEntriesText("escalation.*"), "no entries\n");
  EXPECT_EQ(noEntriesText("key.created"), "no entries\n");
  EXPECT_EQ(noEntriesText("escalaton.*"), "no entries; did you mean escalation.*?\n");
  EXPECT_EQ(noEntriesText("key.craeted"), "no entries; did you mean key.created?\n");
}

TEST(AuditText, AReportNamesTheFirstBadEntryIfThereIsOne) {
  EXPECT_EQ(
      auditReport({{"ok", false}, {"problem", "entry 4 is missing"}, {"first_bad", 4}}, false),
      "BROKEN: entry 4 is missing\nfirst bad entry: 4\n");
  EXPECT_EQ(auditReport({{"ok", false}, {"problem", "key_1 was revoked"}, {"first_bad", 0}}, false),
            "BROKEN: key_1 was revoked\n");
  EXPECT_EQ(auditReport({{"ok", false}, {"problem", "entry 4 is missing"}}, true),
            "BROKEN: entry 4 is missing\n");
  EXPECT_EQ(auditReport({{"ok", true},
                         {"entries", 7},
                         {"checkpoints", 2},
                         {"head", "ab"},
                         {"notes", json::array{"the anchor is new"}}},
                        false),
            "ok: 7 entries, 2 signed checkpoints, head ab\nnote: the anchor is new\n");
}

TEST(AuditText, IsSafeForATerminal) {
  json::object entry = entryOf("escalation.denied", {{"operation", "a\x1b]0;title\x07\nb"}});
  EXPECT_FALSE(auditLine(entry).contains('\x1b'));
  EXPECT_FALSE(auditLine(entry).contains('\n'));
}

}  // namespace
}  // namespace cloister::cli
