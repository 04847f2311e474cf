// SPDX-License-Identifier: Apache-2.0
// The codecs of OpenSandbox's interface.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "api/compat/opensandbox/egress.h"
#include "api/compat/opensandbox/exec_events.h"
#include "api/compat/opensandbox/file_json.h"
#include "api/compat/opensandbox/lifecycle_json.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
using testing::ElementsAre;
using testing::IsEmpty;

json::object object(std::string_view text) {
  return base::parseJson(text).value().as_object();
}

TEST(OpenSandboxLines, KeepAnIncompleteLineForItsRest) {
  Lines lines;
  EXPECT_THAT(lines.take("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(lines.take("o\n\nthree"), ElementsAre("two", ""));
  EXPECT_THAT(lines.rest(), ElementsAre("three"));
  EXPECT_THAT(lines.rest(), IsEmpty());
}

TEST(OpenSandboxLines, CutALineThatNeverEndsBetweenCharacters) {
  Lines lines;
  const std::string character = "\xE2\x82\xAC";
  std::string text;
  while (text.size() <= Lines::kMostLine)
    text += character;
  const auto given = lines.take(text);
  ASSERT_EQ(given.size(), 1U);
  EXPECT_TRUE(base::isUtf8(given[0]));
  EXPECT_EQ(given[0] + lines.rest().at(0), text);
}

TEST(OpenSandboxText, BytesOfNoCharacterAreReplaced) {
  EXPECT_EQ(readable("a\xff\xe2\x82z\xe2\x82\xac"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\xE2\x82\xAC");
}

std::vector<std::string> typesOf(const std::vector<json::object>& events) {
  std::vector<std::string> types;
  for (const json::object& each : events)
    types.emplace_back(each.at("type").as_string());
  return types;
}

TEST(OpenSandboxEvents, ACommandEndsCompleteOrWithItsExitCode) {
  model::Execution ended;
  ended.status = model::Status::kCompleted;
  ended.exit_code = 0;
  EXPECT_THAT(typesOf(endEvents(ended, Program::kCommand)), ElementsAre("execution_complete"));
  ended.exit_code = 3;  // a program with any exit code has completed
  const auto failed = endEvents(ended, Program::kCommand);
  ASSERT_THAT(typesOf(failed), ElementsAre("error"));
  const json::object& error = failed[0].at("error").as_object();
  EXPECT_EQ(error.at("evalue"), "3");
  EXPECT_EQ(error.at("traceback"), json::array{"exit status 3"});
  ended.exit_code = 137;
  ended.signal = "SIGKILL";
  EXPECT_EQ(endEvents(ended, Program::kCommand)[0].at("error").at("evalue"), "-1");
}

TEST(OpenSandboxEvents, CodeGivesItsResultsAndTheErrorOfItsTraceback) {
  model::Execution ended;
  ended.status = model::Status::kCompleted;
  ended.exit_code = 0;
  ended.cell = model::Cell{.kernel = "python", .number = 7};
  ended.results = {json::object{{"text/plain", "42"}, {"text/html", "<b>"}}};
  const auto events = endEvents(ended, Program::kCode);
  ASSERT_THAT(typesOf(events), ElementsAre("execution_count", "result", "execution_complete"));
  EXPECT_EQ(events[0].at("execution_count"), 7);
  EXPECT_EQ(events[1].at("results"), (json::object{{"text", "42"}, {"text/html", "<b>"}}));
  ended.status = model::Status::kFailed;
  ended.exit_code = 1;
  ended.results.clear();
  ended.err.bytes = "Traceback (most recent call last):\n  line\nValueError: a: b\n";
  const json::object error = endEvents(ended, Program::kCode).back().at("error").as_object();
  EXPECT_EQ(error.at("ename"), "ValueError");
  EXPECT_EQ(error.at("evalue"), "a: b");
  EXPECT_EQ(error.at("traceback").as_array().size(), 3U);
  EXPECT_EQ(errorOf("it went wrong").at("ename"), "Error");
  EXPECT_EQ(errorOf("it went wrong\n").at("evalue"), "it went wrong");
}

TEST(OpenSandboxQuantities, HaveTheUnitsOfKubernetes) {
  EXPECT_EQ(parseCpu("500m").value(), 500U);
  EXPECT_EQ(parseCpu("2").value(), 2000U);
  EXPECT_EQ(parseCpu("0.25").value(), 250U);
  EXPECT_EQ(parseMemoryMb("512Mi").value(), 512U);
  EXPECT_EQ(parseMemoryMb("2Gi").value(), 2048U);
  EXPECT_EQ(parseMemoryMb("1G").value(), 954U);
  EXPECT_EQ(parseMemoryMb("1048577").value(), 2U);
  for (const char* wrong : {"", "m", "-1", "1X", "nan", "inf", "1 Gi", "0"}) {
    EXPECT_FALSE(parseCpu(wrong)) << wrong;
    EXPECT_FALSE(parseMemoryMb(wrong)) << wrong;
  }
}

TEST(OpenSandboxCreate, ReadsARequest) {
  const CreateRequest wanted =
      parseCreate(object(R"({"image": {"uri": "python:3.11"}, "entrypoint": ["sleep", "1"],
        "resourceLimits": {"cpu": "1", "memory": "2Gi"}, "timeout": 600, "env": {"A": "b"},
        "metadata": {"k": "v"}, "networkPolicy": {"egress": [{"action": "allow",
        "target": "Example.com"}]}, "secureAccess": true, "volumes": []})"))
          .value_or(CreateRequest{});
  EXPECT_EQ(wanted.image, "python:3.11");
  EXPECT_EQ(wanted.memory_mb, 2048U);
  EXPECT_EQ(wanted.timeout_seconds, 600);
  EXPECT_THAT(wanted.entrypoint, ElementsAre("sleep", "1"));
}

TEST(OpenSandboxCreate, AnErrorNamesTheField) {
  struct Row {
    const char* body;
    const char* field;
  };
  for (const Row& row : {
           Row{R"({})", "image"},
           Row{R"({"image": {}})", "image.uri"},
           Row{R"({"image": {"uri": "a"}})", "entrypoint"},
           Row{R"({"image": {"uri": "a"}, "entrypoint": ["b"]})", "resourceLimits"},
           Row{R"({"image": {"uri": "a"}, "snapshotId": "s", "entrypoint": ["b"]})", "snapshotId"},
           Row{R"({"snapshotId": "s", "timeout": 10})", "timeout"},
           Row{R"({"snapshotId": "s", "metadata": {"opensandbox.io/x": "y"}})",
               "metadata.opensandbox.io/x"},
           Row{R"({"snapshotId": "s", "metadata": {"a": 1}})", "metadata.a"},
           Row{R"({"snapshotId": "s", "networkPolicy": {"defaultAction": "maybe"}})",
               "networkPolicy.defaultAction"},
           Row{R"({"snapshotId": "s", "unknown": 1})", "unknown"},
       }) {
    const auto parsed = parseCreate(object(row.body));
    ASSERT_FALSE(parsed) << row.body;
    EXPECT_EQ(parsed.error().field, row.field) << parsed.error().message;
  }
}

TEST(OpenSandboxMetadata, IsPatchedAndHidesTheServicesOwn) {
  model::Session session;
  session.metadata = {{"a", "1"}, {"b", "2"}, {kImage, "python"}};
  const json::object now = patchedMetadata(session, object(R"({"a": null, "c": "3"})")).value();
  EXPECT_EQ(now, (json::object{{"b", "2"}, {kImage, "python"}, {"c", "3"}}));
  EXPECT_FALSE(patchedMetadata(session, object(R"({"opensandbox.io/image": null})")));
  EXPECT_FALSE(patchedMetadata(session, object(R"({"a": 1})")));
  EXPECT_EQ(clientMetadata(session), (json::object{{"a", "1"}, {"b", "2"}}));
  EXPECT_TRUE(matches(session, parseMetadataFilter("a=1&b=2").value()));
  EXPECT_FALSE(matches(session, parseMetadataFilter("a=1&b=3").value()));
  EXPECT_FALSE(matches(session, parseMetadataFilter("opensandbox.io/image=python").value()));
  EXPECT_FALSE(parseMetadataFilter("a"));
  EXPECT_EQ(parseMetadataFilter("a=x & y&b=2").value().at("a"), "x & y");
}

TEST(OpenSandboxPages, NameTheirPlace) {
  std::vector<json::object> all;
  for (int i = 0; i < 5; ++i)
    all.push_back({{"i", i}});
  const json::object page = pageOf(all, {.page = 2, .size = 2});
  EXPECT_EQ(page.at("items").as_array().size(), 2U);
  EXPECT_EQ(page.at("pagination").at("totalPages"), 3U);
  EXPECT_EQ(page.at("pagination").at("hasNextPage"), true);
  const json::object beyond = pageOf(all, {.page = UINT64_MAX, .size = 2});
  EXPECT_TRUE(beyond.at("items").as_array().empty());
}

TEST(OpenSandboxEgress, TheFirstIncomingRuleOfATargetWins) {
  EgressPolicy wish{.allow_by_default = false, .rules = {{true, "a.example"}, {true, "b.example"}}};
  const EgressPolicy now =
      merged(wish, {{false, "a.example"}, {true, "a.example"}, {true, "c.example"}});
  EXPECT_THAT(now.rules, ElementsAre(EgressRule{false, "a.example"}, EgressRule{true, "c.example"},
                                     EgressRule{true, "b.example"}));
}

TEST(OpenSandboxModes, LookDecimalAndAreOctal) {
  EXPECT_EQ(shownMode(0644), 644);
  EXPECT_EQ(shownMode(0100755), 755);
  EXPECT_EQ(readMode(640, "mode").value(), 0640U);
  EXPECT_EQ(readMode(7, "mode").value(), 07U);
  for (const int64_t wrong : {8, 680, 1777})
    EXPECT_FALSE(readMode(wrong, "mode")) << wrong;
}

TEST(OpenSandboxPaths, AreMadePlain) {
  EXPECT_EQ(plainPath("/workspace/./a//b/", "path").value(), "/workspace/a/b");
  EXPECT_EQ(plainPath("a/../../etc", "path").value(), "/etc");
  EXPECT_EQ(plainPath("../../../..", "path").value(), "/");
  EXPECT_FALSE(plainPath("", "path"));
}

TEST(OpenSandboxPatterns, MatchNamesAndPaths) {
  EXPECT_TRUE(matchesPattern("*.txt", "deep/a.txt"));
  EXPECT_TRUE(matchesPattern("**", "deep/a.txt"));
  EXPECT_TRUE(matchesPattern("**/*.txt", "a.txt"));
  EXPECT_TRUE(matchesPattern("deep/**/a.txt", "deep/er/est/a.txt"));
  EXPECT_TRUE(matchesPattern("[a-c]?.txt", "bx.txt"));
  EXPECT_TRUE(matchesPattern("[!a-c].txt", "d.txt"));
  EXPECT_FALSE(matchesPattern("*.txt", "a.txt.old"));
  EXPECT_FALSE(matchesPattern("deep/*.txt", "deep/er/a.txt"));
  EXPECT_FALSE(matchesPattern("[a-c].txt", "d.txt"));
  // The work is bounded, whatever the pattern is.
  std::string stars;
  for (int i = 0; i < 200; ++i)
    stars += "**a";
  EXPECT_FALSE(matchesPattern(stars + "b", std::string(1000, 'a')));
}

TEST(OpenSandboxReplace, CountsWhatWasThere) {
  EXPECT_EQ(replacedAll("aaa", "aa", "b"), std::pair(std::string("ba"), uint64_t{1}));
  EXPECT_EQ(replacedAll("abc", "x", "y"), std::pair(std::string("abc"), uint64_t{0}));
}

}  // namespace
}  // namespace cloister::api::compat::opensandbox
