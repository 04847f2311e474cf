// SPDX-License-Identifier: Apache-2.0
// Credentials → Principal. An API key is clo_<64 hex digits> (256 random bits), shown once. Only
// its SHA-256 is kept: a key of that length cannot be guessed, so a slow hash would add nothing but
// load. Anything with two dots in it is a token of the OpenID provider, if there is one (tokens.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "auth/attempts.h"
#include "auth/certificates.h"
#include "auth/credential.h"
#include "base/network.h"
#include "base/result.h"
#include "model/principal.h"
#include "store/store.h"

namespace cloister::auth {

template <class T>
using Task = boost::asio::awaitable<T>;

// The name of the record of admin.key; no other key may have it.
inline constexpr std::string_view kAdminKeyName = "admin.key";

struct NewKey {
  std::string secret;  // to show once
  store::KeyRecord record;
};

// A fresh key for `principal`; the caller stores the record.
NewKey makeKey(model::Principal principal, std::string name, int64_t expires_at);
// The record for a secret that exists already (admin.key).
store::KeyRecord recordFor(std::string_view secret, model::Principal principal, std::string name);

// Tokens of an identity provider; see tokens.h.
class TokenVerifier {
 public:
  virtual ~TokenVerifier() = default;
  // kUnauthorized, in the one constant message, for whatever is wrong with the token; kDenied, told
  // plainly, for a good token whose claims give nothing here.
  virtual Task<Result<Identity>> verify(std::string token) = 0;
};

struct AuthOptions {
  uint32_t failures_per_minute = 120;  // of one peer; then it is told to wait
  TokenVerifier* tokens = nullptr;     // outlives the authenticator
  std::string resource = {};           // the URL of this service; "" without a provider
  std::string issuer = {};             // where its tokens come from
  Certificates certificates = {};
};

// kUnauthorized with one constant message, whatever is wrong, so that a caller learns nothing about
// keys that exist.
std::unexpected<Error> refused();

// Not thread-safe: one owner thread.
class Authenticator {
 public:
  explicit Authenticator(store::Store& store, AuthOptions options = {});

  // The principal of a key or a token. A peer (none: over a Unix socket) that offered too many
  // wrong ones gets kQuota for further wrong ones, and for what somebody could have guessed without
  // its being looked at. A key or token of full strength is looked at all the same: whoever shares
  // an address with a guesser (a proxy's, loopback) is not shut out by that.
  Task<Result<Identity>> identify(std::string_view credential, std::optional<base::Address> peer);
  // The principal of a client's certificate, which TLS has verified; else refused().
  [[nodiscard]] Result<Identity> identify(const ClientCertificate& certificate) const;
  // The principal of a key that is known, not expired, not revoked and good for that peer; else
  // refused(). Answers are cached for a second; revocation calls forget().
  Result<model::Principal> authenticate(std::string_view secret,
                                        std::optional<base::Address> peer = std::nullopt);
  void forget();
  // Called by forget(): what was begun with credentials is to be looked at.
  void onChange(std::function<void()> changed) { changed_ = std::move(changed); }
  // Whether what was begun with `credential` may go on: it is neither revoked nor at its end, or
  // was rotated to one that is not. Asks the ledger; if that cannot be read, no.
  [[nodiscard]] bool stands(const Credential& credential) const;
  [[nodiscard]] const AuthOptions& options() const { return options_; }

 private:
  struct Entry {
    model::Principal principal;
    int64_t until = 0;  // wall microseconds
    int64_t expires_at = 0;
    std::vector<base::Network> networks;
  };
  Result<const Entry*> find(const std::string& hash, int64_t now);
  void noteUse(const store::KeyRecord& record, int64_t now);

  store::Store& store_;
  AuthOptions options_;
  Attempts attempts_;
  std::function<void()> changed_ = [] {};
  std::map<std::string, Entry, std::less<>> cache_;  // by hash; bounded
};

}  // namespace cloister::auth
