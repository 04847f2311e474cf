// SPDX-License-Identifier: Apache-2.0
// KnownSecrets: the secrets that programs of one sandbox may know, so that records of the sandbox
// are kept without them. A session keeps every secret that any of its programs got: a program may
// have left it in a file for a later one. On the services' executor (one thread).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "redact/matcher.h"

namespace cloister::orchestrator {

class KnownSecrets {
 public:
  void add(const std::vector<redact::Secret>& secrets);
  // Null while there are none. Another value after add().
  [[nodiscard]] const std::shared_ptr<const redact::Patterns>& patterns() const {
    return patterns_;
  }
  [[nodiscard]] std::string redacted(const std::string& text) const;
  // All texts and names of members.
  void redact(base::json::value& value) const;

 private:
  void redactObject(base::json::object& object) const;

  std::vector<redact::Secret> secrets_;
  std::shared_ptr<const redact::Patterns> patterns_;
};

}  // namespace cloister::orchestrator
