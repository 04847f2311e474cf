// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/vault.h"

#include <algorithm>
#include <utility>

#include <sodium.h>

namespace cloister::egress {

void wipe(std::string& text) {
  ::sodium_memzero(text.data(), text.size());
  text.clear();
}

void SecretBytes::Free::operator()(char* bytes) const {
  ::sodium_free(bytes);  // wipes
}

Result<SecretBytes> SecretBytes::make(std::string_view value) {
  SecretBytes made;
  if (::sodium_init() >= 0) {
    made.bytes_.reset(static_cast<char*>(::sodium_malloc(std::max<size_t>(value.size(), 1))));
  }
  if (!made.bytes_) return fail(Code::kUnavailable, "keeping a secret: no locked memory");
  value.copy(made.bytes_.get(), value.size());
  made.size_ = value.size();
  return made;
}

Result<SecretValues> intoVault(std::vector<model::SecretValue> from) {
  SecretValues values;
  Result<> kept;
  for (model::SecretValue& each : from) {
    if (kept) {
      auto bytes = SecretBytes::make(each.value);
      if (bytes) {
        values[each.id] = std::make_shared<const SecretBytes>(*std::move(bytes));
      } else {
        kept = std::unexpected(std::move(bytes).error());
      }
    }
    wipe(each.value);
  }
  if (!kept) return std::unexpected(std::move(kept).error());
  return values;
}

}  // namespace cloister::egress
