// SPDX-License-Identifier: Apache-2.0
// A result in parts: fitting parts are kept, and other parts are named.
#include "orchestrator/runs/result_parts.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

// In pieces of `step` bytes.
ResultParts read(std::string_view json, uint64_t most, size_t step = 1U << 20) {
  ResultParts result(most);
  for (; !json.empty(); json.remove_prefix(std::min(step, json.size())))
    result.add(json.substr(0, step));
  return result;
}

std::string kept(ResultParts& result) {
  return base::toJson(result.parts());
}

std::string nested(size_t depth) {
  return std::string(depth, '[') + "1" + std::string(depth, ']');
}

std::string numbers(size_t count) {
  std::string text = "[0";
  for (size_t i = 1; i < count; ++i)
    text += ",0";
  return text + "]";
}

TEST(ResultParts, KeepsWhatFitsInPiecesOfAnySize) {
  const std::string json =
      R"( {"a/b" : {"x": "}],\"", "y": [1, {"z": "\\"}]} , "text/plain":"ü\ud83d\ude00" } )";
  for (size_t step = 1; step <= json.size(); ++step) {
    ResultParts result = read(json, 200, step);
    ASSERT_TRUE(result.isResult()) << step;
    EXPECT_EQ(kept(result), R"({"a/b":{"x":"}],\"","y":[1,{"z":"\\"}]},"text/plain":"ü😀"})");
    EXPECT_TRUE(result.leftOut().empty());
  }
}

TEST(ResultParts, APartOverTheBoundCostsThatPartOnly) {
  const std::string json =
      R"({"text/plain":"short","text/html":")" + std::string(100, 'x') + R"(","image/png":"1234"})";
  for (const size_t step : {1U, 7U, 1000U}) {
    ResultParts result = read(json, 80, step);
    EXPECT_EQ(kept(result), R"({"text/plain":"short","image/png":"1234"})");
    ASSERT_EQ(result.leftOut().size(), 1U);
    EXPECT_EQ(result.leftOut()[0].type, "text/html");
    EXPECT_EQ(result.leftOut()[0].bytes, 102U);
    EXPECT_EQ(result.leftOut()[0].kept_bytes, 0U);
  }
}

// Exactly at the bound: 10 of the type, 5 around it, 2 quotes.
TEST(ResultParts, ABoundIsExact) {
  const std::string json = R"({"text/plain":"0123456789"})";
  ResultParts whole = read(json, 27);
  EXPECT_EQ(kept(whole), json);
  EXPECT_EQ(whole.bytes(), json.size());
  EXPECT_TRUE(whole.leftOut().empty());
  ResultParts other = read(R"({"text/other":"0123456789"})", 26);
  EXPECT_EQ(kept(other), "{}");
  EXPECT_EQ(other.leftOut().size(), 1U);
}

TEST(ResultParts, TextIsCutBetweenCharacters) {
  std::string json = R"({"text/plain":")";
  for (int i = 0; i < 50; ++i)
    json += R"(ü\n\ud83d\ude00)";
  json += "\"}";
  for (uint64_t most = 31; most < 80; ++most) {
    ResultParts result = read(json, most, 3);
    const std::string text(result.parts().at("text/plain").as_string());
    EXPECT_TRUE(text.ends_with("…")) << text;
    EXPECT_LE(result.bytes(), most);
    const std::string_view stem = std::string_view(text).substr(0, text.size() - 3);
    std::string expected;
    while (expected.size() < stem.size())
      expected += "ü\n😀";
    EXPECT_TRUE(expected.starts_with(stem)) << text;
    EXPECT_GT(result.leftOut().at(0).kept_bytes, 0U);
  }
  EXPECT_EQ(read(json, 20).parts().size(), 0U);  // so little would say nothing
}

TEST(ResultParts, DepthAndNumberAreOfAPart) {
  const auto with = [](const std::string& value) {
    return read(R"({"application/json":)" + value + R"(,"text/plain":"short"})", 1U << 20);
  };
  for (const std::string& fits : {nested(23), numbers(49'999)})
    EXPECT_TRUE(with(fits).leftOut().empty()) << fits.size();
  for (const std::string& large : {nested(24), nested(100'000), numbers(50'001)}) {
    ResultParts result = with(large);
    EXPECT_EQ(kept(result), R"({"text/plain":"short"})") << large.size();
    EXPECT_EQ(result.leftOut().at(0).type, "application/json");
  }
}

TEST(ResultParts, WhatIsNoTypeOrNoValueIsLeftOut) {
  for (const std::string_view part :
       {R"("no type":1)", R"("a\"b/c":1)", R"("a/b":)", R"("a/b":{)", R"("a/b":1 2)",
        R"("a/b":"\ud800")", "\"a/b\":\"\xff\"", R"("text/plain":2)"}) {
    ResultParts result = read("{" + std::string(part) + R"(,"text/plain":"kept"})", 100);
    if (!result.isResult()) continue;  // not an object
    EXPECT_EQ(result.parts().size() + result.leftOut().size(), 2U) << part;
  }
  std::string many = "{";
  for (int i = 0; i < 40; ++i)
    many += "\"a/" + std::to_string(i) + "\":1,";
  ResultParts result = read(many + R"("z/z":1})", 10'000);
  EXPECT_EQ(result.parts().size(), ResultParts::kMaxTypes);
  EXPECT_EQ(result.leftOut().size(), 16U);
}

TEST(ResultParts, WhatIsNoObjectIsNoResult) {
  for (const std::string_view json : {"", "1", "[1]", "{", "{]", "{\"a/b\":1", "{\"a/b\":1,}",
                                      "{\"a/b\":1]", "{\"a/b\" 1}", "{} {}", "{\"a/b\":1}}"})
    EXPECT_FALSE(read(json, 100).isResult()) << json;
  EXPECT_TRUE(read("{ }", 100).isResult());
}

}  // namespace
}  // namespace cloister::orchestrator
