// SPDX-License-Identifier: Apache-2.0
// JSON from clients: accepted text is written back with the same meaning. Numbers other than
// integers are only read back: the library reads them to within the last digit.
#include "base/json.h"

#include <algorithm>

#include "require.h"

using cloister::base::isUtf8;
using cloister::base::parseJson;
using cloister::base::toJson;

namespace {

namespace json = cloister::base::json;

bool hasDouble(const json::value& value) {
  if (const json::array* array = value.if_array()) return std::ranges::any_of(*array, hasDouble);
  if (const json::object* object = value.if_object())
    return std::ranges::any_of(*object, [](const auto& m) { return hasDouble(m.value()); });
  return value.is_double();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = parseJson(text);
  if (!value) {
    REQUIRE(!value.error().message.empty());
    return 0;
  }
  REQUIRE(isUtf8(text));
  const auto again = parseJson(toJson(*value));
  REQUIRE(again);
  if (!hasDouble(*value)) REQUIRE(*again == *value);
  return 0;
}
