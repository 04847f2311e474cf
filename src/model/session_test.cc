// SPDX-License-Identifier: Apache-2.0
#include "model/session.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::model {
namespace {

namespace json = base::json;
using std::chrono::milliseconds;
using testing::HasSubstr;

json::object object(std::string_view text) {
  return base::parseJson(text).value().as_object();
}

Result<SessionRequest> request(std::string_view text) {
  return parseSessionRequest(object(text), defaultBounds(), {});
}

Session running() {
  Session session;
  session.language = "python";
  session.env = {{"A", "1"}, {"B", "2"}};
  session.cwd = "/tmp";
  session.ttl = std::chrono::minutes(5);
  session.idle_ttl = std::chrono::minutes(1);
  settle(session.limits);
  return session;
}

Result<ExecRequest> exec(std::string_view text, const Session& session = running()) {
  return parseExecRequest(object(text), defaultBounds(), session);
}

TEST(SessionRequest, FillsInWhatIsNotAsked) {
  const auto made = request("{}");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->ttl, std::chrono::hours(1));
  EXPECT_EQ(made->idle_ttl, std::chrono::minutes(10));
  EXPECT_EQ(made->settings.network.tier, "none");
  EXPECT_EQ(made->cwd, "");
}

TEST(SessionRequest, TakesItsMembers) {
  const auto made = request(
      R"({"language":"node","ttl_seconds":2.5,"idle_ttl_seconds":1,"image":"host","cwd":"/tmp",
          "env":{"A":"b"},"memory_mb":64,"metadata":{"m":"1"},"network_policy":{"tier":"none"}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->settings.language, "node");
  EXPECT_EQ(made->ttl, milliseconds(2500));
  EXPECT_EQ(made->idle_ttl, milliseconds(1000));
  EXPECT_EQ(made->settings.limits.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(made->settings.env.at("A"), "b");
}

TEST(SessionRequest, HasAScopeWhereItNamesOne) {
  EXPECT_TRUE(request("{}")->capabilities.empty());
  const auto made = request(R"({"capabilities":["file_read","command_execution","file_read"]})");
  ASSERT_TRUE(made) << made.error().message;
  Session session = running();
  session.capabilities = made->capabilities;
  EXPECT_EQ(base::toJson(toJsonObject(session).at("capabilities")),
            R"(["command_execution","file_read"])");
  EXPECT_EQ(beyondScope(session, {"file_read", "network"}), std::vector<std::string>{"network"});
  session.capabilities.clear();
  EXPECT_TRUE(beyondScope(session, {"file_read", "network"}).empty());
  EXPECT_NE(base::toJson(toJsonObject(*request("{}"))), base::toJson(toJsonObject(*made)));
}

TEST(SessionRequest, ARefusalNamesTheField) {
  struct Case {
    std::string_view body;
    std::string_view field;
  };
  constexpr Case kCases[] = {
      {R"({"ttl_seconds":0})", "ttl_seconds"},
      {R"({"ttl_seconds":86401})", "ttl_seconds"},
      {R"({"ttl_seconds":"1"})", "ttl_seconds"},
      {R"({"idle_ttl_seconds":0.5})", "idle_ttl_seconds"},
      {R"({"image":"../debian"})", "image"},
      {R"({"cwd":"tmp"})", "cwd"},
      {R"({"cwd":"/a\nb"})", "cwd"},
      {R"({"env":{"1":"x"}})", "env.1"},
      {R"({"memory_mb":1})", "memory_mb"},
      {R"({"code":"1"})", "code"},
      {R"({"capabilities":[]})", "capabilities"},
      {R"({"capabilities":["fly"]})", "capabilities"},
      {R"({"capabilities":"network"})", "capabilities"},
      {R"({"capabilities":["file_read"],"network_policy":{"tier":"full"}})", "capabilities"},
      {R"({"network_policy":{"tier":"x"}})", "network_policy.tier"},
  };
  for (const Case& c : kCases) {
    const auto made = request(c.body);
    ASSERT_FALSE(made) << c.body;
    EXPECT_EQ(made.error().field, c.field) << made.error().message;
    EXPECT_THAT(made.error().message, HasSubstr(c.field));
  }
  EXPECT_THAT(request(R"({"ttl_seconds":86401})").error().message, HasSubstr("max_ttl_seconds"));
}

TEST(SessionRequest, EqualRequestsGiveEqualText) {
  const auto text = [](std::string_view body) {
    return base::toJson(toJsonObject(*request(body)));
  };
  EXPECT_EQ(text(R"({"language":"python","cwd":"/tmp"})"),
            text(R"({"cwd":"/tmp","language":"python","ttl_seconds":3600})"));
  EXPECT_NE(text("{}"), text(R"({"cwd":"/tmp"})"));
}

TEST(Renewal, SaysWhatIsGiven) {
  const auto renewal = [](std::string_view body) { return parseRenewal(object(body), {}); };
  EXPECT_EQ(renewal("{}")->ttl.count(), 0);
  EXPECT_EQ(renewal(R"({"ttl_seconds":60})")->ttl, std::chrono::minutes(1));
  EXPECT_EQ(renewal(R"({"ttl_seconds":60})")->idle_ttl.count(), 0);
  EXPECT_EQ(renewal(R"({"idle_ttl_seconds":2})")->idle_ttl, std::chrono::seconds(2));
  EXPECT_EQ(renewal(R"({"ttl":60})").error().field, "ttl");
}

TEST(ExecRequest, HasTheSessionsUnlessItSaysElse) {
  const auto made = exec(R"({"code":"1","env":{"B":"3"}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->run.language, "python");
  EXPECT_EQ(made->run.env.at("A"), "1");
  EXPECT_EQ(made->run.env.at("B"), "3");
  EXPECT_EQ(made->cwd, "/tmp");
  EXPECT_TRUE(made->run.artifacts.empty());
  EXPECT_FALSE(made->background);
  EXPECT_EQ(exec(R"({"command":"ls","cwd":"/workspace"})")->cwd, "/workspace");
  EXPECT_EQ(exec(R"({"code":"1","language":"bash"})")->run.language, "bash");
}

TEST(ExecRequest, MayNameWhatCalls) {
  const std::string parent = "exec_" + std::string(26, '0');
  const auto made = exec(R"({"command":["ls"],"parent_id":")" + parent + "\"}");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->parent_id, parent);
  EXPECT_EQ(toJsonObject(*made).at("parent_id"), json::value(parent));
  EXPECT_EQ(exec(R"({"command":["ls"],"parent_id":"ses_1"})").error().field, "parent_id");
}

