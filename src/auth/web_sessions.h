// SPDX-License-Identifier: Apache-2.0
// Sessions of people in browsers: a cookie of 256 random bits in place of a key or a token. The
// ledger keeps the SHA-256 of the cookie, so sessions survive a restart. A session by a key follows
// the key: the rights are the key's, and the session ends with the key. One owner thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "auth/credential.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::auth {

struct WebSessionRules {
  int64_t life = int64_t{28'800} * 1'000'000;  // microseconds, from signing in
  int64_t idle = int64_t{3'600} * 1'000'000;   // microseconds, without a request
  uint64_t most = 10'000;                      // at once, of all people
  std::string issuer = {};                     // sessions by other providers have ended
};

// A session, with the cookie to give to the browser.
struct NewWebSession {
  std::string cookie;
  store::UiSession session;
};

class WebSessions {
 public:
  WebSessions(store::Store& store, WebSessionRules rules)
      : store_(store), rules_(std::move(rules)) {}

  // A session for the holder of a key. The caller stores the record with room().
  [[nodiscard]] NewWebSession ofKey(const model::Principal& holder) const;
  // A session for the user `subject` of the provider.
  [[nodiscard]] NewWebSession ofUser(const model::Principal& user, std::string_view subject) const;
  [[nodiscard]] store::UiSessionRoom room() const;

  // The session of a cookie; refused() for an unknown or ended one. Notes the use, unless the page
  // asks by itself (`attended` is false).
  Result<store::UiSession> find(std::string_view cookie, bool attended = true);
  // A text by which a sign-in under way refers to the session that it will replace, where the
  // session's cookie cannot come along. Nobody makes the text of another browser's session: it
  // needs the cookie's digest.
  [[nodiscard]] static std::string referenceTo(const store::UiSession& session);
  // The session of such a text; refused() for any other text, and for an ended session.
  [[nodiscard]] Result<store::UiSession> referred(std::string_view reference) const;
  // Whether the session `id` lasts; false if the ledger cannot be read.
  [[nodiscard]] bool stands(const std::string& id) const;
  [[nodiscard]] bool lasts(const store::UiSession& session, int64_t now) const;
  [[nodiscard]] int64_t endOf(const store::UiSession& session) const;

 private:
  [[nodiscard]] NewWebSession made(model::Principal principal) const;
  // Uses are noted in steps of this length; an idle session may so last longer by one step.
  [[nodiscard]] int64_t grain() const;

  store::Store& store_;
  WebSessionRules rules_;
};

// The token that a page shows beside the cookie, in X-CSRF-Token. Other sites' pages do not know
// the token, and the token does not give away the cookie.
std::string csrfOf(std::string_view cookie);

}  // namespace cloister::auth
