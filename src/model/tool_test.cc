// SPDX-License-Identifier: Apache-2.0
#include "model/tool.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "model/run_request.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr std::string_view kTools = R"(version: 1
tools:
  - id: text.search
    title: Search
    why: It reads.
    tool_type: run_code
    capabilities: [file_read]
    risk: low
    retry: {timeout: 1}
    arguments:
      pattern: {type: text, required: true, max_bytes: 8, description: What to find.}
      path: {type: text, default: ., description: Where.}
      mode: {type: text, choices: [fast, slow], description: How.}
      words: {type: list, max_items: 2, max_bytes: 4, description: More.}
      seconds: {type: integer, min: 1, max: 9, description: How long.}
      loud: {type: boolean, description: Whether.}
    request:
      command: [grep, --, "{pattern}", "{path}", "{words}"]
      args: "{words}"
      timeout_seconds: "{seconds}"
      memory_mb: 64
      env: {MODE: "{mode}"}
)";

ToolSet tools() {
  return ToolSet::parse(kTools, "tools.yaml").value();
}

Result<json::object> ask(std::string_view arguments) {
  const auto value = base::parseJson(arguments).value();
  return requestOf(*tools().find("text.search").value(), value.as_object());
}

std::string refusedField(std::string_view arguments) {
  const auto request = ask(arguments);
  return request ? "" : request.error().field;
}

TEST(ToolSet, TheInstallationsRegistryBecomesRequests) {
  const std::string path = CLOISTER_SOURCE_DIR "/policies/tools.yaml";
  const auto set = ToolSet::parse(base::readFile(path).value(), path);
  ASSERT_TRUE(set) << set.error().message;
  for (const auto& [id, arguments] :
       {std::pair{"shell.execute", R"({"command":"ls"})"},
        {"python.execute", R"x({"code":"print(1)","args":["a"],"timeout_seconds":5})x"},
        {"node.execute", R"({"code":"1"})"},
        {"text.search", R"({"pattern":"x"})"}}) {
    const Tool* tool = set->find(id).value();
    const auto request = requestOf(*tool, base::parseJson(arguments).value().as_object());
    ASSERT_TRUE(request) << id << ": " << request.error().message;
    const auto run = parseRunRequest(*request, defaultBounds());
    EXPECT_TRUE(run) << id << ": " << run.error().message;
  }
}

TEST(ToolSet, ArgumentsTakeThePlaceOfWholeValues) {
  const auto request = ask(R"({"pattern":"; rm","words":["a","{b}"],"seconds":3,"mode":"slow"})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(json::serialize(*request),
            R"({"command":["grep","--","; rm",".","a","{b}"],"args":["a","{b}"],)"
            R"("timeout_seconds":3,"memory_mb":64,"env":{"MODE":"slow"}})");
  EXPECT_EQ(json::serialize(ask(R"({"pattern":"p"})").value()),
            R"({"command":["grep","--","p","."],"memory_mb":64,"env":{}})");
}

TEST(ToolSet, RefusesArgumentsByName) {
  for (const auto& [arguments, field] :
       {std::pair{R"({})", "arguments.pattern"},
        {R"({"pattern":1})", "arguments.pattern"},
        {R"({"pattern":"123456789"})", "arguments.pattern"},
        {R"({"pattern":"p","other":1})", "arguments.other"},
        {R"({"pattern":"p","mode":"loud"})", "arguments.mode"},
        {R"({"pattern":"p","words":"a"})", "arguments.words"},
        {R"({"pattern":"p","words":["a",2]})", "arguments.words[1]"},
        {R"({"pattern":"p","words":["a","12345"]})", "arguments.words[1]"},
        {R"({"pattern":"p","words":["a","b","c"]})", "arguments.words"},
        {R"({"pattern":"p","seconds":10})", "arguments.seconds"},
        {R"({"pattern":"p","seconds":1.5})", "arguments.seconds"},
        {R"({"pattern":"p","seconds":"1"})", "arguments.seconds"},
        {R"({"pattern":"p","loud":1})", "arguments.loud"}}) {
    EXPECT_EQ(refusedField(arguments), field) << arguments;
  }
}

TEST(ToolSet, NamesWhatIsLikelyMeant) {
  const ToolSet set = tools();
  const auto near = set.find("text.serch");
  ASSERT_FALSE(near);
  EXPECT_EQ(near.error().code, Code::kNotFound);
  EXPECT_TRUE(near.error().message.contains("text.search")) << near.error().message;
}

