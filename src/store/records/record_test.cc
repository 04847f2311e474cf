// SPDX-License-Identifier: Apache-2.0
// The texts of records, byte for byte: the audit log has their SHA-256.
#include "store/records/record.h"

#include <string>

#include <gtest/gtest.h>

#include "store/records/escalation_record.h"
#include "store/records/session_record.h"

namespace cloister::store {
namespace {

model::Principal someone() {
  return {.tenant = "t",
          .app = "a",
          .agent = "g",
          .user = "u",
          .roles = model::Role::kAgent,
          .key_id = "key_1"};
}

constexpr char kSomeone[] =
    R"({"tenant":"t","app":"a","agent":"g","user":"u","roles":["agent"],"admin":false,"key":"key_1"})";

model::Usage someUsage() {
  return {.wall_ms = 1,
          .cpu_ms = 2,
          .max_rss_bytes = 3,
          .memory_bytes = 4,
          .cpu_millis = 5,
          .io_read_bytes = 6,
          .io_write_bytes = 7,
          .processes = {},
          .open_files = 9,
          .disk_limit_bytes = 10};
}

constexpr char kSomeUsage[] =
    R"({"wall_ms":1,"cpu_ms":2,"max_rss_bytes":3,"io_read_bytes":6,"io_write_bytes":7,)"
    R"("processes":null,"open_files":9,"disk_limit_bytes":10})";

model::Provenance someProvenance() {
  model::Provenance p;
  p.runtime = "process";
  p.node = "n";
  p.image = "python";
  p.image_digest = "d";
  p.weakened = {"w"};
  p.nested = true;
  p.fresh = true;
  p.approval = "ESC-2026-001";
  return p;
}

constexpr char kSomeProvenance[] =
    R"({"runtime":"process","node":"n","image":"python","image_digest":"d","policy_id":"",)"
    R"("permit_id":"","code_sha256":"","output_sha256":"","stdout_sha256":"","stderr_sha256":"",)"
    R"("weakened":["w"],"nested":true,"fresh":true,"approval":"ESC-2026-001"})";

model::RunError someError() {
  return {.type = "T", .message = "\xff", .details = {{"d", true}}, .retryable = true};
}

constexpr char kSomeError[] =
    R"({"type":"T","message":{"base64":"/w=="},"details":{"d":true},"retryable":true})";

Record someRecord() {
  Record record{.execution = {}, .request_sha256 = "r"};
  model::Execution& e = record.execution;
  e.id = "exec_1";
  e.status = model::Status::kCompleted;
  e.principal = someone();
  e.session_id = "ses_1";
  e.parent_id = "exec_0";
  e.depth = 2;
  e.language = "python";
  e.metadata = {{"m", "v"}};
  e.exit_code = 3;
  e.signal = "SIGTERM";
  e.out = {.bytes = "", .total = 5, .truncated = true, .artifact = "art_1"};
  e.artifacts = {{.id = "art_2",
                  .path = "\xff",
                  .size = 4,
                  .content_type = "c",
                  .sha256 = "s",
                  .expires_at = 0,
                  .full_size = 9}};
  e.usage = someUsage();
  e.provenance = someProvenance();
  e.error = someError();
  e.compile = {.exit_code = 1, .wall_ms = 2, .stdout_text = "", .stderr_text = ""};
  e.cell.emplace().kernel = "k";
  e.cell->number = 2;
  e.cell->state_lost = true;
  e.cell->lost_before = true;
  e.cell->lost_why = "why";
  e.results = {1};
  e.results_truncated = true;
  e.results_bytes = 6;
  e.created_at = 1;
  e.started_at = 2;
  e.finished_at = 3;
  return record;
}

TEST(Records, AnExecutionsTextStays) {
  const std::string text =
      std::string(R"({"id":"exec_1","status":"completed","principal":)") + kSomeone +
      R"(,"request_sha256":"r","session_id":"ses_1","language":"python","metadata":{"m":"v"},)"
      R"("exit_code":3,"signal":"SIGTERM",)"
      R"("stdout":{"total":5,"truncated":true,"artifact":"art_1"},)"
      R"("stderr":{"total":0,"truncated":false,"artifact":""},)"
      R"("artifacts":[{"id":"art_2","path":{"base64":"/w=="},"size":4,"content_type":"c",)"
      R"("sha256":"s","full_size":9}],"usage":)" +
      kSomeUsage + R"(,"provenance":)" + kSomeProvenance + R"(,"error":)" + kSomeError +
      R"(,"compile":{"exit_code":1,"wall_ms":2},"created_at":1,"started_at":2,"finished_at":3,)"
      R"("cell":{"kernel":"k","number":2,"state_lost":true,"results":"[1]",)"
      R"("results_truncated":true,"results_left_out":[],"results_bytes":6,"lost_before":true,)"
      R"("lost_why":"why"},"parent_id":"exec_0","depth":2})";
  EXPECT_EQ(encodeRecord(someRecord()), text);
  const auto read = decodeRecord(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(encodeRecord(*read), text);
}

TEST(Records, WhatAnExecutionLacksIsNotWritten) {
  const std::string text = encodeRecord({});
  EXPECT_EQ(text.find("cell"), std::string::npos);
  EXPECT_EQ(text.find("parent_id"), std::string::npos);
  EXPECT_NE(text.find(R"("exit_code":null)"), std::string::npos);
  EXPECT_NE(text.find(R"("error":null,"compile":null)"), std::string::npos);
  EXPECT_TRUE(decodeRecord(text));
  EXPECT_FALSE(decodeRecord("{}"));
}

TEST(Records, TheUseOverTimeIsKept) {
  EXPECT_FALSE(encodeRecord(someRecord()).contains("usage_history")) << "it ran for no second";
  Record record = someRecord();
  record.execution.usage_history.add({.wall_ms = 1'000, .cpu_ms = 900, .max_rss_bytes = 5});
  record.execution.usage_history.add({.wall_ms = 2'000, .cpu_ms = 950, .memory_bytes = 4});
  const std::string text = encodeRecord(record);
  EXPECT_TRUE(text.contains(R"("usage_history":[[1000,900,5,0,0,0,0],[2000,950,0,4,0,0,0]])"))
      << text;
  const auto read = decodeRecord(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->execution.usage_history.points(), record.execution.usage_history.points());
  std::string broken = text;
  broken.replace(broken.find("[1000,"), 6, R"(["x",)");
  EXPECT_FALSE(decodeRecord(broken));
}

TEST(Records, TheLimitsAreKeptFromTheStart) {
  EXPECT_FALSE(encodeRecord(someRecord()).contains("limits")) << "it did not start";
  Record record = someRecord();
  record.execution.limits = model::Limits{.wall = std::chrono::milliseconds(1'500), .pids = 7};
  const std::string text = encodeRecord(record);
  EXPECT_TRUE(text.contains(R"("limits":{"wall_ms":1500,"cpu_ms":0,"cpu_millis":800,)")) << text;
  const auto read = decodeRecord(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->execution.limits, record.execution.limits);
  std::string wrong = text;
  wrong.replace(wrong.find(R"("wall_ms":1500)"), 14, R"("wall_ms":true)");
  EXPECT_FALSE(decodeRecord(wrong));
}

TEST(Records, TheUseOfTheNetworkIsKept) {
  EXPECT_FALSE(encodeRecord(someRecord()).contains("network")) << "nothing was used";
  Record record = someRecord();
  record.execution.network.connections = 2;
  record.execution.network.bytes_out = 7;
  record.execution.network.hint = "why";
  model::DeniedDestination& denied = record.execution.network.denied.emplace_back();
  denied.host = "evil.test";
  denied.port = 443;
  denied.count = 1;
  const std::string text = encodeRecord(record);
  const auto read = decodeRecord(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->execution.network, record.execution.network);
  EXPECT_EQ(encodeRecord(*read), text);
  std::string wrong = text;
  wrong.replace(wrong.find(R"("connections":2)"), 15, R"("connections":"")");
  EXPECT_FALSE(decodeRecord(wrong));
}

TEST(Records, OlderOnesAreRead) {
  std::string text = encodeRecord(someRecord());
  for (const char* later :
       {R"(,"open_files":9)", R"(,"disk_limit_bytes":10)", R"("image":"python",)",
        R"("roles":["agent"],)", R"("results_left_out":[],)"}) {
    const size_t at = text.find(later);
    ASSERT_NE(at, std::string::npos) << later;
    text.erase(at, std::string(later).size());
  }
  const auto read = decodeRecord(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->execution.usage.open_files);
  EXPECT_EQ(read->execution.provenance.image, "");
  EXPECT_TRUE(read->execution.principal.roles.has(model::Role::kAgent));
  EXPECT_FALSE(decodeRecord(text.replace(text.find(R"("wall_ms":1,)"), 12, "")));
}

TEST(Records, ASessionsTextStays) {
  SessionRecord record{.session = {}, .request_sha256 = "r", .request = "{}"};
  model::Session& s = record.session;
  s.id = "ses_1";
  s.status = model::SessionStatus::kBlocked;
  s.principal = someone();
  s.language = "python";
  s.env = {{"A", "1"}};
  s.cwd = "/tmp";
  s.nested = true;
  s.from_snapshot = "snap_1";
  s.metadata = {{"m", "v"}};
  s.capabilities = {"network"};
  s.ttl = std::chrono::milliseconds(5);
  s.idle_ttl = std::chrono::milliseconds(6);
  s.provenance = someProvenance();
  s.usage = someUsage();
  s.error = someError();
  s.created_at = 1;
  s.last_used_at = 2;
  s.expires_at = 3;
  const std::string text =
      std::string(R"({"id":"ses_1","status":"blocked","principal":)") + kSomeone +
      R"(,"request_sha256":"r","language":"python","env":{"A":"1"},"cwd":"/tmp",)"
      R"("metadata":{"m":"v"},"network_tier":"none","limits":{"wall_ms":30000,"cpu_ms":0,)"
      R"("cpu_millis":800,"memory_bytes":268435456,"disk_bytes":1073741824,"inodes":65536,)"
      R"("file_bytes":1073741824,"open_files":1024,"pids":64,"output_bytes":1048576},)"
      R"("ttl_ms":5,"idle_ttl_ms":6,"provenance":)" +
      kSomeProvenance +
      R"(,"end":null,"created_at":1,"last_used_at":2,"expires_at":3,"ended_at":0,"nested":true,)"
      R"("usage":)" +
      kSomeUsage + R"(,"from_snapshot":"snap_1","capabilities":["network"],"error":)" + kSomeError +
      R"(,"request":"{}"})";
  EXPECT_EQ(encodeSession(record), text);
  const auto read = decodeSession(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(encodeSession(*read), text);
  EXPECT_FALSE(decodeSession("{}"));
}

TEST(Records, ASessionsNetworkIsKept) {
  SessionRecord record{.session = {}, .request_sha256 = "r", .request = "{}"};
  record.session.id = "ses_1";
  const auto policy =
      base::parseJson(R"({"tier":"restricted","allow":["a.example.com:443"],"on_denied":"ask"})");
  record.session.network =
      model::readNetworkRequest(policy->get_object(), "network_policy").value();
  const std::string text = encodeSession(record);
  const auto read = decodeSession(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->session.network, record.session.network);
  record.session.network = {};
  record.session.network.tier = "full";
  EXPECT_EQ(encodeSession(record).find("network_policy"), std::string::npos);
  EXPECT_EQ(decodeSession(encodeSession(record))->session.network, record.session.network);
  std::string other = text;
  other.replace(other.find(R"("network_tier":"restricted")"), 27, R"("network_tier":"full")");
  EXPECT_FALSE(decodeSession(other));
}

TEST(Records, AnEscalationsTextStays) {
  model::Escalation e;
  e.id = "ESC-2026-001";
  e.status = model::EscalationStatus::kApproved;
  e.operation = "run";
  e.requester = someone();
  e.request_sha256 = "q";
  e.workspace_sha256 = "w";
  e.lifts = {{.operation = "command", .target = "ls"}};
  e.roles = {"approver"};
  e.decisions = {{.by = someone(), .person = "p", .approve = true, .reason = "ok", .at = 4}};
  e.decisions.back().revoked = true;
  e.grant_us = 1;
  const std::string text =
      std::string(R"({"id":"ESC-2026-001","status":"approved","operation":"run","subject":"",)"
                  R"("reason":"","display":"","requester":)") +
      kSomeone +
      R"(,"requester_person":"","execution_id":"","session_id":"","digest":"","rule":"",)"
      R"("roles":["approver"],"quorum":1,"decisions":[{"by":)" +
      kSomeone +
      R"(,"person":"p","approve":true,"automatic":false,"reason":"ok","at":4,"revoked":true}],)"
      R"("grant_us":1,"created_at":0,"expires_at":0,"decided_at":0,"grant_expires_at":0,)"
      R"("ended_at":0,"request_sha256":"q","workspace_sha256":"w",)"
      R"("lifts":[{"operation":"command","target":"ls"}]})";
  EXPECT_EQ(encodeEscalation(e), text);
  const auto read = decodeEscalation(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(encodeEscalation(*read), text);
  e.ended_reason = "the run ended as cancelled";
  const std::string ended = encodeEscalation(e);
  EXPECT_EQ(decodeEscalation(ended)->ended_reason, e.ended_reason);
  EXPECT_EQ(encodeEscalation(*decodeEscalation(ended)), ended);
  EXPECT_FALSE(decodeEscalation("{}"));
  const std::string policy = std::string(R"({"agent":"g","auto_approve_safe":true,"set_by":)") +
                             kSomeone + R"(,"set_at":5})";
  const auto known = decodeEscalationPolicy(policy);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(encodeEscalationPolicy(*known), policy);
}

}  // namespace
}  // namespace cloister::store
