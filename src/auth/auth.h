// SPDX-License-Identifier: Apache-2.0
// Credentials → Principal. An API key is clo_<64 hex digits> (256 random bits), or e2b_ with as
// many digits, shown once. Only its SHA-256 is kept: a key of this length cannot be guessed, so a
// slow hash would add nothing but load. A credential with two dots is a token of the OpenID
// provider, if one is configured (tokens.h).
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
#include "auth/web_sessions.h"
#include "base/network.h"
#include "base/result.h"
#include "model/principal.h"
#include "store/store.h"

namespace cloister::auth {

template <class T>
using Task = boost::asio::awaitable<T>;

// The name of admin.key's record; no other key may have the name.
inline constexpr std::string_view kAdminKeyName = "admin.key";

struct NewKey {
  std::string secret;  // to show once
  store::KeyRecord record;
};

// The prefix of a key's secret. Some clients of other services check the prefix.
enum class KeyFormat : uint8_t { kCloister, kE2b };  // clo_, e2b_
// "cloister" or "e2b".
std::optional<KeyFormat> keyFormatFromName(std::string_view name);

// A fresh key for `principal`; the caller stores the record.
NewKey makeKey(model::Principal principal, std::string name, int64_t expires_at,
               KeyFormat format = KeyFormat::kCloister);
// The record for an existing secret (admin.key).
store::KeyRecord recordFor(std::string_view secret, model::Principal principal, std::string name);

// Tokens of an identity provider; see tokens.h.
class TokenVerifier {
 public:
  virtual ~TokenVerifier() = default;
  // kUnauthorized with the constant message for any defect of the token; kDenied with the reason
  // for a valid token without rights here.
  virtual Task<Result<Identity>> verify(std::string token) = 0;
};

class SignIn;  // sign_in.h

struct AuthOptions {
  uint32_t failures_per_minute = 120;  // of a peer; afterwards the peer must wait
  TokenVerifier* tokens = nullptr;     // outlives the authenticator
  std::string resource = {};           // the URL of this service; "" without a provider
  std::string issuer = {};             // issuer of its tokens
  Certificates certificates = {};
  WebSessionRules web = {};
  SignIn* sign_in = nullptr;  // through the provider, for people; outlives the authenticator
};

// kUnauthorized with a constant message, whatever is wrong, so that a caller learns nothing about
// existing keys.
std::unexpected<Error> refused();

// Not thread-safe: a single owner thread.
class Authenticator {
 public:
  explicit Authenticator(store::Store& store, AuthOptions options = {});

  // The principal of a key or a token. After too many wrong credentials, a peer (none: over a Unix
  // socket) gets kQuota for further wrong ones, and for any credential weak enough to guess, which
  // is then not checked. A key or token of full strength is always checked, so that users who share
  // an address with a guesser (a proxy's, loopback) are not locked out.
  Task<Result<Identity>> identify(std::string_view credential, std::optional<base::Address> peer);
  // The principal of a client's certificate verified by TLS; else refused().
  [[nodiscard]] Result<Identity> identify(const ClientCertificate& certificate) const;
  // The principal of a browser's session, by its cookie; refused() also if the key of the session
  // is no longer good, or not good for the peer. `attended`: as in WebSessions::find().
  Result<Identity> identifyCookie(std::string_view cookie, std::optional<base::Address> peer,
                                  bool attended);
  [[nodiscard]] WebSessions& sessions() { return sessions_; }
  // The principal of a known key, neither expired nor revoked, and valid for the peer; else
  // refused(). Answers are cached for a second; revocation calls forget().
  Result<model::Principal> authenticate(std::string_view secret,
                                        std::optional<base::Address> peer = std::nullopt);
  // The principal of a key by its id, for tokens that the service made for the key's holder;
  // refused() as for authenticate(). An expired key that was rotated to a valid key still counts.
  [[nodiscard]] Result<model::Principal> holderOf(const std::string& key_id,
                                                  std::optional<base::Address> peer) const;
  // For credentials that are costly to check, such as signatures without a name: kQuota for a peer
  // with too many wrong ones, which noteWrong() counts.
  [[nodiscard]] Result<> mayTry(std::optional<base::Address> peer);
  void noteWrong(std::optional<base::Address> peer);
  void forget();
  // `changed` is called by forget(), so that work begun with credentials is checked again.
  void onChange(std::function<void()> changed) { changed_ = std::move(changed); }
  // Whether work begun with `credential` may continue: the credential is neither revoked nor
  // expired, or was rotated to a valid one. Asks the ledger; false if the ledger cannot be read.
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
  WebSessions sessions_;
  std::function<void()> changed_ = [] {};
  std::map<std::string, Entry, std::less<>> cache_;  // by hash; bounded
};

}  // namespace cloister::auth