TEST(ToolSet, InASessionTheSandboxIsTheSessions) {
  Tool tool = *tools().find("text.search").value();
  const json::object arguments{{"pattern", "p"}};
  const auto request = sessionRequestOf(tool, arguments);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_FALSE(request->contains("memory_mb"));
  tool.request["runtime"] = "gvisor";
  const auto refused = sessionRequestOf(tool, arguments);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "session_id");
}

TEST(ToolSet, ShowsArgumentsAsASchema) {
  const json::object shown = toJsonObject(*tools().find("text.search").value());
  const json::object& schema = shown.at("arguments").as_object();
  EXPECT_EQ(json::serialize(schema.at("required")), R"(["pattern"])");
  EXPECT_EQ(json::serialize(schema.at("properties").at("words")),
            R"({"type":"array","description":"More.","items":{"type":"string","maxLength":4},)"
            R"("maxItems":2})");
}

// A registry with a fault: its message names the line and the key.
TEST(ToolSet, RefusesARegistryByLineAndKey) {
  const auto with = [](std::string_view old, std::string_view other) {
    std::string text(kTools);
    text.replace(text.find(old), old.size(), other);
    return ToolSet::parse(text, "tools.yaml");
  };
  for (const auto& [old, other, said] :
       {std::tuple{"id: text.search", "id: Text", "tools.yaml:3: tools[0].id: "},
        {"risk: low", "risk: none", "tools.yaml:8: tools[0].risk: "},
        {"timeout: 1", "timeout: 9", "tools.yaml:9: tools[0].retry.timeout: "},
        {"type: text, required", "type: json, required",
         "tools.yaml:11: tools[0].arguments.pattern.type: "},
        {"default: .", "default: 1", "tools.yaml:12: tools[0].arguments.path.default: "},
        {"\"{path}\"", "\"{nothing}\"", "tools[0].request.command[3]: "},
        {"\"{path}\"", "\"in {path}\"", "tools[0].request.command[3]: "},
        {"grep, --", "grep, -e", "tools[0].request.command[2]: "},
        {"memory_mb: 64", "memory_mb: lots", "tools.yaml:21: tools[0].request.memory_mb: "},
        {"memory_mb: 64", "colour: red", "tools[0].request.colour: "},
        {"memory_mb: 64", "metadata: {a: b}", "tools[0].request.metadata: "},
        {"memory_mb: 64", "network_policy: {tier: none}", "tools[0].request.network_policy: "},
        {"    capabilities: [file_read]\n", "", "tools[0].capabilities: is required"},
        {"[file_read]", "[]", "tools.yaml:7: tools[0].capabilities: "},
        {"[file_read]", "[fly]", "each must be one of command_execution, file_delete"},
        {"risk: low", "risk: low\n    network: www", "tools[0].network: must be one of none"},
        {"risk: low", "risk: low\n    network: full", "tools[0].capabilities: must have network"},
        {"risk: low", "risk: low\n    limits: {memory: 1}", "tools[0].limits.memory: "},
        {"risk: low", "risk: low\n    limits: {memory_mb: 32}", "tools[0].request.memory_mb: "},
        {"tools:", "tiers: {low: Never}\ntools:", "tools.yaml:2: tiers.low: must be one of Auto"},
        {"tools:", "tiers: {none: Auto}\ntools:", "tiers.none: "},
        {"why: It reads.", "color: red", "tools[0].why: "},
        {"version: 1", "version: 2", "version: "}}) {
    const auto set = with(old, other);
    ASSERT_FALSE(set) << other;
    EXPECT_TRUE(set.error().message.contains(said)) << set.error().message;
  }
}

TEST(ToolSet, ItsMetadataIsNobodyElses) {
  const auto body =
      base::parseJson(R"({"command":["ls"],"metadata":{"a":"b","cloister.tool":"shell.execute"}})");
  const auto refused = parseRunRequest(body->as_object(), defaultBounds());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "metadata.cloister.tool");
  RequestBounds own = defaultBounds();
  own.own_metadata = true;
  EXPECT_TRUE(parseRunRequest(body->as_object(), own));
}

}  // namespace
}  // namespace cloister::model
