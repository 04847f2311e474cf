// SPDX-License-Identifier: Apache-2.0
// Posts of JSON to a webhook, signed with a secret that the receiver knows. The answer is hostile:
// bounded in time and size; no redirect is followed. The headers:
//   X-Cloister-Delivery: a number, the same when a delivery is tried again
//   X-Cloister-Timestamp: seconds since the Unix epoch, when it was sent
//   X-Cloister-Signature: v1=hex(HMAC-SHA256(secret, timestamp + "." + body))
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "net/fetch.h"
#include "net/url.h"

namespace cloister::net {

class SignedPost {
 public:
  // Reads the secret and the authorities now. kInvalid names the key of the configuration, which
  // begins with `prefix`, as "escalation.webhook".
  static Result<std::shared_ptr<SignedPost>> open(const std::string& prefix, const std::string& url,
                                                  const std::string& secret_file,
                                                  const std::string& ca_file, Millis timeout);

  [[nodiscard]] const std::string& host() const { return url_.host; }
  // On the io thread; keep the object meanwhile.
  boost::asio::awaitable<Result<>> send(uint64_t delivery, base::json::object body);

 private:
  SignedPost(Url url, std::string secret, boost::asio::ssl::context tls, Millis timeout);

  Url url_;
  std::string secret_;
  boost::asio::ssl::context tls_;
  Millis timeout_;
};

// The value of X-Cloister-Signature.
std::string signatureOf(std::string_view secret, int64_t timestamp, std::string_view body);

}  // namespace cloister::net
