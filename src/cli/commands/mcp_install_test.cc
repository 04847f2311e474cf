// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/json_splice.h"
#include "cli/mcp_clients.h"

namespace cloister::cli {
namespace {

using testing::HasSubstr;

constexpr std::string_view kValue = "{\n  \"command\": \"/c\"\n}";

std::string spliced(std::string_view text) {
  auto done = spliceMember(text, {.group = "servers", .name = "cloister", .value = kValue});
  return done ? *done : "error: " + done.error().message;
}

TEST(JsonSplice, NothingBecomesADocument) {
  constexpr std::string_view kWhole =
      "{\n  \"servers\": {\n    \"cloister\": {\n      \"command\": \"/c\"\n    }\n  }\n}\n";
  EXPECT_EQ(spliced(""), kWhole);
  EXPECT_EQ(spliced(" \n"), kWhole);
  EXPECT_EQ(spliced("{}\n"), kWhole);
  EXPECT_EQ(spliced(kWhole), kWhole) << "a second time changes nothing";
}

TEST(JsonSplice, OtherBytesStay) {
  EXPECT_EQ(
      spliced("{\n\t// mine\n\t\"n\": 1.10e5,\n\t\"servers\": {\n\t\t\"a\": {},\n\t}, /* x */\n}"),
      "{\n\t// mine\n\t\"n\": 1.10e5,\n\t\"servers\": {\n\t\t\"cloister\": {\n\t\t  \"command\": "
      "\"/c\"\n\t\t},\n\t\t\"a\": {},\n\t}, /* x */\n}");
  EXPECT_EQ(spliced(R"({"a":12345678901234567890123})"),
            "{\n  \"servers\": {\n    \"cloister\": {\n      \"command\": \"/c\"\n    }\n  },\n  "
            "\"a\":12345678901234567890123}");
}

TEST(JsonSplice, AnOldEntryIsReplaced) {
  EXPECT_EQ(
      spliced(R"({"servers":{"b":[1,{}],"cloister":{"x":"}"},"z":null},"q":"servers"})"),
      "{\"servers\":{\"b\":[1,{}],\"cloister\":{\n      \"command\": \"/c\"\n    },\"z\":null},"
      "\"q\":\"servers\"}");
  EXPECT_EQ(spliced(R"({"servers":{"cl\u006fister":1}})"),
            "{\"servers\":{\"cl\\u006fister\":{\n      \"command\": \"/c\"\n    }}}");
}

TEST(JsonSplice, WhatIsUnclearIsRefused) {
  for (const std::string_view text :
       {"[]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1} x", "{\"a\":tru}", "{\"servers\":[]}",
        "{\"servers\":1}", "{\"servers\":{},\"servers\":{}}",
        "{\"servers\":{\"cloister\":1,\"cloister\":2}}", "{\"a\":\"", "{\"a\":\"\\", "{/*",
        "{\"a\" 1}", "{,}", "{\"a\":1,,}", "{\"a\":[1 2]}", "{'a':1}"}) {
    EXPECT_THAT(spliced(text), HasSubstr("error: ")) << text;
  }
  EXPECT_THAT(spliced("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"),
              HasSubstr("too deep"));
  EXPECT_THAT(spliced("{\"a\":" + std::string(10, '[') + std::string(10, ']') + "}"),
              HasSubstr("\"cloister\""));
}

TEST(McpClients, EachDocumentNamesTheProgram) {
  const McpLaunch launch{.program = "/opt/\"c\"/cloister", .args = {"mcp", "--state", "/s t"}};
  for (const McpClient& client : mcpClients()) {
    const std::string text = documentText(client, launch);
    EXPECT_THAT(text, HasSubstr(R"("/opt/\"c\"/cloister")")) << client.name;
    EXPECT_THAT(text, HasSubstr(R"(["mcp", "--state", "/s t"])")) << client.name;
    if (client.file.empty()) continue;
    const auto parsed = base::parseJson(text);
    ASSERT_TRUE(parsed) << text;
    const auto& entry = parsed->at(client.group).at(kMcpServerName).get_object();
    EXPECT_EQ(entry.contains("type"), client.typed) << client.name;
    EXPECT_EQ(entry.at("args").get_array().size(), 3U);
  }
}

}  // namespace
}  // namespace cloister::cli
