// SPDX-License-Identifier: Apache-2.0
#include "auth/tokens.h"

#include <algorithm>
#include <list>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/crypto.h"
#include "base/log.h"
#include "net/trust.h"

namespace cloister::auth {
namespace {

namespace asio = boost::asio;
using base::Monotonic;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kDiscovery = "/.well-known/openid-configuration";
constexpr int64_t kMicros = 1'000'000;
constexpr std::chrono::seconds kFirstRetry{1};
constexpr size_t kNameDigits = 16;

// A name as a provider would choose: no path, no URL, no query.
bool isOrdinaryName(std::string_view kid) {
  return std::ranges::all_of(kid, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == '=';
  });
}

// The URL of the key set (OpenID Connect Discovery 1.0 §4.3).
Result<net::Url> keysOf(std::string_view document, const std::string& issuer) {
  const base::json::value value = TRY(base::parseJson(document, {.max_bytes = size_t{256} << 10}));
  const auto text = [&](std::string_view name) -> std::string {
    const auto* found = value.is_object() ? value.get_object().if_contains(name) : nullptr;
    return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
  };
  if (text("issuer") != issuer) {
    return fail(Code::kUnavailable,
                "reading the provider's configuration: it is that of another issuer");
  }
  return net::parseUrl(text("jwks_uri"));
}

Task<Result<std::string>> fetchKeys(net::Url discovery, std::string issuer,
                                    std::shared_ptr<asio::ssl::context> tls,
                                    net::FetchLimits limits) {
  const std::string document = CO_TRY(co_await net::fetch(discovery, *tls, limits));
  const net::Url keys = CO_TRY(keysOf(document, issuer));
  if (discovery.tls && !keys.tls) {
    co_return fail(Code::kUnavailable,
                   "reading the provider's configuration: its keys are not "
                   "behind https://");
  }
  co_return co_await net::fetch(keys, *tls, limits);
}

// Registers a waiter for the lifetime of this object.
class Waiting {
 public:
  Waiting(std::list<asio::steady_timer*>& all, asio::steady_timer& timer)
      : all_(all), at_(all.insert(all.end(), &timer)) {}
  ~Waiting() { all_.erase(at_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::list<asio::steady_timer*>& all_;
  std::list<asio::steady_timer*>::iterator at_;
};

}  // namespace

struct OidcTokens::State {
  asio::any_io_executor executor;
  Fetch fetch;
  std::shared_ptr<const KeySet> keys = nullptr;
  Monotonic fetched = {};
  std::optional<Monotonic> asked = std::nullopt;
  bool asking = false;
  std::list<asio::steady_timer*> waiting = {};  // for the answer
};

OidcTokens::OidcTokens(asio::any_io_executor executor, TokenRules rules, KeyTimes times,
                       Fetch fetch)
    : rules_(std::move(rules)),
      times_(times),
      state_(std::make_shared<State>(State{std::move(executor), std::move(fetch)})) {}

Task<Result<Identity>> OidcTokens::verify(std::string token) {
  const auto jwt = parseJwt(token);
  if (!jwt) co_return refused();
  if (std::ranges::count(rules_.algorithms, jwt->algorithm) == 0) co_return refused();
  // Check claims before the signature: a hopeless token then costs no request and no arithmetic.
  if (!checkClaims(jwt->claims, rules_, base::wallMicros() / kMicros)) co_return refused();
  const auto keys = co_await keysFor(*jwt);
  if (!keys) co_return std::unexpected(keys.error());
  const auto key = (*keys)->find(jwt->kid);
  if (key == (*keys)->end() || key->second.algorithm() != jwt->algorithm ||
      !key->second.verify(jwt->signed_text, jwt->signature)) {
    co_return refused();
  }
  const auto end = endOf(jwt->claims, rules_);
  if (!end) co_return refused();
  Identity who{.principal = CO_TRY(principalOf(jwt->claims, rules_)), .ends_at = *end * kMicros};
  who.principal.key_id = "jwt_" + base::sha256Hex(token).substr(0, kNameDigits);
  co_return who;
}

bool OidcTokens::mayAsk(Monotonic now) const {
  const auto pause = state_->keys ? times_.refresh : std::min(times_.refresh, kFirstRetry);
  return !state_->asked || now - *state_->asked >= pause;
}

// Keys to look for the token's key in.
Task<Result<std::shared_ptr<const KeySet>>> OidcTokens::keysFor(const Jwt& jwt) {
  const auto state = state_;
  const auto old = [&] { return base::monotonicNow() - state->fetched; };
  const bool missing = !state->keys || !state->keys->contains(jwt.kid);
  const bool wanted = !state->keys || old() >= times_.fresh || (missing && isOrdinaryName(jwt.kid));
  if (wanted) co_await refresh();
  if (!state->keys || old() >= times_.fresh + times_.stale) {
    co_return fail(Code::kUnavailable,
                   "the identity provider's keys cannot be had; tokens cannot be checked");
  }
  co_return state->keys;
}

// Sends a single request for all waiters. No waiter waits longer than an answer may take.
Task<void> OidcTokens::refresh() {
  const auto state = state_;
  if (!state->asking) {
    if (!mayAsk(base::monotonicNow())) co_return;
    state->asking = true;
    state->asked = base::monotonicNow();
    asio::co_spawn(state->executor, ask(state), asio::detached);
  }
  asio::steady_timer patience(state->executor, times_.timeout);
  const Waiting waiting(state->waiting, patience);
  co_await patience.async_wait(kTuple);
}

Task<void> OidcTokens::ask(std::shared_ptr<State> state) {
  co_await asio::post(state->executor, asio::use_awaitable);  // so that the asking coroutine waits
                                                              // by then
  const auto text = co_await state->fetch();
  auto keys = text ? parseKeySet(*text) : std::unexpected(text.error());
  if (keys) {
    base::log(base::Level::kInfo, "identity provider's keys",
              {{"keys", static_cast<int64_t>(keys->size())}});
    state->keys = std::make_shared<const KeySet>(*std::move(keys));
    state->fetched = base::monotonicNow();
  } else {
    base::log(base::Level::kWarn, "identity provider's keys cannot be had",
              {{"error", keys.error().message}});
  }
  state->asking = false;
  for (asio::steady_timer* timer : state->waiting)
    timer->cancel();
}

Result<std::unique_ptr<OidcTokens>> openTokens(asio::any_io_executor executor,
                                               const model::OidcSettings& config) {
  if (config.issuer.empty()) return nullptr;
  const TokenRules rules = TRY(TokenRules::from(config));
  std::string base = config.issuer;
  while (base.ends_with('/'))
    base.pop_back();
  auto discovery = net::parseUrl(base + std::string(kDiscovery));
  if (!discovery) {
    return fail(Code::kInvalid, "auth.oidc.issuer: " + discovery.error().message,
                "auth.oidc.issuer");
  }
  asio::ssl::context trusted = TRY(net::clientTls(config.ca_file, "auth.oidc.ca_file"));
  const auto tls = std::make_shared<asio::ssl::context>(std::move(trusted));
  const KeyTimes times{.fresh = std::chrono::seconds(config.keys_seconds),
                       .stale = std::chrono::seconds(config.stale_seconds),
                       .refresh = std::chrono::seconds(config.refresh_seconds),
                       .timeout = Millis(config.fetch_timeout_ms)};
  const net::FetchLimits limits{.timeout = times.timeout};
  auto how = [=, url = *discovery, issuer = config.issuer]() -> Task<Result<std::string>> {
    return fetchKeys(url, issuer, tls, limits);
  };
  return std::make_unique<OidcTokens>(std::move(executor), rules, times, std::move(how));
}

}  // namespace cloister::auth
