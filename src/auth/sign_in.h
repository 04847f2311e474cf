// SPDX-License-Identifier: Apache-2.0
// Signing in through the OpenID Connect provider: the authorization code flow (OpenID Connect Core
// 1.0 §3.1) with PKCE (RFC 7636, S256). `state`, `nonce` and the verifier are digests of a secret
// that a cookie binds to the browser, so the service keeps nothing between the two requests. The
// ID token is checked like any other token of the provider, for the audience `client_id`.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ssl/context.hpp>

#include "auth/tokens.h"
#include "model/config.h"

namespace cloister::auth {

// The parameters of the provider's redirect to us.
struct CodeAnswer {
  std::string code;
  std::string state;
  std::string issuer;  // RFC 9207; "": the provider sends none
};

// The user of a verified ID token.
struct SignedInUser {
  model::Principal principal;
  std::string subject;  // `sub`
};

// Whether `state`, of the provider's answer, is the one that begin() derived from `secret`.
bool isAnswerTo(std::string_view secret, std::string_view state);

// A single owner thread. Must outlive all started operations.
class SignIn {
 public:
  struct Client {
    std::string issuer;
    std::string id;
    std::string secret;  // "": a public client
  };
  // The provider's endpoints (OpenID Connect Discovery 1.0 §3).
  struct Endpoints {
    net::Url authorization;
    std::string authorization_text;
    net::Url token;
    bool secret_in_body = false;  // client_secret_post is the only method that the provider takes
    bool names_issuer = false;    // RFC 9207: every answer has `iss`
  };

  SignIn(Client client, net::Url discovery, std::shared_ptr<boost::asio::ssl::context> tls,
         KeyTimes times, std::unique_ptr<TokenVerifier> tokens);

  // The provider's URL for the browser. kUnavailable if the provider cannot be reached.
  Task<Result<std::string>> begin(std::string secret, std::string redirect_uri);
  // The user, by the provider's answer to the browser with `secret`. refused() for any defect;
  // kDenied for a user without rights here; kQuota with too many exchanges under way.
  Task<Result<SignedInUser>> finish(std::string secret, std::string redirect_uri,
                                    CodeAnswer answer);

 private:
  Task<Result<Endpoints>> endpoints();
  Task<Result<std::string>> exchange(const Endpoints& at, const std::string& secret,
                                     const std::string& redirect_uri, const std::string& code);

  Client client_;
  net::Url discovery_;
  std::shared_ptr<boost::asio::ssl::context> tls_;
  KeyTimes times_;
  std::unique_ptr<TokenVerifier> tokens_;
  std::optional<Endpoints> known_;
  std::optional<base::Monotonic> asked_;
  std::optional<base::Monotonic> fetched_;
  uint32_t exchanging_ = 0;
};

// The configured provider; null without.
struct Provider {
  std::unique_ptr<OidcTokens> tokens;
  std::unique_ptr<SignIn> sign_in;  // null without auth.oidc.client_id
};

// Reads the client's secret and trusted authorities from disk, as openTokens(). kInvalid names the
// wrong key.
Result<Provider> openProvider(const boost::asio::any_io_executor& executor,
                              const model::OidcSettings& config);

}  // namespace cloister::auth
