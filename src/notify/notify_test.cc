// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <semaphore>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>

#include "async/run_task.h"
#include "base/crypto.h"
#include "base/hmac.h"
#include "net/signed_post.h"
#include "notify/smtp.h"
#include "notify/webhook.h"

namespace {

std::binary_semaphore the_silence(0);

}  // namespace

// Overrides the C library's function: the look-up of silent.test lasts until a test ends the wait.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto usual =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name != nullptr && std::string_view(name) == "silent.test") {
    std::ignore = the_silence.try_acquire_for(std::chrono::seconds(10));
    return EAI_NONAME;
  }
  return usual(name, service, hints, found);
}

namespace cloister::notify {
namespace {

using testing::HasSubstr;
using testing::Not;

orchestrator::Message message() {
  orchestrator::Message told;
  told.number = 7;
  told.event = "escalation.requested";
  told.escalation.id = "ESC-2026-001";
  told.escalation.operation = "run";
  told.escalation.requester = {.tenant = "acme",
                               .app = "",
                               .agent = "coder",
                               .user = "",
                               .roles = model::Role::kAgent,
                               .key_id = ""};
  told.escalation.roles = {"approver"};
  told.at = 1'774'000'000'000'000;
  return told;
}

std::string bodyOf(const std::string& mail) {
  std::string text = mail.substr(mail.find("\r\n\r\n") + 4);
  std::erase_if(text, [](char c) { return c == '\r' || c == '\n'; });
  return base::fromBase64(text).value_or("not base64");
}

// RFC 4231, test case 2.
TEST(Notify, SignsAsTheStandardSays) {
  EXPECT_EQ(base::hmacSha256Hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(net::signatureOf("secret", 12, "{}"), "v1=" + base::hmacSha256Hex("secret", "12.{}"));
}

TEST(Notify, AMailSaysWhoAndWhat) {
  const std::string mail = mailText("c@x.org", {"a@x.org", "b@x.org"}, message());
  EXPECT_THAT(mail, HasSubstr("From: Cloister <c@x.org>\r\nTo: a@x.org, b@x.org\r\n"));
  EXPECT_THAT(mail, HasSubstr("Subject: [ESC-2026-001] pending: run by agent coder\r\n"));
  EXPECT_THAT(mail, HasSubstr("Date: Fri, 20 Mar 2026 09:46:40 +0000\r\n"));
  EXPECT_THAT(bodyOf(mail), HasSubstr("cloister escalation approve ESC-2026-001"));
}

TEST(Notify, NoTextBecomesAHeader) {
  orchestrator::Message told = message();
  const std::string evil = "x\r\nBcc: evil@x.org\r\n\r\n.\r\nMAIL FROM:<e@x>\u202e\xff";
  told.escalation.requester.agent = evil;
  told.escalation.subject = evil;
  told.escalation.reason = evil;
  told.escalation.operation = evil;
  const std::string mail = mailText("c@x.org", {"a@x.org"}, told);
  const std::string head = mail.substr(0, mail.find("\r\n\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("\nBcc")));
  EXPECT_THAT(head, HasSubstr("x\\r\\nBcc"));
  size_t lines = 0;
  for (size_t at = 0; (at = mail.find('\n', at)) != std::string::npos; at++) {
    EXPECT_EQ(mail[at - 1], '\r');
    EXPECT_NE(mail[at + 1], '.') << "a line that begins with a dot ends the message";
    lines++;
  }
  EXPECT_GT(lines, 8U);
  for (const char c : mail)
    EXPECT_TRUE((c >= ' ' && c <= '~') || c == '\r' || c == '\n');
  EXPECT_THAT(bodyOf(mail), Not(HasSubstr("\nBcc")));
}

TEST(Notify, AddressesAreOnlyAddresses) {
  for (const char* good : {"a@b.c", "security-team@company.com", "x+y@[10.0.0.1]"}) {
    const bool brackets = std::string_view(good).contains('[');
    EXPECT_EQ(isMailAddress(good), !brackets) << good;
  }
  for (const char* bad : {"", "a", "@b", "a@", "a b@c", "a@b\r\nRCPT TO:<x@y>", "<a@b>", "a@b>",
                          "a@b,c@d", "\"a\"@b", "ü@b.c"})
    EXPECT_FALSE(isMailAddress(bad)) << bad;
}

TEST(Notify, ConfigurationIsChecked) {
  model::EscalationSettings config;
  config.smtp.relay = "mail.example.org";
  config.smtp.from = "c@x.org";
  config.smtp.to = {"a@x.org"};
  EXPECT_EQ(openSmtp(config).error().field, "escalation.smtp.relay");
  config.smtp.relay = "mail.example.org:587";
  EXPECT_TRUE(openSmtp(config));
  config.smtp.to = {"a@x.org\n"};
  EXPECT_EQ(openSmtp(config).error().field, "escalation.smtp.to");
  config.webhook.url = "http://example.org/";
  EXPECT_EQ(openWebhook(config).error().field, "escalation.webhook.url")
      << "in clear, and not here";
  config.webhook.url = "https://example.org/";
  EXPECT_EQ(openWebhook(config).error().field, "escalation.webhook.secret_file");
}

TEST(Notify, NothingOfWhatWouldRunIsTold) {
  orchestrator::Message told = message();
  told.escalation.display = "env: TOKEN=secret";
  EXPECT_THAT(base::toJson(orchestrator::toldOf(told.escalation)), Not(HasSubstr("secret")));
  EXPECT_THAT(bodyOf(mailText("c@x.org", {"a@x.org"}, told)), Not(HasSubstr("secret")));
}

TEST(Smtp, TheTimeLimitHoldsForTheLookUpOfTheName) {
  model::EscalationSettings config;
  config.smtp.relay = "silent.test:25";
  config.smtp.from = "cloister@example.org";
  config.smtp.to = {"security@example.org"};
  config.notification_timeout_ms = 100;
  const auto channel = openSmtp(config);
  ASSERT_TRUE(channel);
  boost::asio::io_context io;
  const auto sent = async::runTask(io, channel->send(message()));
  the_silence.release();
  ASSERT_FALSE(sent);
  EXPECT_THAT(sent.error().message, HasSubstr("mail relay silent.test: "));
  EXPECT_THAT(sent.error().message, HasSubstr("timeout"));
}

TEST(Smtp, TakesAPasswordOverTlsOnly) {
  model::EscalationSettings config;
  config.smtp.relay = "mail.example.org:587";
  config.smtp.from = "cloister@example.org";
  config.smtp.to = {"security@example.org"};
  const auto field = [&] {
    const auto opened = openSmtp(config);
    return opened ? "" : opened.error().field;
  };
  EXPECT_EQ(field(), "");
  config.smtp.password_file = "/nonexistent";
  EXPECT_EQ(field(), "escalation.smtp.user");
  config.smtp.user = "cloister";
  EXPECT_FALSE(openSmtp(config)) << "there is no such file";
  config.smtp.starttls = false;
  EXPECT_EQ(field(), "escalation.smtp.starttls");
  config.smtp.password_file.clear();
  EXPECT_EQ(field(), "escalation.smtp.password_file");
}

}  // namespace
}  // namespace cloister::notify
