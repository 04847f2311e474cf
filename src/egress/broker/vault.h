// SPDX-License-Identifier: Apache-2.0
// The values of brokered secrets in the memory of cloister-egress: locked into memory and left out
// of core dumps as far as the platform lets, with guard pages around, and wiped at the end. One
// thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/secret.h"

namespace cloister::egress {

// Overwrites the text, so that its freed memory says nothing.
void wipe(std::string& text);

class SecretBytes {
 public:
  // kUnavailable: no memory.
  static Result<SecretBytes> make(std::string_view value);

  [[nodiscard]] std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(char* bytes) const;
  };
  std::unique_ptr<char, Free> bytes_;
  size_t size_ = 0;
};

// The values of a permit, by the id of their use (model::PlanSecret::id).
using SecretValues = std::map<std::string, std::shared_ptr<const SecretBytes>, std::less<>>;

// Takes the values, and wipes `from`. kUnavailable: no memory; nothing is kept.
Result<SecretValues> intoVault(std::vector<model::SecretValue> from);

}  // namespace cloister::egress
