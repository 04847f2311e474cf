// SPDX-License-Identifier: Apache-2.0
// /mcp through the router, in both eras, over the real service and the fake runtime.
#include "api/mcp/server.h"

#include <gmock/gmock.h>

#include "api/mcp/mcp_fixture.h"
#include "api/mcp/tool.h"

namespace cloister::api::mcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class McpTest : public McpServerTest {
 protected:
  void serve(Extras extras = {}) {
    McpServerTest::serve(CLOISTER_SOURCE_DIR "/spec/mcp.json", std::move(extras));
  }
};

TEST_F(McpTest, SaysWhatItIs) {
  serve();
  const json::object found = modern("server/discover").result();
  EXPECT_EQ(found.at("supportedVersions"), json::value(json::array{kModernVersion}));
  EXPECT_EQ(textIn(found, "resultType"), "complete");
  EXPECT_FALSE(objectIn(objectIn(found, "capabilities"), "tools").contains("listChanged"));
}

TEST_F(McpTest, ListsItsToolsInOneOrderWithoutUnionsOrPlaceholders) {
  serve();
  const Told told = modern("tools/list");
  std::vector<std::string> names;
  for (const json::value& each : told.result().at("tools").as_array()) {
    const json::object& tool = each.as_object();
    names.push_back(textIn(tool, "name"));
    for (const std::string_view schema : {"inputSchema", "outputSchema"})
      EXPECT_EQ(textIn(objectIn(tool, schema), "type"), "object");
  }
  EXPECT_THAT(names, ElementsAre("run", "create_session", "exec", "get_logs", "cancel", "upload",
                                 "download", "list_artifacts", "set_memory", "get_memory",
                                 "list_memory", "delete_memory", "list_sessions", "terminate"));
  for (const std::string_view bad : {"anyOf", "oneOf", "$ref", "%"})
    EXPECT_FALSE(told.body.contains(bad)) << bad;
}

TEST_F(McpTest, AProgramsResultIsANormalOne) {
  serve();
  const Told ran = tool("run", {{"argv", {"echo", "hi"}}});
  EXPECT_EQ(ran.status, 200);
  EXPECT_FALSE(ran.isError());
  EXPECT_EQ(textIn(ran.facts(), "status"), "completed");
  EXPECT_EQ(textIn(ran.facts(), "stdout"), "hi\n");
  EXPECT_THAT(ran.text(), HasSubstr("exit code 0"));
  const Told bad = tool("run", {{"argv", {"exit", "3"}}});
  EXPECT_FALSE(bad.isError()) << bad.body;
}

TEST_F(McpTest, ToolsSayWhyAProgramHadNoNetwork) {
  serve();
  const Told told =
      tool("run", {{"argv", {"exit", "1", "curl: (6) Could not resolve host: a.test"}}});
  const json::object network = objectIn(told.facts(), "network");
  EXPECT_EQ(network.at("connections"), json::value(0));
  EXPECT_THAT(textIn(network, "hint"), HasSubstr("network_policy"));
  EXPECT_THAT(told.text(), HasSubstr("\n--- network\nthis run has no network"));
  EXPECT_THAT(tool("run", {{"argv", {"exit", "3"}}}).text(), Not(HasSubstr("--- network")));
}

TEST_F(McpTest, WhatWeRefuseIsAnErrorWithANextStep) {
  serve();
  for (const json::object& wrong :
       {json::object{{"argv", "echo"}, {"nonsense", 1}}, json::object{{"command", json::array{}}},
        json::object{{"argv", {"echo"}}, {"timeout_seconds", -1}}, json::object{}}) {
    const Told told = tool("run", wrong);
    EXPECT_EQ(told.status, 200);
    EXPECT_TRUE(told.isError()) << told.body;
    EXPECT_THAT(told.text(), HasSubstr("Next step"));
    EXPECT_EQ(textIn(told.facts(), "status"), "error");
  }
  const Told unknown = tool("nope", {});
  EXPECT_EQ(unknown.error(), code::kInvalidParams);
}

TEST_F(McpTest, AKeyMakesACallHappenOnce) {
  serve();
  const json::object once{{"argv", {"echo", "a"}}, {"idempotency_key", "k1"}};
  const std::string id = textIn(tool("run", once).facts(), "execution_id");
  EXPECT_EQ(textIn(tool("run", once).facts(), "execution_id"), id);
  const Told other = tool("run", {{"argv", {"echo", "b"}}, {"idempotency_key", "k1"}});
  EXPECT_TRUE(other.isError());
}

