// SPDX-License-Identifier: Apache-2.0
// Schema 19: an index for finding a key's successors without reading all keys of the tenant.
#pragma once

namespace cloister::store {

inline constexpr char kKeySuccessors[] = R"sql(
CREATE INDEX IF NOT EXISTS api_keys_by_replaced ON api_keys(replaces) WHERE replaces<>'';
)sql";

}  // namespace cloister::store