TEST(ExecRequest, CodeWithoutALanguageIsPython) {
  Session session = running();
  session.language = "";
  EXPECT_EQ(exec(R"({"code":"1"})", session)->run.language, "python");
  EXPECT_EQ(exec(R"({"code":"1","language":"bash"})", session)->run.language, "bash");
  EXPECT_EQ(exec(R"({"command":"x"})", session)->run.language, "");
}

TEST(ExecRequest, InTheBackgroundItLastsUnlessItHasATimeOfItsOwn) {
  const auto lasts = [](std::string_view more) {
    const auto made = exec(R"({"command":"x")" + std::string(more) + "}");
    return std::pair(made->lasts, made->lasts_cpu);
  };
  EXPECT_EQ(lasts(""), std::pair(false, false));
  EXPECT_EQ(lasts(R"(,"background":true)"), std::pair(true, true));
  EXPECT_EQ(lasts(R"(,"background":true,"timeout_seconds":null)"), std::pair(true, true));
  EXPECT_EQ(lasts(R"(,"background":true,"cpu_seconds":2)"), std::pair(true, false));
  EXPECT_EQ(lasts(R"(,"background":true,"timeout_seconds":20)"), std::pair(false, false));
  EXPECT_EQ(lasts(R"(,"background":true,"tty":{})"), std::pair(false, false));
}

TEST(ExecRequest, CodeMayNameItsKernel) {
  EXPECT_FALSE(exec(R"({"code":"1"})")->kernel);
  EXPECT_FALSE(exec(R"({"code":"1","kernel":null,"cwd":null})")->process);
  EXPECT_EQ(exec(R"({"code":"1","kernel":"a_b-1"})")->kernel, "a_b-1");
  EXPECT_TRUE(exec(R"({"code":"1","args":["x"],"kernel":"none"})")->process);
  for (const std::string_view more :
       {R"("code":"1","kernel":"")", R"("code":"1","kernel":"A")", R"("code":"1","kernel":"../x")",
        R"("command":"x","kernel":"k")", R"("code":"1","kernel":"k","args":["x"])",
        R"("code":"1","kernel":"k","env":{"B":"1"})", R"("code":"1","kernel":"k","cwd":"/tmp")"}) {
    const auto made = exec("{" + std::string(more) + "}");
    ASSERT_FALSE(made) << more;
    EXPECT_EQ(made.error().field, "kernel") << more;
  }
  const auto one = exec(R"({"code":"1","kernel":"k"})");
  EXPECT_EQ(toJsonObject(*one)["kernel"], "k");
}

TEST(ExecRequest, TimesAreItsOwn) {
  Session session = running();
  EXPECT_EQ(exec(R"({"command":"x"})", session)->run.limits.wall, std::chrono::seconds(30));
  const auto longer = exec(R"({"command":"x","timeout_seconds":100})", session);
  ASSERT_TRUE(longer) << longer.error().message;
  EXPECT_EQ(longer->run.limits.wall, std::chrono::seconds(100));
  EXPECT_EQ(longer->run.limits.cpu_time, std::chrono::seconds(101));  // derived from the wall time
  session.limits.cpu_time = std::chrono::seconds(5);
  EXPECT_EQ(exec(R"({"command":"x"})", session)->run.limits.cpu_time, std::chrono::seconds(5));
}

