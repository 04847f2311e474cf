// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/legacy.h"

#include <algorithm>
#include <vector>

#include "base/id.h"

namespace cloister::api::mcp {
namespace {

constexpr size_t kIdBytes = 16;
constexpr Millis kBetweenLooks{1'000};

bool sameOwner(const model::Principal& a, const model::Principal& b) {
  return a.tenant == b.tenant && a.key_id == b.key_id && a.app == b.app && a.agent == b.agent &&
         a.user == b.user;
}

bool idle(const LegacySession& session) {
  return session.under_way.empty() && session.readers == 0;
}

}  // namespace

uint64_t LegacySession::keep(ExchangePtr exchange) {
  while (streams.size() >= kMaxStreams) {
    const auto ended =
        std::ranges::find_if(streams, [](const auto& each) { return each.second->ended(); });
    streams.erase(ended == streams.end() ? streams.begin() : ended);
  }
  streams.emplace_back(next_stream, std::move(exchange));
  return next_stream++;
}

ExchangePtr LegacySession::stream(uint64_t number) const {
  const auto found =
      std::ranges::find(streams, number, [](const auto& each) { return each.first; });
  return found == streams.end() ? nullptr : found->second;
}

LegacyPtr LegacySessions::open(const model::Principal& owner, std::string version,
                               json::object capabilities) {
  expire();
  if (!makeRoom(owner) || sessions_.size() >= bounds_.sessions) return nullptr;
  auto session = std::make_shared<LegacySession>();
  session->id = "mcp_" + base::randomHex(kIdBytes);
  session->version = std::move(version);
  session->capabilities = std::move(capabilities);
  session->owner = owner;
  session->used = base::monotonicNow();
  session->own = std::make_shared<Exchange>(executor_);
  sessions_.emplace(session->id, session);
  return session;
}

LegacyPtr LegacySessions::find(const std::string& id, const model::Principal& owner) {
  expire();
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !sameOwner(found->second->owner, owner)) return nullptr;
  found->second->used = base::monotonicNow();
  return found->second;
}

void LegacySessions::end(const LegacyPtr& session) {
  sessions_.erase(session->id);
  const auto under_way = std::exchange(session->under_way, {});
  for (const auto& [id, exchange] : under_way)
    exchange->cancel();
  session->own->end();
}

void LegacySessions::endLost(const std::function<bool(const auth::Credential&)>& stands) {
  std::map<std::pair<std::string, int64_t>, bool> known;
  std::vector<LegacyPtr> lost;
  for (const auto& [id, session] : sessions_) {
    if (session->under_way.empty()) continue;  // unreachable without the credential
    const auth::Credential of{session->owner.key_id, session->owner.ends_at};
    const auto [found, is_new] = known.try_emplace({of.id, of.ends_at}, true);
    if (is_new) found->second = stands(of);
    if (!found->second) lost.push_back(session);
  }
  for (const LegacyPtr& session : lost)
    end(session);
}

void LegacySessions::endStreams() {
  for (const auto& [id, session] : sessions_)
    session->own->end();
}

void LegacySessions::expire() {
  const base::Monotonic now = base::monotonicNow();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  std::erase_if(sessions_, [&](const auto& each) {
    return idle(*each.second) && now - each.second->used > bounds_.idle;
  });
}

// False if all of the owner's sessions are in use.
bool LegacySessions::makeRoom(const model::Principal& owner) {
  size_t own = 0;
  LegacyPtr oldest;
  for (const auto& [id, session] : sessions_) {
    if (!sameOwner(session->owner, owner)) continue;
    ++own;
    if (idle(*session) && (oldest == nullptr || session->used < oldest->used)) oldest = session;
  }
  if (own < bounds_.sessions_of_a_key) return true;
  if (oldest == nullptr) return false;
  end(oldest);
  return true;
}

}  // namespace cloister::api::mcp
