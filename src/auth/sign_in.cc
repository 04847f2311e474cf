// SPDX-License-Identifier: Apache-2.0
#include "auth/sign_in.h"

#include <algorithm>
#include <utility>

#include "auth/jwt.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/log.h"
#include "net/trust.h"

namespace cloister::auth {
namespace {

namespace asio = boost::asio;
namespace json = base::json;
using base::Monotonic;

constexpr std::string_view kDiscovery = "/.well-known/openid-configuration";
constexpr size_t kMaxDocument = size_t{256} << 10;
constexpr size_t kMaxCode = 4096;
constexpr size_t kMaxSecret = 4096;
constexpr uint32_t kMostExchanges = 16;
constexpr std::chrono::seconds kFirstRetry{1};

std::string derived(std::string_view what, const std::string& secret) {
  return base::sha256Hex("cloister sign-in " + std::string(what) + " " + secret);
}

// RFC 4648 §5 without padding.
std::string base64Url(std::string_view bytes) {
  std::string text = base::toBase64(bytes);
  while (text.ends_with('='))
    text.pop_back();
  for (char& c : text)
    c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

// RFC 7636 §4.2, S256.
std::string challengeOf(const std::string& verifier) {
  constexpr int kHex = 16;
  const std::string digits = base::sha256Hex(verifier);
  std::string digest;
  for (size_t at = 0; at + 1 < digits.size(); at += 2)
    digest += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, kHex));
  return base64Url(digest);
}

std::string form(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string text;
  for (const auto& [name, value] : fields)
    text += (text.empty() ? "" : "&") + name + "=" + net::percentEncode(value);
  return text;
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

Result<json::object> objectOf(std::string_view text) {
  json::value value = TRY(base::parseJson(text, {.max_bytes = kMaxDocument}));
  if (!value.is_object()) return fail(Code::kUnavailable, "it is no JSON object");
  return std::move(value.get_object());
}

bool lists(const json::object& object, std::string_view name, std::string_view wanted) {
  const json::value* found = object.if_contains(name);
  return found != nullptr && found->is_array() &&
         std::ranges::any_of(found->get_array(), [&](const json::value& each) {
           return each.is_string() && each.get_string() == wanted;
         });
}

std::unexpected<Error> unfit(const std::string& why) {
  return fail(Code::kUnavailable, "reading the provider's configuration: " + why);
}

Result<SignIn::Endpoints> endpointsOf(std::string_view text, const std::string& issuer, bool tls) {
  const json::object document = TRY(objectOf(text));
  if (textOf(document, "issuer") != issuer) return unfit("it is that of another issuer");
  SignIn::Endpoints at;
  at.authorization_text = textOf(document, "authorization_endpoint");
  at.authorization = TRY(net::parseUrl(at.authorization_text));
  at.token = TRY(net::parseUrl(textOf(document, "token_endpoint")));
  if (tls && (!at.token.tls || !at.authorization.tls)) {
    return unfit("its endpoints are not behind https://");
  }
  constexpr std::string_view kMethods = "token_endpoint_auth_methods_supported";
  at.secret_in_body = lists(document, kMethods, "client_secret_post") &&
                      !lists(document, kMethods, "client_secret_basic");
  const json::value* names = document.if_contains("authorization_response_iss_parameter_supported");
  at.names_issuer = names != nullptr && names->is_bool() && names->get_bool();
  return at;
}

// OpenID Connect Core 1.0 §3.1.3.7; the verifier has checked the signature and the times.
Result<SignedInUser> userOf(const std::string& token, model::Principal principal,
                            const std::string& client, const std::string& nonce) {
  const Jwt jwt = TRY(parseJwt(token));
  const std::string party = textOf(jwt.claims, "azp");
  const json::value* audience = jwt.claims.if_contains("aud");
  const bool many = audience != nullptr && audience->is_array() && audience->get_array().size() > 1;
  if (party.empty() ? many : party != client) return refused();
  if (!base::equalSecret(textOf(jwt.claims, "nonce"), nonce)) return refused();
  SignedInUser user{.principal = std::move(principal), .subject = textOf(jwt.claims, "sub")};
  if (user.subject.empty()) return refused();
  return user;
}

// Counts an operation while it is under way.
class Counted {
 public:
  explicit Counted(uint32_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  uint32_t& count_;
};

Result<std::string> readSecret(const std::string& path) {
  if (path.empty()) return "";
  constexpr const char* kKey = "auth.oidc.client_secret_file";
  auto text = base::readFile(path, kMaxSecret);
  if (!text) return fail(Code::kInvalid, std::string(kKey) + ": " + text.error().message, kKey);
  while (text->ends_with('\n') || text->ends_with('\r'))
    text->pop_back();
  if (!text->empty()) return text;
  return fail(Code::kInvalid, std::string(kKey) + ": the file is empty; write the secret into it",
              kKey);
}

Result<std::unique_ptr<SignIn>> openSignIn(const asio::any_io_executor& executor,
                                           const model::OidcSettings& config) {
  if (config.client_id.empty()) return nullptr;
  model::OidcSettings for_us = config;
  for_us.audience = {config.client_id};
  auto tokens = TRY(openTokens(executor, for_us));
  std::string base = config.issuer;
  while (base.ends_with('/'))
    base.pop_back();
  net::Url discovery = TRY(net::parseUrl(base + std::string(kDiscovery)));
  asio::ssl::context trusted = TRY(net::clientTls(config.ca_file, "auth.oidc.ca_file"));
  const KeyTimes times{.fresh = std::chrono::seconds(config.keys_seconds),
                       .timeout = Millis(config.fetch_timeout_ms)};
  SignIn::Client client{.issuer = config.issuer,
                        .id = config.client_id,
                        .secret = TRY(readSecret(config.client_secret_file))};
  return std::make_unique<SignIn>(std::move(client), std::move(discovery),
                                  std::make_shared<asio::ssl::context>(std::move(trusted)), times,
                                  std::move(tokens));
}

}  // namespace

SignIn::SignIn(Client client, net::Url discovery, std::shared_ptr<asio::ssl::context> tls,
               KeyTimes times, std::unique_ptr<TokenVerifier> tokens)
    : client_(std::move(client)),
      discovery_(std::move(discovery)),
      tls_(std::move(tls)),
      times_(times),
      tokens_(std::move(tokens)) {}

// Asks again after `fresh`, and not more often than every second.
Task<Result<SignIn::Endpoints>> SignIn::endpoints() {
  const Monotonic now = base::monotonicNow();
  if (known_ && now - *fetched_ < times_.fresh) co_return *known_;
  const bool pause = asked_ && now - *asked_ < kFirstRetry;
  if (!pause) {
    asked_ = now;
    const auto text = co_await net::fetch(discovery_, *tls_, {.timeout = times_.timeout});
    auto found =
        text ? endpointsOf(*text, client_.issuer, discovery_.tls) : std::unexpected(text.error());
    if (found) {
      known_ = *std::move(found);
      fetched_ = base::monotonicNow();
    } else {
      base::log(base::Level::kWarn, "identity provider cannot be had",
                {{"error", found.error().message}});
    }
  }
  if (known_) co_return *known_;
  co_return fail(Code::kUnavailable,
                 "the identity provider cannot be reached; retry, or sign in "
                 "with an API key");
}

bool isAnswerTo(std::string_view secret, std::string_view state) {
  return base::equalSecret(state, derived("state", std::string(secret)));
}

Task<Result<std::string>> SignIn::begin(std::string secret, std::string redirect_uri) {
  const Endpoints at = CO_TRY(co_await endpoints());
  const bool query = at.authorization_text.contains('?');
  co_return at.authorization_text + (query ? "&" : "?") +
      form({{"response_type", "code"},
            {"client_id", client_.id},
            {"redirect_uri", redirect_uri},
            {"scope", "openid"},
            {"state", derived("state", secret)},
            {"nonce", derived("nonce", secret)},
            {"code_challenge", challengeOf(derived("verifier", secret))},
            {"code_challenge_method", "S256"}});
}

// The ID token for a code (RFC 6749 §4.1.3).
Task<Result<std::string>> SignIn::exchange(const Endpoints& at, const std::string& secret,
                                           const std::string& redirect_uri,
                                           const std::string& code) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"grant_type", "authorization_code"},
      {"code", code},
      {"redirect_uri", redirect_uri},
      {"client_id", client_.id},
      {"code_verifier", derived("verifier", secret)}};
  net::Posted posted;
  if (!client_.secret.empty() && at.secret_in_body) {
    fields.emplace_back("client_secret", client_.secret);
  } else if (!client_.secret.empty()) {
    const std::string both =
        net::percentEncode(client_.id) + ":" + net::percentEncode(client_.secret);
    posted.headers.emplace_back("Authorization", "Basic " + base::toBase64(both));
  }
  posted.type = "application/x-www-form-urlencoded";
  posted.body = form(fields);
  constexpr int kOk = 200;
  constexpr int kBad = 400;
  const auto answer = CO_TRY(
      co_await net::postForAnswer(at.token, *tls_, std::move(posted), {.timeout = times_.timeout}));
  if (answer.head.status != kOk) {
    base::log(base::Level::kWarn, "identity provider gives no token for a code",
              {{"status", int64_t{answer.head.status}}});
    if (answer.head.status == kBad) co_return refused();
    co_return fail(Code::kUnavailable,
                   "the identity provider does not answer for this service; "
                   "check auth.oidc.client_id and client_secret_file");
  }
  const auto document = objectOf(answer.body);
  std::string token = document ? textOf(*document, "id_token") : "";
  if (token.empty()) co_return refused();
  co_return token;
}

Task<Result<SignedInUser>> SignIn::finish(std::string secret, std::string redirect_uri,
                                          CodeAnswer answer) {
  if (!isAnswerTo(secret, answer.state)) co_return refused();
  if (answer.code.empty() || answer.code.size() > kMaxCode) co_return refused();
  if (exchanging_ >= kMostExchanges) {
    co_return fail(Code::kQuota, "too many people sign in at once; retry");
  }
  const Counted counted(exchanging_);
  const Endpoints at = CO_TRY(co_await endpoints());
  if (answer.issuer.empty() ? at.names_issuer : answer.issuer != client_.issuer) {
    co_return refused();
  }
  const std::string token = CO_TRY(co_await exchange(at, secret, redirect_uri, answer.code));
  Identity who = CO_TRY(co_await tokens_->verify(token));
  if (who.principal.isOwn()) co_return refused();
  co_return userOf(token, std::move(who.principal), client_.id, derived("nonce", secret));
}

Result<Provider> openProvider(const asio::any_io_executor& executor,
                              const model::OidcSettings& config) {
  return Provider{.tokens = TRY(openTokens(executor, config)),
                  .sign_in = TRY(openSignIn(executor, config))};
}

}  // namespace cloister::auth
