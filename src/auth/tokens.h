// SPDX-License-Identifier: Apache-2.0
// Tokens of an OpenID Connect provider: its keys are found by discovery (OpenID Connect Discovery
// 1.0), kept for a while, and fetched again when a token names an unknown key.
//
// The contents of a token choose no address of a request: only the configured provider is asked.
// The provider is asked only for a token with valid claims and a key of an ordinary name, with a
// pause of `refresh_seconds` between requests. If the provider does not answer, known keys stay in
// use for `stale_seconds`; then tokens are refused with kUnavailable.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ssl/context.hpp>

#include "auth/auth.h"
#include "auth/claims.h"
#include "auth/jwks.h"
#include "base/clock.h"
#include "model/config.h"
#include "net/fetch.h"
#include "net/url.h"

namespace cloister::auth {

// Times of requests to the provider.
struct KeyTimes {
  std::chrono::seconds fresh{3600};
  std::chrono::seconds stale{86'400};
  std::chrono::seconds refresh{30};
  Millis timeout{5'000};
};

// A single owner thread. Must outlive all started operations (until its executor is gone).
class OidcTokens final : public TokenVerifier {
 public:
  // Gets the provider's key set, as text.
  using Fetch = std::function<Task<Result<std::string>>()>;

  OidcTokens(boost::asio::any_io_executor executor, TokenRules rules, KeyTimes times, Fetch fetch);

  Task<Result<Identity>> verify(std::string token) override;

 private:
  struct State;
  // The key set in which to look for the token's key.
  Task<Result<std::shared_ptr<const KeySet>>> keysFor(const Jwt& jwt);
  Task<void> refresh();
  static Task<void> ask(std::shared_ptr<State> state);
  [[nodiscard]] bool mayAsk(base::Monotonic now) const;

  TokenRules rules_;
  KeyTimes times_;
  std::shared_ptr<State> state_;
};

// A verifier with the configured provider's keys. Reads trusted authorities from disk, so call
// before the process gives up its view of the file system. kInvalid names the wrong key; nullptr
// without a provider.
Result<std::unique_ptr<OidcTokens>> openTokens(boost::asio::any_io_executor executor,
                                               const model::OidcSettings& config);

}  // namespace cloister::auth
