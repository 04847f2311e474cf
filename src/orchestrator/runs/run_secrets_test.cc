// SPDX-License-Identifier: Apache-2.0
// Secrets of runs and sessions: given to programs and to the door, and in no record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/fake_network.h"
#include "orchestrator/sessions/session_fixture.h"
#include "store/commit.h"
#include "store/rows/secrets.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kRules =
    "version: 2\n"
    "rules:\n"
    "  - {name: work, why: for tests, effect: allow, tier: Auto, runtime: process,\n"
    "     secrets: [{name: 'KEY*', as: [env, file]}, {name: API, as: [broker], hosts: [a.test]}],\n"
    "     network: ['a.test:443', 'b.test:443']}\n";
const std::string kValue = "a value that is secret";

class RunSecretsTest : public SessionsTest {
 protected:
  RunSecretsTest() {
    policy_.set(*policy::parsePolicy(std::string(kRules), "test", model::defaultBounds().max));
    network_ = &doors_;
  }
  ~RunSecretsTest() override { close(); }

  void set(const std::string& name, const std::string& value = kValue, int64_t expires_at = 0,
           const std::string& tenant = "acme") {
    const auto stored = store::commit(
        *store_, store::putSecret,
        {.of = {tenant, name}, .value = value, .expires_at = expires_at, .at = 1}, uint64_t{10},
        {.action = "secret.set", .subject = name, .principal = principal(), .details = {}});
    ASSERT_TRUE(stored) << stored.error().message;
  }
  static model::SecretUse env(const std::string& name, const std::string& variable = "TOKEN") {
    model::SecretUse use;
    use.name = name;
    use.variable = variable;
    return use;
  }
  static model::SecretUse broker(const std::string& variable = "") {
    model::SecretUse use;
    use.name = "API";
    use.as = model::SecretAs::kBroker;
    use.host = "a.test";
    use.header = "Authorization";
    use.format = "Bearer {}";
    use.variable = variable;
    return use;
  }
  static model::RunRequest with(std::vector<std::string> argv, const model::SecretUse& use) {
    model::RunRequest made = request(std::move(argv));
    made.secrets = {use};
    if (use.as == model::SecretAs::kBroker) made.network.tier = "restricted";
    return made;
  }
  model::Execution runs(model::RunRequest made) {
    const auto accepted = await(service_->run(principal(), std::move(made), ""));
    EXPECT_TRUE(accepted) << accepted.error().message;
    return accepted ? ServiceTest::ended(accepted->id) : model::Execution{};
  }
  // Everything that the ledger shows of an execution.
  std::string recordOf(const std::string& id) {
    std::string text = base::toJson(model::toJsonObject(stored(id)));
    for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000))
      text += base::toJson(entry.event.details);
    for (const auto& kept : *store_->requests(store::Scope::allTenants(), 1000))
      text += kept.request_json;
    return text;
  }

  FakeNetwork doors_;
};

TEST_F(RunSecretsTest, AProgramGetsTheValueAndItsRecordDoesNot) {
  open();
  set("KEY");
  const auto execution = runs(with({"env", "TOKEN"}, env("KEY")));
  EXPECT_EQ(execution.status, Status::kCompleted) << execution.out.bytes;
  EXPECT_THAT(execution.out.bytes, HasSubstr("[secret KEY]"));
  EXPECT_EQ(execution.provenance.stdout_sha256, base::sha256Hex(execution.out.bytes));
  EXPECT_THAT(recordOf(execution.id), Not(HasSubstr(kValue)));
  const auto used = detailsOf(execution.id, "secret.used");
  EXPECT_EQ(base::toJson(used.at("secrets")), R"([{"as":"env","name":"KEY","version":1}])");
  EXPECT_GT(store_->secrets().info({"acme", "KEY"})->last_used_at, 0);
}

TEST_F(RunSecretsTest, AMissingOrExpiredOneIsRefusedAtOnce) {
  open();
  set("KEY_OLD", kValue, 1);
  set("KEY_THEIRS", kValue, 0, "rival");
  for (const auto& [name, why] : {std::pair("KEY_NONE", "is not there"),
                                  {"KEY_THEIRS", "is not there"},
                                  {"KEY_OLD", "expired at"}}) {
    const auto refused = await(service_->run(principal(), with({"echo"}, env(name)), ""));
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_EQ(refused.error().field, "secrets[0]");
    EXPECT_THAT(refused.error().message, HasSubstr(why));
  }
}

