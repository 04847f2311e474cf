// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/executions: an accepted body is within its bounds and survives its own
// canonical form.
#include "model/run_request.h"

#include "base/json.h"

#include "require.h"

using namespace cloister;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const model::RequestBounds bounds = model::defaultBounds();
  const auto value = base::parseJson({reinterpret_cast<const char*>(data), size});
  if (!value || !value->is_object()) return 0;
  const auto request = model::parseRunRequest(value->get_object(), bounds);
  if (!request) {
    REQUIRE(!request.error().message.empty());
    return 0;
  }
  REQUIRE(request->limits.wall <= bounds.max.wall && request->limits.wall.count() > 0);
  REQUIRE(request->limits.memory_bytes <= bounds.max.memory_bytes);
  REQUIRE(request->limits.pids <= bounds.max.pids && request->limits.pids > 0);
  REQUIRE(request->files.size() <= bounds.files);
  for (const auto& file : request->files) {
    REQUIRE(!file.path.empty() && file.path.front() != '/');
    REQUIRE(("/" + file.path + "/").find("/../") == std::string::npos);
    REQUIRE(file.path.find('\0') == std::string::npos);
  }
  const auto canonical = model::toJsonObject(*request);
  model::RequestBounds stored = bounds;
  stored.own_metadata = true;
  const auto again = model::parseRunRequest(canonical, stored);
  REQUIRE(again);
  REQUIRE(model::toJsonObject(*again) == canonical);
  return 0;
}
