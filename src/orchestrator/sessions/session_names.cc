// SPDX-License-Identifier: Apache-2.0
// Names of sessions. A name belongs to an agent while the agent has a session of that name that has
// not begun to end. An ended session is found by its name until another takes the name.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/id.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {
namespace {

constexpr char kNameField[] = "name";

// Neither a tenant nor an agent has a NUL in its name.
std::string keyOf(const model::Principal& by, const std::string& name) {
  constexpr std::string_view kNul("\0", 1);
  return by.tenant + std::string(kNul) + by.agent + std::string(kNul) + name;
}

}  // namespace

Result<> Sessions::Impl::holdName(LiveSession& session) {
  const model::Session& record = session.record;
  if (record.name.empty()) return {};
  const std::string key = keyOf(record.principal, record.name);
  const auto [there, taken] = names.try_emplace(key, record.id);
  if (!taken) {
    return fail(Code::kConflict,
                "name: \"" + record.name + "\" is the name of session " + there->second +
                    "; use that session, end it, or choose another name",
                kNameField);
  }
  session.name_held = std::shared_ptr<void>(nullptr, [weak = weak_from_this(), key](void*) {
    if (const auto self = weak.lock()) self->names.erase(key);
  });
  return {};
}

Result<std::string> Sessions::Impl::idOf(const model::Principal& principal,
                                         const std::string& name) const {
  if (base::isId("ses", name) || !model::checkSessionName(name, kNameField)) return name;
  if (const auto own = names.find(keyOf(principal, name)); own != names.end()) return own->second;
  std::vector<std::string> others;
  for (const auto& [key, id] : names) {
    const auto found = live.find(id);
    const bool visible = found != live.end() && principal.sees(found->second->record.principal);
    if (visible && found->second->record.name == name) others.push_back(id);
  }
  if (others.size() > 1) {
    return fail(Code::kConflict, "several agents have a session \"" + name + "\" (" + others[0] +
                                     ", " + others[1] + "); give its id");
  }
  if (!others.empty()) return others[0];
  return control->store.sessionNamed(principal, name).value_or(name);
}

Result<std::string> Sessions::idOf(const model::Principal& principal,
                                   const std::string& name) const {
  return impl_->idOf(principal, name);
}

}  // namespace cloister::orchestrator
