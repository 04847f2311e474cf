// SPDX-License-Identifier: Apache-2.0
#include "auth/web_sessions.h"

#include <algorithm>

#include "auth/auth.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "store/rows/ui_sessions.h"

namespace cloister::auth {
namespace {

constexpr size_t kCookieBytes = 32;
constexpr uint64_t kPerPerson = 64;
constexpr int64_t kLongestGrain = int64_t{60} * 1'000'000;
constexpr int64_t kGrains = 20;  // steps of the idle time

}  // namespace

std::string csrfOf(std::string_view cookie) {
  return base::sha256Hex("cloister csrf " + std::string(cookie));
}

int64_t WebSessions::grain() const {
  return std::clamp<int64_t>(rules_.idle / kGrains, 1, kLongestGrain);
}

NewWebSession WebSessions::made(model::Principal principal) const {
  NewWebSession made{.cookie = base::randomHex(kCookieBytes), .session = {}};
  store::UiSession& session = made.session;
  session.id = base::newId("uis");
  session.sha256 = base::sha256Hex(made.cookie);
  session.principal = std::move(principal);
  session.created_at = base::wallMicros();
  session.used_at = session.created_at;
  session.ends_at = session.created_at + rules_.life;
  return made;
}

NewWebSession WebSessions::ofKey(const model::Principal& holder) const {
  NewWebSession session = made(holder);
  session.session.person = holder.key_id;
  return session;
}

NewWebSession WebSessions::ofUser(const model::Principal& user, std::string_view subject) const {
  NewWebSession session = made(user);
  session.session.principal.key_id = session.session.id;
  session.session.issuer = rules_.issuer;
  session.session.person = "user_" + base::sha256Hex(rules_.issuer + "\n" + std::string(subject));
  return session;
}

store::UiSessionRoom WebSessions::room() const {
  return {.most = rules_.most,
          .per_person = kPerPerson,
          .unused_since = base::wallMicros() - rules_.idle - grain()};
}

bool WebSessions::lasts(const store::UiSession& session, int64_t now) const {
  return now < session.ends_at && now < session.used_at + rules_.idle + grain() &&
         (session.issuer.empty() || session.issuer == rules_.issuer);
}

int64_t WebSessions::endOf(const store::UiSession& session) const {
  // A life configured shorter since holds for sessions begun before, too.
  return std::min(session.ends_at, session.created_at + rules_.life);
}

Result<store::UiSession> WebSessions::find(std::string_view cookie, bool attended) {
  if (cookie.size() != 2 * kCookieBytes) return refused();
  const std::string hash = base::sha256Hex(cookie);
  auto session = TRY(store_.uiSessionByHash(hash));
  const int64_t now = base::wallMicros();
  // The look-up compares digests, so the order of the index reveals nothing of a cookie.
  if (!session || !base::equalSecret(session->sha256, hash)) return refused();
  session->ends_at = endOf(*session);
  if (!lasts(*session, now)) return refused();
  if (attended && now - session->used_at >= grain()) {
    store_.write(store::writing(store::noteUiSessionUse, session->id, now),
                 [](const Result<void>&) {});
  }
  return *std::move(session);
}

std::string WebSessions::referenceTo(const store::UiSession& session) {
  return session.id + "-" + base::sha256Hex("cloister replaces " + session.sha256);
}

Result<store::UiSession> WebSessions::referred(std::string_view reference) const {
  auto session = TRY(store_.uiSession(std::string(reference.substr(0, reference.find('-')))));
  if (!session || !base::equalSecret(referenceTo(*session), reference)) return refused();
  session->ends_at = endOf(*session);
  if (!lasts(*session, base::wallMicros())) return refused();
  return *std::move(session);
}

bool WebSessions::stands(const std::string& id) const {
  auto session = store_.uiSession(id);
  if (!session || !*session) return false;
  (*session)->ends_at = endOf(**session);
  return lasts(**session, base::wallMicros());
}

}  // namespace cloister::auth
