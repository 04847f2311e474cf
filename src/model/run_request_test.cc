// SPDX-License-Identifier: Apache-2.0
#include "model/run_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"

namespace cloister::model {
namespace {

namespace json = base::json;

using Millis = std::chrono::milliseconds;

Result<RunRequest> parse(const json::object& body, const RequestBounds& bounds = defaultBounds()) {
  return parseRunRequest(body, bounds);
}

Result<RunRequest> parse(std::string_view text) {
  return parse(base::parseJson(text).value().as_object());
}

// A valid request with `members` added or replaced.
Result<RunRequest> with(const json::object& members) {
  json::object body = {{"language", "python"}, {"code", "print(1)"}};
  for (const auto& member : members)
    body[member.key()] = member.value();
  return parse(body);
}

TEST(RunRequest, FillsInTheContractsDefaults) {
  const RunRequest request = with({}).value();
  EXPECT_EQ(request.language, "python");
  EXPECT_EQ(request.code, "print(1)");
  EXPECT_EQ(request.limits.wall, std::chrono::seconds(30));
  EXPECT_EQ(request.limits.cpu_time, std::chrono::seconds(31));
  EXPECT_EQ(request.limits.cpu_millis, 800U);
  EXPECT_EQ(request.limits.memory_bytes, 256U << 20);
  EXPECT_EQ(request.limits.disk_bytes, 1024U << 20);
  EXPECT_EQ(request.limits.pids, 64U);
  EXPECT_EQ(request.limits.output_bytes, 1'048'576U);
  EXPECT_EQ(request.network.tier, "none");
  EXPECT_THAT(request.artifacts, ::testing::ElementsAre("**"));
}

TEST(RunRequest, ReadsEveryMember) {
  const RunRequest request =
      parse(R"({"language":"python","code":"x","input":"aGk=","encoding":"base64","args":["a",""],
      "env":{"A_1":"b"},"files":[{"path":"d/b.sh","content":"YQA=","encoding":"base64",
      "executable":true},{"path":"a.txt","content":"ü","encoding":"utf8"}],
      "deps":["numpy==1.26.4"],"timeout_seconds":0.5,"cpu_millis":2500,"memory_mb":64,"disk_mb":5,
      "pids":3,"max_output_bytes":10,"cpu_seconds":1.25,"inodes":100,"file_size_mb":2,
      "open_files":32,"network_policy":{"tier":"api"},"runtime":"gvisor","tier":"Assisted",
      "artifacts":[],"metadata":{"k":"v"}})")
          .value();
  EXPECT_EQ(request.input, "hi");
  EXPECT_THAT(request.args, ::testing::ElementsAre("a", ""));
  EXPECT_EQ(request.env.at("A_1"), "b");
  ASSERT_EQ(request.files.size(), 2U);
  EXPECT_EQ(request.files[0].path, "a.txt");  // sorted
  EXPECT_EQ(request.files[1].content, std::string("a\0", 2));
  EXPECT_EQ(request.files[1].mode, 0755U);
  EXPECT_THAT(request.deps, ::testing::ElementsAre("numpy==1.26.4"));
  const Limits limits{.wall = Millis(500),
                      .cpu_time = Millis(1250),
                      .cpu_millis = 2500,
                      .memory_bytes = 64U << 20,
                      .disk_bytes = 5U << 20,
                      .inodes = 100,
                      .file_bytes = 2U << 20,
                      .open_files = 32,
                      .pids = 3,
                      .output_bytes = 10};
  EXPECT_EQ(request.limits, limits);
  EXPECT_EQ(request.network.tier, "api");
  EXPECT_EQ(request.runtime, "gvisor");
  EXPECT_EQ(request.tier, "Assisted");
  EXPECT_THAT(request.artifacts, ::testing::IsEmpty());
  EXPECT_EQ(request.metadata.at("k"), "v");
}

TEST(RunRequest, TakesACommandAsTextOrArgv) {
  EXPECT_EQ(std::get<std::string>(parse(R"({"command":"ls | wc"})")->command), "ls | wc");
  EXPECT_THAT(std::get<std::vector<std::string>>(parse(R"({"command":["ls","-l"]})")->command),
              ::testing::ElementsAre("ls", "-l"));
  EXPECT_EQ(parse(R"({"command":"ls","language":"node"})")->language, "node");
}

struct Refusal {
  std::string_view body;
  std::string_view field;
  Code code = Code::kInvalid;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.body;
}

class RunRequestRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(RunRequestRefuses, AndNamesTheField) {
  const auto request = parse(GetParam().body);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().field, GetParam().field) << request.error().message;
  EXPECT_EQ(request.error().code, GetParam().code) << request.error().message;
  EXPECT_THAT(request.error().message, ::testing::HasSubstr(std::string(GetParam().field)));
}