TEST_F(McpTest, ASessionFromItsCreationToItsEnd) {
  serve();
  const Told made = tool("create_session", {{"ttl_seconds", 60}});
  const std::string id = textIn(made.facts(), "session_id");
  ASSERT_FALSE(id.empty()) << made.body;
  const Told ran = tool("exec", {{"session_id", id}, {"argv", {"echo", "in"}}});
  EXPECT_EQ(textIn(ran.facts(), "session_id"), id);
  EXPECT_EQ(textIn(ran.facts(), "stdout"), "in\n");
  EXPECT_THAT(tool("list_sessions", {}).text(), HasSubstr(id));
  const Told ended = tool("terminate", {{"session_id", id}});
  EXPECT_EQ(textIn(ended.facts(), "status"), "ended");
  EXPECT_TRUE(tool("exec", {{"session_id", id}, {"argv", {"echo"}}}).isError());
}

TEST_F(McpTest, ASessionRemembersTextOfJson) {
  serve();
  const std::string id = textIn(tool("create_session", {}).facts(), "session_id");
  const auto memory = [&](std::string_view verb, json::object arguments = {}) {
    arguments["session_id"] = id;
    return tool(verb, std::move(arguments));
  };
  const std::string value = R"({"n": 123456789012345678901234567890})";
  const Told kept = memory("set_memory", {{"key", "plan"}, {"value", value}});
  ASSERT_FALSE(kept.isError()) << kept.body;
  EXPECT_EQ(kept.facts().at("size").to_number<size_t>(), value.size());
  const Told read = memory("get_memory", {{"key", "plan"}});
  EXPECT_EQ(textIn(read.facts(), "value"), value);
  EXPECT_EQ(read.text(), value);
  EXPECT_EQ(base::toJson(memory("list_memory").facts().at("keys")),
            R"([{"key":"plan","size":37}])");
  EXPECT_EQ(memory("list_memory", {{"after_key", "plan"}}).facts().at("keys"), json::array());
  const Told no_json = memory("set_memory", {{"key", "plan"}, {"value", "hello"}});
  EXPECT_TRUE(no_json.isError());
  EXPECT_EQ(textIn(objectIn(no_json.facts(), "error"), "field"), "value");
  const Told no_key = memory("set_memory", {{"key", "a b"}, {"value", "1"}});
  EXPECT_EQ(textIn(objectIn(no_key.facts(), "error"), "field"), "key");
  EXPECT_THAT(textIn(objectIn(no_key.facts(), "error"), "message"), ::testing::StartsWith("key: "));
  EXPECT_TRUE(memory("set_memory", {{"key", "plan"}}).isError());
  EXPECT_FALSE(memory("delete_memory", {{"key", "plan"}}).isError());
  EXPECT_TRUE(memory("get_memory", {{"key", "plan"}}).isError());
}

TEST_F(McpTest, ALongRunAnswersWithAHandle) {
  settings_.sync_wait = Millis(50);
  serve();
  const Told told = tool("run", {{"argv", {"hold"}}});
  EXPECT_EQ(textIn(told.facts(), "status"), "running");
  EXPECT_FALSE(told.isError());
  const std::string id = textIn(told.facts(), "execution_id");
  fake_->release();
  const Told logs = tool("get_logs", {{"execution_id", id}, {"wait_seconds", 30}});
  EXPECT_EQ(textIn(logs.facts(), "status"), "completed");
  EXPECT_TRUE(logs.facts().at("complete").as_bool());
}

TEST_F(McpTest, ProgressIsToldWhereItWasAskedFor) {
  settings_.heartbeat = Millis(1);
  serve();
  const json::object params{{"name", "run"}, {"arguments", {{"argv", {"hold"}}}}};
  const auto pending =
      start(answer("POST", base::toJson(message("tools/call", params, {{"progressToken", "p"}})),
                   headersOf("tools/call", params), true));
  runUntil([&] { return fake_->live() > 0; });
  const auto until = base::monotonicNow() + Millis(700);
  runUntil([&] { return base::monotonicNow() > until; });
  fake_->release();
  const Told told = finish(pending);
  EXPECT_EQ(told.header("Content-Type"), "text/event-stream");
  EXPECT_THAT(told.body, HasSubstr("notifications/progress"));
  EXPECT_THAT(told.body, HasSubstr("\"progressToken\":\"p\""));
  EXPECT_THAT(told.body, HasSubstr("\"status\":\"completed\""));
}

