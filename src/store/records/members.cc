// SPDX-License-Identifier: Apache-2.0
#include "store/records/members.h"

namespace cloister::store {

json::value anyBytes(const std::string& bytes) {
  if (base::isUtf8(bytes)) return json::string(bytes);
  return json::object{{"base64", base::toBase64(bytes)}};
}

std::chrono::milliseconds millis(Members& from, std::string_view name) {
  int64_t count = 0;
  from.integer(name, count);
  return std::chrono::milliseconds(count);
}

}  // namespace cloister::store