#define PY R"({"language":"python","code":"1",)"

INSTANTIATE_TEST_SUITE_P(Programs, RunRequestRefuses,
                         ::testing::ValuesIn(std::vector<Refusal>{
                             {"{}", "code"},
                             {R"({"language":"python"})", "code"},
                             {R"({"code":"1"})", "language"},
                             {R"({"language":"","code":"1"})", "language"},
                             {R"({"language":7,"code":"1"})", "language"},
                             {R"({"language":"python","code":["1"]})", "code"},
                             {R"({"language":"python","code":"a\u0000b"})", "code"},
                             {R"({"language":"python","code":"1","command":"ls"})", "command"},
                             {R"({"command":""})", "command"},
                             {R"({"command":[]})", "command"},
                             {R"({"command":[""]})", "command"},
                             {R"({"command":["ls",1]})", "command[1]"},
                             {R"({"command":["ls","a\u0000"]})", "command[1]"},
                             {R"({"command":"a\u0000"})", "command"},
                             {R"({"command":{}})", "command"},
                             {PY R"("CODE":"2"})", "CODE"},
                             {PY R"("timeout":3})", "timeout"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    Values, RunRequestRefuses,
    ::testing::ValuesIn(std::vector<Refusal>{
        {PY R"("input":1})", "input"},
        {PY R"("input":"aGk","encoding":"base64"})", "input"},
        {PY R"("input":"a","encoding":"utf16"})", "encoding"},
        {PY R"("args":"a"})", "args"},
        {PY R"("args":[null]})", "args[0]"},
        {PY R"("args":["\u0000"]})", "args[0]"},
        {PY R"("env":{"A":1}})", "env.A"},
        {PY R"("env":{"A=B":"1"}})", "env.A=B"},
        {PY R"("env":{"":"1"}})", "env."},
        {PY R"("env":{"1A":"1"}})", "env.1A"},
        {PY R"("env":{"A":"\u0000"}})", "env.A"},
        {PY R"("env":{"BASH_FUNC_a%%":"1"}})", "env.BASH_FUNC_a%%"},
        {PY R"("env":[]})", "env"},
        {PY R"("deps":[""]})", "deps[0]"},
        {PY R"("artifacts":["a",""]})", "artifacts[1]"},
        {PY R"("metadata":{"a":{}}})", "metadata.a"},
        {PY R"("network_policy":"none"})", "network_policy"},
        {PY R"("network_policy":{"tier":"all"}})", "network_policy.tier"},
        {PY R"("network_policy":{"extra":[]}})", "network_policy.extra"},
        {PY R"("network_policy":{"tier":"restricted","allow":["x"]}})", "network_policy.allow[0]"},
        {PY R"("network_policy":{"on_denied":"x"}})", "network_policy.on_denied"},
        {PY R"("tier":"auto"})", "tier"},
        {PY R"("runtime":1})", "runtime"},
    }));

INSTANTIATE_TEST_SUITE_P(Limits, RunRequestRefuses,
                         ::testing::ValuesIn(std::vector<Refusal>{
                             {PY R"("timeout_seconds":0})", "timeout_seconds"},
                             {PY R"("timeout_seconds":-1})", "timeout_seconds"},
                             {PY R"("timeout_seconds":3600.5})", "timeout_seconds"},
                             {PY R"("timeout_seconds":1e300})", "timeout_seconds"},
                             {PY R"("timeout_seconds":"3"})", "timeout_seconds"},
                             {PY R"("cpu_seconds":0})", "cpu_seconds"},
                             {PY R"("cpu_millis":9})", "cpu_millis"},
                             {PY R"("memory_mb":3})", "memory_mb"},
                             {PY R"("memory_mb":64.5})", "memory_mb"},
                             {PY R"("memory_mb":18446744073709551615})", "memory_mb"},
                             {PY R"("disk_mb":0})", "disk_mb"},
                             {PY R"("pids":0})", "pids"},
                             {PY R"("pids":4294967297})", "pids"},
                             {PY R"("max_output_bytes":0})", "max_output_bytes"},
                             {PY R"("max_output_bytes":true})", "max_output_bytes"},
                             {PY R"("inodes":-5})", "inodes"},
                             {PY R"("file_size_mb":0})", "file_size_mb"},
                             {PY R"("open_files":3})", "open_files"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    Files, RunRequestRefuses,
    ::testing::ValuesIn(std::vector<Refusal>{
        {PY R"("files":{}})", "files"},
        {PY R"("files":["a"]})", "files[0]"},
        {PY R"("files":[{"path":"a"}]})", "files[0].content"},
        {PY R"("files":[{"content":"a"}]})", "files[0].path"},
        {PY R"("files":[{"path":"a","content":"a","mode":"4755"}]})", "files[0].mode"},
        {PY R"("files":[{"path":"a","content":"a","executable":1}]})", "files[0].executable"},
        {PY R"("files":[{"path":"a","content":"!","encoding":"base64"}]})", "files[0].content"},
        {PY R"("files":[{"path":"a","content":"a","encoding":"hex"}]})", "files[0].encoding"},
        {PY R"("files":[{"path":"a","content":"1"},{"path":"a","content":"2"}]})", "files"},
        {PY R"("files":[{"path":"a/b","content":"1"},{"path":"a","content":"2"}]})", "files"},
        {PY R"("files":[{"path":"a/b/c","content":""},{"path":"a-","content":""},
                        {"path":"a","content":""}]})",
         "files"},
    }));

TEST(RunRequest, RefusesUnsafePaths) {
  const std::string long_component(256, 'a');
  std::string long_path;
  while (long_path.size() <= 4096)
    long_path += "abcdefg/";
  long_path += "a";
  for (const std::string& path :
       {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("a/../b"),
        std::string("../a"), std::string("a/.."), std::string("."), std::string("./a"),
        std::string("a/./b"), std::string("a//b"), std::string("a/"), std::string("a\nb"),
        std::string("a\x7f"), std::string("a\0b", 3), long_component, "d/" + long_component}) {
    const auto request = with({{"files", {{{"path", path}, {"content", ""}}}}});
    ASSERT_FALSE(request) << path;
    EXPECT_EQ(request.error().field, "files[0].path");
    EXPECT_EQ(request.error().code, Code::kInvalid);
  }
  const auto request = with({{"files", {{{"path", long_path}, {"content", ""}}}}});
  EXPECT_EQ(request.error().code, Code::kTooLarge);
}

TEST(RunRequest, TakesOddButSafePaths) {
  for (const char* path : {"a", "...", ".hidden", "..a", "a..", "a b", "d/e/f", "ü", "a\\b", "-rf",
                           "a%2f..", "~", "proc/self/fd/3"}) {
    const auto request = with({{"files", {{{"path", path}, {"content", "x"}}}}});
    ASSERT_TRUE(request) << path << request.error().message;
    EXPECT_EQ(request->files[0].path, path);
  }
}

TEST(RunRequest, HoldsEverySizeToItsBound) {
  RequestBounds bounds = defaultBounds();
  bounds.code_bytes = 10;
  bounds.input_bytes = 10;
  bounds.files = 2;
  bounds.files_bytes = 10;
  bounds.args = 2;
  bounds.env = 1;
  bounds.text_bytes = 4;
  bounds.command_bytes = 12;
  bounds.items = 1;
  const json::object fits = {{"language", "python"},
                             {"code", "0123456789"},
                             {"input", "0123456789"},
                             {"args", {"a", "bcde"}}};
  ASSERT_TRUE(parse(fits, bounds));
  const std::pair<std::string_view, json::value> over[] = {
      {"code", "01234567890"},
      {"input", "01234567890"},
      {"args", {"a", "b", "c"}},
      {"args", {"01234"}},
      {"args", {"0123", "0123"}},  // with "A=123" over command_bytes
      {"deps", {"a", "b"}},
      {"artifacts", {"a", "b"}},
      {"metadata", {{"a", "1"}, {"b", "2"}}},
      {"metadata", {{"a", "01234"}}},
      {"metadata", {{std::string(257, 'a'), "1"}}},
      {"env", {{"A", "1"}, {"B", "2"}}},
      {"env", {{"A", "01234"}}},
      {"files", {{{"path", "a"}, {"content", "123456"}}, {{"path", "b"}, {"content", "123456"}}}},
      {"files",
       {{{"path", "a"}, {"content", ""}},
        {{"path", "b"}, {"content", ""}},
        {{"path", "c"}, {"content", ""}}}},
  };
  for (const auto& [name, value] : over) {
    json::object body = {{"language", "python"}, {"code", "1"}, {"env", {{"A", "123"}}}};
    body[name] = value;
    const auto request = parse(body, bounds);
    ASSERT_FALSE(request) << name << base::toJson(value);
    EXPECT_EQ(request.error().code, Code::kTooLarge) << request.error().message;
    EXPECT_THAT(request.error().field, ::testing::StartsWith(std::string(name)));
  }
}

TEST(RunRequest, AnOverLimitSaysTheBoundAndTheRemedy) {
  const auto request = with({{"memory_mb", 999'999}});
  EXPECT_EQ(request.error().message,
            "memory_mb: 999999 is over the most that this server allows, 16384; ask for less, or "
            "raise limits.memory_mb in the server's configuration");
}

TEST(RunRequest, EqualRequestsGiveEqualText) {
  const auto a = parse(R"({"code":"1","language":"python","env":{"B":"2","A":"1"},
      "timeout_seconds":29.0,"files":[{"path":"b","content":"x"},{"path":"a","content":"y"}]})");
  const auto b =
      parse(R"({"language":"python","code":"1","timeout_seconds":29,"env":{"A":"1","B":"2"},
      "files":[{"path":"a","content":"eQ==","encoding":"base64"},{"path":"b","content":"x"}],
      "network_policy":{"tier":"none"},"runtime":null})");
  const std::string text = base::toJson(toJsonObject(a.value()));
  EXPECT_EQ(text, base::toJson(toJsonObject(b.value())));
  EXPECT_NE(text, base::toJson(toJsonObject(with({}).value())));
}

TEST(RunRequest, AnotherNetworkIsAnotherRequest) {
  const auto text = [](std::string_view network) {
    const auto read =
        parse(R"({"code":"1","language":"python","network_policy":)" + std::string(network) + "}");
    EXPECT_TRUE(read) << read.error().message;
    return read ? base::toJson(toJsonObject(*read)) : std::string(network);
  };
  const std::string one = text(R"({"tier":"restricted","allow":["a.example.com:443"]})");
  EXPECT_THAT(one, ::testing::HasSubstr("a.example.com"));
  EXPECT_NE(one, text(R"({"tier":"restricted","allow":["b.example.com:443"]})"));
  EXPECT_NE(one, text(R"({"tier":"restricted"})"));
  EXPECT_NE(text(R"({"tier":"restricted","on_denied":"ask"})"), text(R"({"tier":"restricted"})"));
  RequestBounds stored = defaultBounds();
  stored.own_metadata = true;
  const auto back = parseRunRequest(base::parseJson(one).value().as_object(), stored);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(base::toJson(toJsonObject(*back)), one);
}

// Policy may lower unnamed limits, so naming a default value makes a different request.
TEST(RunRequest, RemembersWhichLimitsItNames) {
  const size_t memory = limitIndex(limit_name::kMemory);
  const RunRequest plain = with({}).value();
  const RunRequest named = with({{"memory_mb", 256}, {"pids", nullptr}}).value();
  EXPECT_TRUE(plain.named_limits.none());
  EXPECT_EQ(named.named_limits, LimitSet().set(memory)) << "null names nothing";
  EXPECT_EQ(plain.limits, named.limits);
  EXPECT_FALSE(toJsonObject(plain).contains("named_limits"));
  EXPECT_EQ(base::toJson(toJsonObject(named).at("named_limits")), R"(["memory_mb"])");
  RequestBounds stored = defaultBounds();
  stored.own_metadata = true;
  const RunRequest longer = with({{"timeout_seconds", 60}, {"memory_mb", 256}}).value();
  for (const RunRequest& request : {plain, named, longer}) {
    const json::object canonical = toJsonObject(request);
    EXPECT_EQ(parse(canonical, stored)->named_limits, request.named_limits)
        << base::toJson(canonical);
  }
  EXPECT_EQ(with({{"named_limits", json::array{"pids"}}}).error().field, "named_limits");
}

TEST(RunRequest, CanonicalTextParsesToTheSameRequest) {
  for (const std::string_view body :
       {R"({"command":"ls","timeout_seconds":0.25,"cpu_seconds":0.001,"artifacts":[]})",
        R"({"command":["a","b"],"language":"c","args":["x"],"pids":1,"tier":"Auto"})",
        R"({"language":"r","code":"","input":"/wA=","encoding":"base64","deps":["d"],
            "files":[{"path":"x","content":"gA==","encoding":"base64","executable":true}],
            "metadata":{"m":""},"env":{"_":""},"open_files":64,"inodes":64,"file_size_mb":3})"}) {
    const json::object canonical = toJsonObject(parse(body).value());
    RequestBounds stored = defaultBounds();
    stored.own_metadata = true;
    EXPECT_EQ(toJsonObject(parse(canonical, stored).value()), canonical) << base::toJson(canonical);
    std::vector<std::string> keys;
    for (const auto& member : canonical)
      keys.emplace_back(member.key());
    EXPECT_TRUE(std::ranges::is_sorted(keys)) << base::toJson(canonical);
  }
}

TEST(Limits, SettleGivesCpuTimeAfterTheWall) {
  Limits limits;
  limits.wall = Millis(1500);
  limits.cpu_millis = 1001;
  settle(limits);
  EXPECT_EQ(limits.cpu_time, Millis(5000));
  settle(limits);
  EXPECT_EQ(limits.cpu_time, Millis(5000));
  limits.cpu_time = Millis(7);
  settle(limits);
  EXPECT_EQ(limits.cpu_time, Millis(7));
}

TEST(Limits, DerivedCpuTimeStaysWithinTheServersOwn) {
  RequestBounds bounds = defaultBounds();
  bounds.max.cpu_time = Millis(2000);
  const auto request = parse(json::object{{"command", "ls"}}, bounds);
  EXPECT_EQ(request->limits.cpu_time, Millis(2000));
}

TEST(Limits, ScratchLeavesMemoryForTheProgram) {
  Limits limits;
  EXPECT_EQ(scratchBytes(limits), uint64_t{192} << 20);
  limits.disk_bytes = uint64_t{10} << 20;
  EXPECT_EQ(scratchBytes(limits), uint64_t{10} << 20);
}

TEST(Limits, OnDiskIsWhatIsLargeAndDoesNotFitMemory) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  Limits limits;
  EXPECT_FALSE(needsDisk(limits, kGiB)) << "the default";
  limits.disk_bytes = 2 * kGiB;
  EXPECT_TRUE(needsDisk(limits, kGiB));
  EXPECT_FALSE(needsDisk(limits, 2 * kGiB));
  limits.memory_bytes = 4 * kGiB;
  EXPECT_FALSE(needsDisk(limits, kGiB)) << "it fits";
}

}  // namespace
}  // namespace cloister::model