TEST_F(RunSecretsTest, WithoutAGrantNothingIsRead) {
  open();
  const auto denied = runs(with({"echo"}, env("OTHER")));
  EXPECT_EQ(denied.status, Status::kDenied);
  EXPECT_THAT(denied.error->message, HasSubstr("does not grant the secret OTHER as env"))
      << "and not whether there is one";
}

TEST_F(RunSecretsTest, AQueuedRunIsRefusedOnceItsSecretIsGone) {
  control_config_.concurrent = 1;
  open();
  set("KEY");
  accepted({"hold"});
  const auto waiting = await(service_->run(principal(), with({"env", "TOKEN"}, env("KEY")), ""));
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->status, Status::kQueued);
  ASSERT_TRUE(store::commit(
      *store_, store::removeSecret, {"acme", "KEY"}, int64_t{2},
      {.action = "secret.deleted", .subject = "KEY", .principal = principal(), .details = {}}));
  fake_->release();
  const auto ended = ServiceTest::ended(waiting->id);
  EXPECT_EQ(ended.status, Status::kDenied);
  EXPECT_THAT(ended.error->message, HasSubstr("is not there"));
  EXPECT_THAT(auditOf(waiting->id), Not(Contains("secret.used")));
}

TEST_F(RunSecretsTest, AQueuedRunStartsWithTheNewestVersion) {
  control_config_.concurrent = 1;
  open();
  set("KEY");
  accepted({"hold"});
  const auto waiting = await(service_->run(principal(), with({"env", "TOKEN"}, env("KEY")), ""));
  ASSERT_TRUE(waiting);
  set("KEY", "another value of it");
  fake_->release();
  const auto ended = ServiceTest::ended(waiting->id);
  EXPECT_THAT(ended.out.bytes, HasSubstr("[secret KEY]"));
  EXPECT_EQ(detailsOf(waiting->id, "secret.used").at("secrets").at(0).at("version"), 2);
}

TEST_F(RunSecretsTest, ABrokeredValueGoesToTheDoorAlone) {
  open();
  set("API", kValue + "\n");
  const auto execution = runs(with({"env", "API_KEY"}, broker("API_KEY")));
  ASSERT_EQ(doors_.order.size(), 1U);
  const auto& door = doors_.opened.begin()->second;
  ASSERT_EQ(door.secrets.values.size(), 1U);
  EXPECT_EQ(door.secrets.values[0].value, kValue) << "no header ends with a line feed";
  ASSERT_EQ(door.first.secrets.size(), 1U);
  const model::PlanSecret& plan = door.first.secrets[0];
  EXPECT_EQ(plan.id, door.secrets.values[0].id);
  EXPECT_EQ(plan.header, "authorization");
  EXPECT_EQ(plan.format, "Bearer {}");
  EXPECT_GE(plan.placeholder.size(), 64U);
  EXPECT_THAT(execution.out.bytes, HasSubstr(plan.placeholder));
  EXPECT_THAT(recordOf(execution.id), Not(HasSubstr(kValue)));
  EXPECT_THAT(model::encodePlan(door.first), Not(HasSubstr(kValue)));
  EXPECT_TRUE(door.first.rules[0].entry.inspect);
  EXPECT_FALSE(door.first.rules[1].entry.inspect);
}

TEST_F(RunSecretsTest, PlaceholdersDiffer) {
  open();
  set("API");
  runs(with({"echo"}, broker("V")));
  runs(with({"echo"}, broker("V")));
  ASSERT_EQ(doors_.order.size(), 2U);
  EXPECT_NE(doors_.opened.at(doors_.order[0]).first.secrets[0].placeholder,
            doors_.opened.at(doors_.order[1]).first.secrets[0].placeholder);
}

TEST_F(RunSecretsTest, ALaterPlanHasTheSameSecrets) {
  open();
  set("API");
  const auto waiting = await(service_->run(principal(), with({"hold"}, broker("V")), ""));
  ASSERT_TRUE(waiting);
  runUntil([&] { return doors_.order.size() == 1; });
  const auto& door = doors_.opened.begin()->second;
  const auto again = await(door.again());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->secrets, door.first.secrets);
  fake_->release();
  ServiceTest::ended(waiting->id);
}

