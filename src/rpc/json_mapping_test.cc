// SPDX-License-Identifier: Apache-2.0
#include "rpc/json_mapping.h"

#include <cstdint>
#include <limits>

#include <cloister/v1/executions.pb.h>
#include <cloister/v1/files.pb.h>
#include <cloister/v1/sessions.pb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::rpc {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

std::string requestOf(const google::protobuf::Message& message) {
  const auto object = toRequest(message);
  return object ? base::toJson(*object) : object.error().message;
}

TEST(JsonMapping, NumbersOfARequestAreExactNumbers) {
  v1::RunRequest request;
  request.set_memory_mb(kMost);
  request.set_disk_mb(kLeast);
  request.set_cpu_millis(0);
  request.set_pids((int64_t{1} << 53) + 1);  // no double has it
  request.set_timeout_seconds(0.001);
  const auto object = toRequest(request);
  ASSERT_TRUE(object);
  EXPECT_EQ(object->at("memory_mb"), kMost);
  EXPECT_EQ(object->at("disk_mb"), kLeast);
  EXPECT_EQ(object->at("cpu_millis"), 0);
  EXPECT_EQ(object->at("pids"), (int64_t{1} << 53) + 1);
  EXPECT_EQ(object->at("timeout_seconds"), 0.001);
  EXPECT_EQ(object->size(), 5U) << "nothing that was not set";
}

TEST(JsonMapping, NumbersInsideListsAndMessages) {
  v1::RunRequest request;
  request.add_secrets()->set_port(kMost);
  request.mutable_network_policy()->add_allow()->add_ports(65535);
  (*request.mutable_env())["N"] = "12";  // a text stays a text
  (*request.mutable_metadata())["memory_mb"] = "9223372036854775807";
  EXPECT_EQ(
      requestOf(request),
      R"({"env":{"N":"12"},"network_policy":{"allow":[{"ports":[65535]}]},)"
      R"("secrets":[{"port":9223372036854775807}],"metadata":{"memory_mb":"9223372036854775807"}})");
}

TEST(JsonMapping, NumbersOfAnAnswerAreExact) {
  v1::Execution execution;
  ASSERT_TRUE(
      fromAnswer(R"({"stdout_bytes":9223372036854775807,"depth":9007199254740993,"exit_code":255,)"
                 R"("resource_usage":{"io_read_bytes":9007199254740993,"processes":null}})",
                 execution));
  EXPECT_EQ(execution.stdout_bytes(), kMost);
  EXPECT_EQ(execution.depth(), (int64_t{1} << 53) + 1);
  EXPECT_EQ(execution.exit_code(), 255);
  EXPECT_EQ(execution.resource_usage().io_read_bytes(), (int64_t{1} << 53) + 1);
  EXPECT_FALSE(execution.resource_usage().has_processes());
}

TEST(JsonMapping, ANumberBeyondItsFieldIsAnError) {
  v1::Execution execution;
  EXPECT_FALSE(fromAnswer(R"({"stdout_bytes":9223372036854775808})", execution));
  EXPECT_FALSE(fromAnswer(R"({"exit_code":2147483648})", execution));
  EXPECT_FALSE(fromAnswer(R"({"exit_code":1.5})", execution));
}

TEST(JsonMapping, ContentsAreBytes) {
  v1::RunRequest request;
  request.set_input(std::string("\0\xff", 2));
  auto& file = *request.add_files();
  file.set_path("a");
  request.add_files()->set_path("empty");
  file.set_content("x");
  EXPECT_EQ(requestOf(request),
            R"({"input":"AP8=","files":[{"path":"a","content":"eA==","encoding":"base64"},)"
            R"({"path":"empty","content":"","encoding":"base64"}],"encoding":"base64"})");
}

TEST(JsonMapping, ArgumentsAndArtifacts) {
  v1::ExecRequest request;
  request.add_argv("ls");
  request.add_argv("-l");
  request.set_no_artifacts(true);
  EXPECT_EQ(requestOf(request), R"({"command":["ls","-l"],"artifacts":[]})");
  request.set_command("ls");
  request.add_artifacts("*.png");
  const auto both = toRequest(request);
  EXPECT_TRUE(both && both->contains("argv")) << "the service refuses it, and names it";
  EXPECT_EQ(both->at("artifacts").get_array().size(), 1U);
}

TEST(JsonMapping, OutputsBecomeBytes) {
  v1::Execution execution;
  ASSERT_TRUE(fromAnswer(R"({"stdout":"hi \u00e9","stderr":"AP8=","stderr_encoding":"base64",)"
                         R"("compile":{"stdout":"c","stderr":"","exit_code":1,"wall_ms":2}})",
                         execution));
  EXPECT_EQ(execution.stdout(), "hi \u00e9");
  EXPECT_EQ(execution.stderr(), std::string("\0\xff", 2));
  EXPECT_EQ(execution.compile().stdout(), "c");
  EXPECT_EQ(execution.compile().exit_code(), 1);
  v1::ListExecutionsResponse list;
  ASSERT_TRUE(
      fromAnswer(R"({"executions":[{"compile":{"stdout":"abc"}}],"next_cursor":null})", list));
  EXPECT_EQ(list.executions(0).compile().stdout(), "abc");
  EXPECT_FALSE(list.has_next_cursor());
  v1::Output output;  // of an event: always base64
  ASSERT_TRUE(fromAnswer(R"({"offset":3,"data":"YWJj"})", output));
  EXPECT_EQ(output.data(), "abc");
}

TEST(JsonMapping, UnknownMembersAndNullsAreLeftOut) {
  v1::Session session;
  ASSERT_TRUE(fromAnswer(
      R"({"id":"ses_1","name":null,"capabilities":null,"new":{"a":[1]},"error":null,)"
      R"("provenance":{"node":null,"weakened":["w"],"later":1},"env":{"A":null,"B":"b"}})",
      session));
  EXPECT_EQ(session.id(), "ses_1");
  EXPECT_FALSE(session.has_name());
  EXPECT_FALSE(session.has_error());
  EXPECT_EQ(session.provenance().weakened(0), "w");
  EXPECT_EQ(session.env().fields().at("B").string_value(), "b");
  EXPECT_TRUE(session.env().fields().at("A").has_null_value());
}

TEST(JsonMapping, TimesAndResults) {
  v1::Execution execution;
  ASSERT_TRUE(fromAnswer(R"({"created_at":"1970-01-01T00:00:01.005Z","finished_at":null,)"
                         R"("results":[{"text/plain":"4","application/json":{"a":null}}]})",
                         execution));
  EXPECT_EQ(execution.created_at().seconds(), 1);
  EXPECT_EQ(execution.created_at().nanos(), 5'000'000);
  EXPECT_FALSE(execution.has_finished_at());
  EXPECT_EQ(execution.results(0).fields().at("text/plain").string_value(), "4");
}

TEST(JsonMapping, AWrongAnswerIsAnErrorOfOurs) {
  v1::FileEntry entry;
  for (const char* body : {"", "[]", "{", R"({"size":"much"})", R"({"path":{}})"}) {
    const auto read = fromAnswer(body, entry);
    ASSERT_FALSE(read) << body;
    EXPECT_EQ(read.error().code, Code::kInternal);
  }
}

}  // namespace
}  // namespace cloister::rpc
