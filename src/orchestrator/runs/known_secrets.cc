// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/known_secrets.h"

#include <algorithm>
#include <utility>

namespace cloister::orchestrator {

void KnownSecrets::add(const std::vector<redact::Secret>& secrets) {
  bool changed = false;
  for (const redact::Secret& each : secrets) {
    const auto same = [&](const redact::Secret& known) { return known.value == each.value; };
    if (std::ranges::any_of(secrets_, same)) continue;
    secrets_.push_back(each);
    changed = true;
  }
  if (changed) patterns_ = redact::Patterns::make(secrets_);
}

std::string KnownSecrets::redacted(const std::string& text) const {
  return patterns_ ? patterns_->redacted(text) : text;
}

void KnownSecrets::redact(base::json::value& value) const {
  if (!patterns_) return;
  if (base::json::string* text = value.if_string()) {
    *text = patterns_->redacted(std::string_view(*text));
  } else if (base::json::array* items = value.if_array()) {
    for (base::json::value& item : *items)
      redact(item);
  } else if (base::json::object* object = value.if_object()) {
    redactObject(*object);
  }
}

void KnownSecrets::redactObject(base::json::object& object) const {
  base::json::object safe;
  for (auto& member : object) {
    base::json::value& kept = safe[patterns_->redacted(std::string_view(member.key()))];
    kept = std::move(member.value());
    redact(kept);
  }
  object = std::move(safe);
}

}  // namespace cloister::orchestrator