TEST_F(RunSecretsTest, ProgramsTrustTheAuthorityOfTheDoor) {
  doors_.certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  open();
  set("API");
  for (const char* name :
       {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "AWS_CA_BUNDLE", "HTTPLIB2_CA_CERTS",
        "CARGO_HTTP_CAINFO", "DENO_CERT"}) {
    EXPECT_THAT(runs(with({"env", name}, broker())).out.bytes,
                HasSubstr("/run/secrets/.cloister/authorities.pem"))
        << name;
  }
  model::RunRequest own = with({"env", "SSL_CERT_FILE"}, broker());
  own.env = {{"SSL_CERT_FILE", "/workspace/mine.pem"}, {"NODE_OPTIONS", "--no-warnings"}};
  EXPECT_THAT(runs(own).out.bytes, HasSubstr("/workspace/mine.pem"));
  EXPECT_THAT(runs(with({"env", "JAVA_TOOL_OPTIONS"}, broker())).out.bytes,
              HasSubstr("trustStore=/run/secrets/.cloister/authorities.jks"));
  own.command = std::vector<std::string>{"env", "NODE_OPTIONS"};
  EXPECT_THAT(runs(own).out.bytes, HasSubstr("--no-warnings --use-openssl-ca"));
}

TEST_F(RunSecretsTest, RefusedDestinationsAreWithoutIt) {
  open();
  set("API");
  model::DeniedDestination refused;
  refused.host = kValue + ".evil.test";
  refused.port = 443;
  refused.count = 1;
  doors_.used.denied = {refused};
  const auto execution = runs(with({"echo"}, broker()));
  ASSERT_EQ(execution.network.denied.size(), 1U);
  EXPECT_EQ(execution.network.denied[0].host, "[secret API].evil.test");
  const auto& door = doors_.opened.begin()->second;
  ASSERT_TRUE(door.secrets.redacted);
  EXPECT_EQ(door.secrets.redacted("x " + kValue), "x [secret API]");
}

TEST_F(RunSecretsTest, AValueThatIsNoHeaderIsRefused) {
  open();
  set("API", "two\nlines of text");
  const auto refused = await(service_->run(principal(), with({"echo"}, broker()), ""));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("line breaks"));
  EXPECT_THAT(refused.error().message, Not(HasSubstr("lines of text")));
}

TEST_F(RunSecretsTest, ASessionKeepsItsOutputWithoutWhatAProgramGot) {
  open();
  set("KEY");
  const std::string session = created();
  model::ExecRequest first = program({"env", "TOKEN"});
  first.run.secrets = {env("KEY")};
  const auto got = await(sessions_->exec(principal(), session, first, ""));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(ServiceTest::ended(got->id).out.bytes, HasSubstr("[secret KEY]"));
  EXPECT_THAT(ran(session, {"env", "TOKEN"}).out.bytes, Not(HasSubstr("secret")))
      << "another program has no such variable";
  EXPECT_THAT(ran(session, {"echo", kValue}).out.bytes, HasSubstr("[secret KEY]"));
}

TEST_F(RunSecretsTest, ProgramsOfASessionHaveItsPlaceholderAndItsAuthority) {
  doors_.certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  open();
  set("API");
  Asked wanted = asked();
  wanted.settings.network.tier = "restricted";
  wanted.settings.secrets = {broker("API_KEY")};
  const std::string session = created(wanted);
  ASSERT_EQ(doors_.order.size(), 1U);
  const auto& door = doors_.opened.begin()->second;
  ASSERT_EQ(door.secrets.values.size(), 1U);
  EXPECT_THAT(ran(session, {"env", "API_KEY"}).out.bytes,
              HasSubstr(door.first.secrets.at(0).placeholder));
  EXPECT_THAT(ran(session, {"env", "SSL_CERT_FILE"}).out.bytes, HasSubstr("authorities.pem"));
  EXPECT_THAT(auditOf(session), Contains("secret.used"));
  const auto again = await(door.again());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->secrets, door.first.secrets);
}

// An approval is of the versions that were there.
TEST_F(RunSecretsTest, AnApprovalIsOfTheVersions) {
  open();
  set("TOKEN");
  set("OTHER");
  const auto digest = [this](const std::vector<model::SecretUse>& uses) {
    Bound bound{.request_sha256 = "r", .spec_sha256 = "s", .session_id = ""};
    bound.secrets = secretVersions(*store_, "acme", uses);
    return digestOf(bound, "sha256:image");
  };
  const std::string before = digest({env("TOKEN"), env("OTHER")});
  EXPECT_EQ(digest({env("OTHER"), env("TOKEN")}), before);
  EXPECT_NE(digest({env("TOKEN")}), before);
  set("OTHER", "another value of it");
  EXPECT_NE(digest({env("TOKEN"), env("OTHER")}), before);
}

}  // namespace
}  // namespace cloister::orchestrator