TEST_F(McpTest, AModernClientThatGoesAwayCancels) {
  serve();
  const json::object params{{"name", "run"}, {"arguments", {{"argv", {"hold"}}}}};
  const auto pending = start(answer("POST", base::toJson(message("tools/call", params, {})),
                                    headersOf("tools/call", params), true));
  runUntil([&] { return fake_->live() > 0; });
  ASSERT_TRUE(gone_);
  gone_();
  const Told told = finish(pending);
  EXPECT_EQ(told.body, "");
  runUntil([&] { return fake_->live() == 0; });
  const auto runs = service_->list(principal(), {});
  ASSERT_TRUE(runs);
  EXPECT_EQ(runs->at(0).status, model::Status::kCancelled);
}

TEST_F(McpTest, ModernRequestsSayEverythingThemselves) {
  serve();
  const std::string bare = R"({"jsonrpc":"2.0","id":"x","method":"tools/list"})";
  const Told missing = post(
      bare, {{"mcp-protocol-version", std::string(kModernVersion)}, {"mcp-method", "tools/list"}});
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(missing.error(), code::kInvalidParams);
  EXPECT_EQ(missing.message().at("id"), json::value("x"));
  const std::string good = base::toJson(message("tools/list", {}, {}));
  const Told mismatch = post(
      good, {{"mcp-protocol-version", std::string(kModernVersion)}, {"mcp-method", "tools/call"}});
  EXPECT_EQ(mismatch.status, 400);
  EXPECT_EQ(mismatch.error(), code::kHeaderMismatch);
  for (const std::string_view gone : {"ping", "initialize", "logging/setLevel", "nope"}) {
    const Told told = modern(gone);
    EXPECT_EQ(told.status, 404) << gone;
    EXPECT_EQ(told.error(), code::kMethodNotFound) << gone;
  }
}

TEST_F(McpTest, LegacySessionsAreAskedForAndEnd) {
  serve();
  const auto headers = initialized();
  const std::string ping = R"({"jsonrpc":"2.0","id":2,"method":"ping"})";
  EXPECT_EQ(post(ping, headers).message().at("result"), json::value(json::object()));
  EXPECT_EQ(post(ping).status, 400);
  EXPECT_EQ(post(ping, {{"mcp-session-id", "mcp_0"}}).status, 404);
  EXPECT_EQ(post(ping, {headers[0], {"mcp-protocol-version", "1999-01-01"}}).status, 400);
  const Told listed = post(R"({"jsonrpc":"2.0","id":3,"method":"tools/list"})", headers);
  EXPECT_FALSE(listed.result().contains("resultType"));
  EXPECT_FALSE(listed.result().contains("ttlMs"));
  EXPECT_EQ(post(R"({"jsonrpc":"2.0","method":"notifications/initialized"})", headers).status, 202);
  EXPECT_EQ(await(answer("DELETE", "", headers, true)).status, 204);
  EXPECT_EQ(post(ping, headers).status, 404);
}

TEST_F(McpTest, ALegacyClientCancelsByNotification) {
  serve();
  const auto headers = initialized();
  const auto pending = start(answer(
      "POST",
      R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run","arguments":{"argv":["hold"]}}})",
      headers, true));
  runUntil([&] { return fake_->live() > 0; });
  const std::string cancelled =
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}})";
  EXPECT_EQ(post(cancelled, headers).status, 202);
  const Told told = finish(pending);
  EXPECT_FALSE(told.body.contains("result"));
  runUntil([&] { return fake_->live() == 0; });
}

// A lost connection cancels nothing, so closing the connection would not end the call.
TEST_F(McpTest, ALegacyCallEndsWithItsKey) {
  serve();
  const auto headers = initialized();
  const auto pending = start(answer(
      "POST",
      R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run","arguments":{"argv":["hold"]}}})",
      headers, true));
  runUntil([&] { return fake_->live() > 0; });
  router_->looked();
  EXPECT_GT(fake_->live(), 0U) << "it stands";
  revokeKey(store_->keyByHash(base::sha256Hex(secret_))->value().id);
  router_->looked();
  EXPECT_FALSE(finish(pending).body.contains("result"));
  runUntil([&] { return fake_->live() == 0; });
}

TEST_F(McpTest, NothingWithoutAKey) {
  serve();
  EXPECT_EQ(modern("tools/list", {}, {}, false).status, 401);
}

Task<Reply> greet(Server&, Call&, const json::object& params) {
  co_return json::object{{"content", json::array{textBlock("hello")}},
                         {"messages", json::array()},
                         {"asked", textIn(params, "name")}};
}

