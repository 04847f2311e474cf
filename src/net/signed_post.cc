// SPDX-License-Identifier: Apache-2.0
#include "net/signed_post.h"

#include <utility>

#include "base/file.h"
#include "base/hmac.h"
#include "net/trust.h"

namespace cloister::net {
namespace {

constexpr int64_t kMicros = 1'000'000;
constexpr size_t kAnswerBytes = 65'536;
constexpr size_t kLeastSecret = 16;

std::unexpected<Error> wrong(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

Result<std::string> readSecret(const std::string& key, const std::string& path) {
  if (path.empty()) {
    return wrong(key, "is required with a webhook: what is sent is signed with it");
  }
  auto text = base::readFile(path, 4096);
  if (!text) return std::unexpected(std::move(text).error().within(key));
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  if (text->size() >= kLeastSecret) return *std::move(text);
  return wrong(key, "the secret must have at least 16 characters (openssl rand -hex 32)");
}

}  // namespace

std::string signatureOf(std::string_view secret, int64_t timestamp, std::string_view body) {
  return "v1=" + base::hmacSha256Hex(secret, std::to_string(timestamp) + "." + std::string(body));
}

SignedPost::SignedPost(Url url, std::string secret, boost::asio::ssl::context tls, Millis timeout)
    : url_(std::move(url)), secret_(std::move(secret)), tls_(std::move(tls)), timeout_(timeout) {}

Result<std::shared_ptr<SignedPost>> SignedPost::open(const std::string& prefix,
                                                     const std::string& url,
                                                     const std::string& secret_file,
                                                     const std::string& ca_file, Millis timeout) {
  auto parsed = parseUrl(url);
  if (!parsed) return wrong(prefix + ".url", parsed.error().message);
  std::string secret = TRY(readSecret(prefix + ".secret_file", secret_file));
  auto tls = TRY(clientTls(ca_file, prefix + ".ca_file"));
  return std::shared_ptr<SignedPost>(
      new SignedPost(*std::move(parsed), std::move(secret), std::move(tls), timeout));
}

boost::asio::awaitable<Result<>> SignedPost::send(uint64_t delivery, base::json::object body) {
  const int64_t now = base::wallMicros() / kMicros;
  Posted posted{.body = base::toJson(body), .headers = {}};
  posted.headers = {{"X-Cloister-Delivery", std::to_string(delivery)},
                    {"X-Cloister-Timestamp", std::to_string(now)},
                    {"X-Cloister-Signature", signatureOf(secret_, now, posted.body)}};
  co_return co_await post(url_, tls_, std::move(posted),
                          {.timeout = timeout_, .bytes = kAnswerBytes});
}

}  // namespace cloister::net
