// SPDX-License-Identifier: Apache-2.0
#include "cli/session_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"

namespace cloister::cli {
namespace {

using testing::HasSubstr;

Result<base::Flags> parse(std::span<const base::Flag> own,
                          const std::vector<std::string>& arguments) {
  std::vector<base::Flag> known(own.begin(), own.end());
  known.insert(known.end(), globalFlags().begin(), globalFlags().end());
  return base::Flags::parse(known, arguments);
}

Result<base::json::object> session(const std::vector<std::string>& arguments) {
  return sessionBody(TRY(parse(sessionFlags(), arguments)));
}

Result<base::json::object> exec(const std::vector<std::string>& arguments, FirstInput input = {}) {
  return execBody(TRY(parse(execFlags(), arguments)), input);
}

TEST(SessionBody, FlagsBecomeMembers) {
  const auto made = session(
      {"-l",    "python", "--ttl", "60",     "--idle-ttl", "1.5",       "--memory",  "64",  "--cpu",
       "500",   "--pids", "8",     "--disk", "32",         "--timeout", "5",         "-e",  "A=1",
       "--env", "B=x=y",  "--cwd", "/tmp",   "--metadata", "task=42",   "--network", "none"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(base::toJson(*made),
            R"({"language":"python","cwd":"/tmp","ttl_seconds":6E1,"idle_ttl_seconds":1.5E0,)"
            R"("timeout_seconds":5E0,"memory_mb":64,"disk_mb":32,"cpu_millis":500,"pids":8,)"
            R"("env":{"A":"1","B":"x=y"},"metadata":{"task":"42"},)"
            R"("network_policy":{"tier":"none"}})");
  EXPECT_EQ(base::toJson(*session({})), "{}");
  EXPECT_EQ(base::toJson(*session({"--capability", "network", "--capability", "file_read"})),
            R"({"capabilities":["network","file_read"]})");
  EXPECT_EQ(base::toJson(*session({"--allow", "a.test:443", "--on-denied", "escalate"})),
            R"({"network_policy":{"tier":"restricted","allow":["a.test:443"],)"
            R"("on_denied":"escalate"}})");
}

TEST(SessionBody, RefusalsNameTheFlag) {
  EXPECT_THAT(session({"--ttl", "soon"}).error().message, HasSubstr("--ttl"));
  EXPECT_THAT(session({"--metadata", "task"}).error().message, HasSubstr("--metadata"));
}

TEST(RenewalBody, OnlyWhatIsAskedFor) {
  const auto body = [](const std::vector<std::string>& arguments) {
    return base::toJson(*renewalBody(*parse(renewalFlags(), arguments)));
  };
  EXPECT_EQ(body({}), "{}");
  EXPECT_EQ(body({"--idle-ttl", "60"}), R"({"idle_ttl_seconds":6E1})");
}

TEST(ExecBody, ACommandOrCode) {
  EXPECT_EQ(base::toJson(*exec({"--timeout", "1", "--cwd", "/tmp", "-e", "A=1", "--", "ls", "-l"})),
            R"({"cwd":"/tmp","command":["ls","-l"],"timeout_seconds":1E0,"env":{"A":"1"}})");
  EXPECT_EQ(base::toJson(*exec({"-c", "print(1)", "-l", "python", "--background", "--", "x"})),
            R"json({"code":"print(1)","language":"python","args":["x"],"background":true})json");
  EXPECT_THAT(exec({}).error().message, HasSubstr("after --"));
  EXPECT_THAT(exec({"-c", "\xff"}).error().message, HasSubstr("--code"));
}

TEST(ExecBody, InputGoesAlongAsFarAsItIsThere) {
  EXPECT_EQ(base::toJson(*exec({"--", "cat"}, {.bytes = "all"})),
            R"({"command":["cat"],"input":"all"})");
  EXPECT_EQ(base::toJson(*exec({"--", "cat"}, {.bytes = "\xff", .more = true})),
            R"({"command":["cat"],"input":"/w==","encoding":"base64","keep_input":true})");
}

}  // namespace
}  // namespace cloister::cli