std::optional<json::object> readNote(std::string_view uri) {
  if (uri != "note://1") return std::nullopt;
  return json::object{{"contents", json::array{json::object{{"uri", uri}, {"text", "noted"}}}}};
}

Extras someExtras() {
  Extras extras;
  extras.capabilities = {{"logging", json::object()}};
  extras.tools = {{.name = "greet",
                   .eras = static_cast<uint8_t>(Era::kModern),
                   .description = "greets",
                   .schema = {{"type", "object"}},
                   .handle = greet},
                  {.name = "old_greet",
                   .eras = static_cast<uint8_t>(Era::kLegacy),
                   .description = "greets",
                   .schema = {{"type", "object"}},
                   .handle = greet}};
  extras.prompts = {
      {.name = "shown", .description = "is listed", .arguments = {"whom"}, .handle = greet},
      {.name = "hidden",
       .description = "is not",
       .arguments = {},
       .listed = false,
       .handle = greet}};
  extras.resources = {json::object{{"uri", "note://1"}, {"name", "a note"}}};
  extras.templates = {json::object{{"uriTemplate", "note://{id}"}, {"name", "notes"}}};
  extras.read = readNote;
  return extras;
}

TEST_F(McpTest, OffersExtrasBesideItsOwn) {
  serve(someExtras());
  EXPECT_THAT(modern("server/discover").body, HasSubstr("\"logging\""));
  const std::string tools = modern("tools/list").body;
  EXPECT_THAT(tools, HasSubstr("\"create_session\""));
  EXPECT_THAT(tools, HasSubstr("\"greet\""));
  EXPECT_FALSE(tools.contains("old_greet"));
  EXPECT_EQ(tool("greet", {}).text(), "hello");
  EXPECT_EQ(tool("old_greet", {}).error(), code::kInvalidParams);
  const std::string prompts = modern("prompts/list").body;
  EXPECT_THAT(prompts, HasSubstr("\"analyse_file\""));
  EXPECT_THAT(prompts, HasSubstr("\"whom\""));
  EXPECT_FALSE(prompts.contains("hidden"));
  EXPECT_THAT(modern("prompts/get", {{"name", "hidden"}}).body, HasSubstr("\"hidden\""));
  EXPECT_THAT(modern("resources/list").body, HasSubstr("note://1"));
  EXPECT_THAT(modern("resources/templates/list").body, HasSubstr("note://{id}"));
  EXPECT_THAT(modern("resources/read", {{"uri", "note://1"}}).body, HasSubstr("noted"));
  EXPECT_EQ(modern("resources/read", {{"uri", "note://2"}}).error(), code::kInvalidParams);
}

TEST_F(McpTest, ExtrasNeedAKeyUnlessTheyAreForAnyone) {
  serve(someExtras());
  EXPECT_EQ(modern("tools/list", {}, {}, false).status, 401);
}

TEST_F(McpTest, ReadsItsResourcesAndCompletesIds) {
  serve();
  const Told limits = modern("resources/read", {{"uri", "cloister://limits"}});
  EXPECT_THAT(limits.body, HasSubstr("max_ttl_seconds"));
  const Told none = modern("resources/read", {{"uri", "cloister://artifacts/art_x"}});
  EXPECT_EQ(none.error(), code::kInvalidParams);
  EXPECT_EQ(textIn(objectIn(objectIn(none.message(), "error"), "data"), "uri"),
            "cloister://artifacts/art_x");
  const std::string id = textIn(tool("create_session", {}).facts(), "session_id");
  const Told completed =
      modern("completion/complete",
             {{"ref", {{"type", "ref/resource"}, {"uri", "cloister://sessions/{session_id}"}}},
              {"argument", {{"name", "session_id"}, {"value", "ses_"}}}});
  EXPECT_THAT(completed.body, HasSubstr(id));
}

TEST_F(McpTest, FillsInItsPrompts) {
  serve();
  const json::object params{{"name", "analyse_file"},
                            {"arguments", {{"path", "data.csv"}, {"question", "How many rows?"}}}};
  const Told told = modern("prompts/get", params);
  EXPECT_THAT(told.body,
              HasSubstr("Analyse the file data.csv in a sandbox. The question: How many"));
  EXPECT_EQ(modern("prompts/get", {{"name", "analyse_file"}}).error(), code::kInvalidParams);
}

}  // namespace
}  // namespace cloister::api::mcp
