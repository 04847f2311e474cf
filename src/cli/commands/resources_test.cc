// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/render/screen.h"

namespace cloister::cli {
namespace {

constexpr base::Flag kFlags[] = {
    {.name = "agent", .value = "NAME", .help = "whose"},
    {.name = "status", .value = "STATUS", .help = "which"},
};

base::Flags flagsOf(const std::vector<std::string>& arguments) {
  return base::Flags::parse(kFlags, arguments).value();
}

TEST(Resources, ATargetHasOperandsAndFlagsEncoded) {
  constexpr Verb kVerb = {.path = "/v1/things/{}:go", .missing = "which thing", .query = "status"};
  EXPECT_EQ(requestTarget(kVerb, flagsOf({"a/b"})).value(), "/v1/things/a%2Fb:go");
  EXPECT_EQ(requestTarget(kVerb, flagsOf({"x", "--status", "a&b"})).value(),
            "/v1/things/x:go?status=a%26b");
  EXPECT_EQ(requestTarget(kVerb, flagsOf({})).error().message, "which thing");
}

TEST(Resources, AFlagOfThePathIsRequired) {
  constexpr Verb kVerb = {
      .path = "/v1/agents/{--agent}?full=true", .missing = "which agent", .query = "status agent"};
  EXPECT_EQ(requestTarget(kVerb, flagsOf({"--agent", "al ice"})).value(),
            "/v1/agents/al%20ice?full=true&agent=al%20ice");
  EXPECT_EQ(requestTarget(kVerb, flagsOf({"operand"})).error().message, "which agent");
  EXPECT_EQ(requestTarget(kVerb, flagsOf({"--agent", ""})).error().message, "which agent");
}

TEST(Resources, ColumnsReachIntoMembers) {
  constexpr Column kColumns[] = {{"ID", "id"},
                                 {"TENANT", "principal.tenant"},
                                 {"SIZE", "size", bytesOf},
                                 {"ROLES", "roles", joinedOf}};
  const json::array items = {{{"id", "a"},
                              {"principal", {{"tenant", "acme"}}},
                              {"size", 2048},
                              {"roles", {"agent", "viewer"}}},
                             {{"id", "no\x1bne"}},
                             "not an object"};
  EXPECT_EQ(tableOf(kColumns, items),
            "ID     TENANT  SIZE     ROLES\n"
            "a      acme    2.0 KiB  agent, viewer\n"
            "no?ne  -       0 B      -\n");
}

TEST(Resources, OnlyAWideScreenShowsAllColumns) {
  constexpr Column kColumns[] = {{"ID", "id"},
                                 {.heading = "TENANT", .member = "tenant", .fit = Fit::kWide},
                                 {"AT", "at", ageOf}};
  const json::array items = {{{"id", "a"}, {"tenant", "acme"}, {"at", "2001-01-01T00:00:00Z"}}};
  EXPECT_THAT(tableOf(kColumns, items), testing::MatchesRegex("ID  AT\na   [0-9]+d\n"));
  setScreen({.wide = true});
  EXPECT_EQ(tableOf(kColumns, items), "ID  TENANT  AT\na   acme    2001-01-01T00:00:00Z\n");
  setScreen({});
}

}  // namespace
}  // namespace cloister::cli
