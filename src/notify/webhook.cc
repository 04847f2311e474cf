// SPDX-License-Identifier: Apache-2.0
#include "notify/webhook.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hmac.h"

namespace cloister::notify {
namespace {

constexpr int64_t kMicros = 1'000'000;
constexpr size_t kAnswerBytes = 65'536;
constexpr size_t kLeastSecret = 16;
constexpr char kSecretKey[] = "escalation.webhook.secret_file";

struct Webhook {
  auth::Url url;
  std::string secret;
  boost::asio::ssl::context tls;
  auth::FetchLimits limits;
};

std::unexpected<Error> wrong(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

Result<std::string> readSecret(const std::string& path) {
  if (path.empty()) {
    return wrong(kSecretKey, "is required with a webhook: what is sent is signed with it");
  }
  auto text = base::readFile(path, 4096);
  if (!text) return std::unexpected(std::move(text).error().within(kSecretKey));
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  if (text->size() >= kLeastSecret) return *std::move(text);
  return wrong(kSecretKey, "the secret must have at least 16 characters (openssl rand -hex 32)");
}

boost::asio::awaitable<Result<>> send(std::shared_ptr<Webhook> hook, orchestrator::Message told) {
  const int64_t now = base::wallMicros() / kMicros;
  const base::json::object body = {{"event", told.event},
                                   {"delivery", told.number},
                                   {"at", base::formatTime(told.at)},
                                   {"escalation", orchestrator::toldOf(told.escalation)}};
  auth::Posted posted{.body = base::toJson(body), .headers = {}};
  posted.headers = {{"X-Cloister-Delivery", std::to_string(told.number)},
                    {"X-Cloister-Timestamp", std::to_string(now)},
                    {"X-Cloister-Signature", signatureOf(hook->secret, now, posted.body)}};
  co_return co_await auth::post(hook->url, hook->tls, std::move(posted), hook->limits);
}

}  // namespace

std::string signatureOf(std::string_view secret, int64_t timestamp, std::string_view body) {
  return "v1=" + base::hmacSha256Hex(secret, std::to_string(timestamp) + "." + std::string(body));
}

Result<orchestrator::Channel> openWebhook(const model::Config::Escalation& config) {
  auto url = auth::parseUrl(config.webhook.url);
  if (!url) return wrong("escalation.webhook.url", url.error().message);
  const auto hook = std::make_shared<Webhook>(Webhook{
      .url = *std::move(url),
      .secret = TRY(readSecret(config.webhook.secret_file)),
      .tls = TRY(auth::clientTls(config.webhook.ca_file, "escalation.webhook.ca_file")),
      .limits = {.timeout = Millis(config.notification_timeout_ms), .bytes = kAnswerBytes}});
  return orchestrator::Channel{
      .name = "webhook", .shown = hook->url.host, .send = [hook](orchestrator::Message told) {
        return send(hook, std::move(told));
      }};
}

}  // namespace cloister::notify
