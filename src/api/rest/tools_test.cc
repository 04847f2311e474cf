// SPDX-License-Identifier: Apache-2.0
// Tool calls over the fake runtime: the retries, and the record of each try.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/rest/rest_fixture.h"
#include "model/tool.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;

constexpr std::string_view kTools = R"(version: 1
tools:
  - {id: twice, title: T, why: w, tool_type: run_code, capabilities: [command_execution], risk: low,
     retry: {startup: 2, timeout: 1}, request: {command: [echo, hi]}}
  - {id: once, title: T, why: w, tool_type: run_code, capabilities: [command_execution], risk: low,
     request: {command: [echo, hi]}}
)";

class ToolsRestTest : public RestTest {
 protected:
  void serveTools() {
    serve();
    parts_->tools = &tools_;
  }
  json::object effect(const std::string& tool) {
    const Answer answer = request("POST", "/v1/tool-calls", R"({"tool_id":")" + tool + "\"}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.object();
  }

  model::ToolSet tools_ = model::ToolSet::parse(kTools, "tools.yaml").value();
};

TEST_F(ToolsRestTest, AStartThatFailsIsMadeAgain) {
  serveTools();
  fake_->failProvision(Error{Code::kUnsupported, "making the sandbox: no namespaces", {}});
  json::object last = effect("twice");
  EXPECT_EQ(last.at("error").at("type"), "SANDBOX_STARTUP_FAILED");
  EXPECT_EQ(last.at("metadata").at("attempts"), 3);
  for (int attempt = 3; attempt > 1; --attempt) {
    const std::string before(last.at("metadata").at("retry_of").as_string());
    const auto record =
        store_->get(store::Scope::allTenants(), std::string(last["id"].as_string()));
    EXPECT_EQ(record->metadata.at("cloister.retry_of"), json::value(before));
    last = request("GET", "/v1/tool-calls/" + before).object();
    EXPECT_EQ(last.at("status"), "failed");
    EXPECT_EQ(last.at("metadata").at("attempts"), attempt - 1);
  }
  EXPECT_TRUE(last.at("metadata").at("retry_of").is_null());
  EXPECT_EQ(effect("once").at("metadata").at("attempts"), 1);
  fake_->failProvision(std::nullopt);
  EXPECT_EQ(effect("twice").at("metadata").at("attempts"), 1);
}

// The request was accepted; its key is revoked before the retry.
TEST_F(ToolsRestTest, ARevokedKeyTriesNothingAgain) {
  serveTools();
  fake_->failProvision(Error{Code::kUnsupported, "making the sandbox: no namespaces", {}});
  Request call;
  call.method = "POST";
  call.has_body = true;
  call.body = R"({"tool_id":"twice"})";
  call.headers = {{"authorization", "Bearer " + secret_}};
  ASSERT_TRUE(parseTarget("/v1/tool-calls", call));
  ASSERT_FALSE(await(router_->admit(call)));
  revokeKey(call.credential.id);
  const Response response = await(router_->handle(call));
  const json::object effect = base::parseJson(response.body).value().as_object();
  EXPECT_EQ(effect.at("error").at("type"), "SANDBOX_STARTUP_FAILED");
  EXPECT_EQ(effect.at("metadata").at("attempts"), 1);
  EXPECT_EQ(store_->list(store::Scope::allTenants(), store::ListQuery{})->size(), 1U);
}

TEST_F(ToolsRestTest, CallsOfASessionHaveItsRate) {
  session_config_.calls_per_minute = 1;
  serveTools();
  const std::string session = request("POST", "/v1/sessions", "{}").text("id");
  const std::string call = R"({"tool_id":"once","session_id":")" + session + "\"}";
  EXPECT_EQ(request("POST", "/v1/tool-calls", call).status, 200);
  const Answer over = request("POST", "/v1/tool-calls", call);
  EXPECT_EQ(over.status, 429);
  EXPECT_THAT(over.body, HasSubstr("QUOTA_EXCEEDED"));
  EXPECT_GT(std::stoi(over.header("Retry-After")), 30);
  EXPECT_EQ(request("POST", "/v1/sessions/" + session + "/exec", R"({"command":["echo"]})").status,
            429);
}

}  // namespace
}  // namespace cloister::api