TEST(ExecRequest, CannotHaveAnotherShareOfTheSandbox) {
  const auto more = exec(R"({"command":"x","memory_mb":257})");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().field, "memory_mb");
  EXPECT_THAT(more.error().message, HasSubstr("is the session's, 256, for all of its programs"));
  EXPECT_EQ(exec(R"({"command":"x","pids":65})").error().field, "pids");
  EXPECT_EQ(exec(R"({"command":"x","open_files":50})").error().field, "open_files");
  EXPECT_EQ(exec(R"({"command":"x","artifacts":["**"]})")->run.artifacts.size(), 1U);
  EXPECT_TRUE(exec(R"({"command":"x","memory_mb":256,"pids":64,"artifacts":[]})"));
  EXPECT_EQ(exec(R"({"command":"x","network_policy":{"tier":"full"}})").error().field,
            "network_policy.tier");
  EXPECT_EQ(exec(R"({"command":"x","deps":["numpy"]})").error().field, "deps");
  EXPECT_EQ(exec(R"({"command":"x","ttl_seconds":1})").error().field, "ttl_seconds");
}

TEST(ExecRequest, HasTheNetworkOfItsSession) {
  Session session = running();
  const std::string own =
      R"({"tier":"restricted","allow":["a.example.com:443"],"on_denied":"escalate"})";
  session.network = readNetworkRequest(object(own), "network_policy").value();
  EXPECT_EQ(exec(R"({"command":"x"})", session)->run.network, session.network);
  const auto with = [&](std::string_view policy) {
    return exec(R"({"command":"x","network_policy":)" + std::string(policy) + "}", session);
  };
  for (const std::string_view same :
       {std::string_view("null"), std::string_view(R"({"tier":"restricted"})"),
        std::string_view(own)}) {
    const auto read = with(same);
    ASSERT_TRUE(read) << same << ": " << read.error().message;
    EXPECT_EQ(read->run.network, session.network) << same;
  }
  EXPECT_EQ(with(R"({"tier":"none"})").error().field, "network_policy.tier");
  EXPECT_EQ(exec(R"({"command":"x","sandbox":"fresh"})", session)->run.network, NetworkRequest());
  EXPECT_EQ(
      exec(R"({"command":"x","sandbox":"fresh","network_policy":{"tier":"restricted"}})", session)
          .error()
          .field,
      "network_policy.tier");
  EXPECT_EQ(with(R"({"tier":"restricted","allow":["b.example.com:443"]})").error().field,
            "network_policy.allow");
  EXPECT_EQ(with(R"({"tier":"restricted","on_denied":"deny"})").error().field,
            "network_policy.on_denied");
}

TEST(Signal, ByNameOrNumber) {
  const auto signal = [](std::string_view body) { return parseSignal(object(body)); };
  EXPECT_EQ(*signal(R"({"signal":"SIGINT"})"), SIGINT);
  EXPECT_EQ(*signal(R"({"signal":9})"), SIGKILL);
  for (const std::string_view body :
       {R"({})", R"({"signal":"INT"})", R"({"signal":0})", R"({"signal":65})", R"({"signal":1.5})",
        R"({"signal":[]})"}) {
    EXPECT_EQ(signal(body).error().field, "signal") << body;
  }
}

TEST(Input, IsTextOrBase64) {
  const auto input = [](std::string_view body) {
    return parseProgramInput(object(body), defaultBounds());
  };
  EXPECT_EQ(input(R"({"data":"hi"})")->data, "hi");
  EXPECT_FALSE(input(R"({"data":"hi"})")->eof);
  EXPECT_EQ(input(R"({"data":"AP8=","encoding":"base64","eof":true})")->data,
            std::string("\0\xff", 2));
  EXPECT_TRUE(input(R"({"eof":true})")->eof);
  EXPECT_EQ(input("{}").error().field, "data");
  EXPECT_EQ(input(R"({"data":"?","encoding":"base64"})").error().field, "data");
  EXPECT_EQ(input(R"({"data":"?","encoding":"hex"})").error().field, "encoding");
}

TEST(Session, ShowsItself) {
  Session session = running();
  session.id = "ses_1";
  session.status = SessionStatus::kRunning;
  session.created_at = 1'700'000'000'000'000;
  const json::object shown = toJsonObject(session);
  EXPECT_EQ(shown.at("status"), "running");
  EXPECT_EQ(shown.at("ttl_seconds"), 300);
  EXPECT_EQ(shown.at("limits").at("memory_mb"), 256);
  EXPECT_EQ(shown.at("created_at"), "2023-11-14T22:13:20.000Z");
  EXPECT_TRUE(shown.at("expires_at").is_null());
  EXPECT_TRUE(shown.at("end_reason").is_null());
}

}  // namespace
}  // namespace cloister::model
