// SPDX-License-Identifier: Apache-2.0
// Schema 22: dependency layers, and their bills of materials.
#pragma once

namespace cloister::store {

inline constexpr char kLayers[] = R"sql(
CREATE TABLE layers(
  key  TEXT PRIMARY KEY,
  body TEXT NOT NULL  -- JSON
) STRICT;
CREATE TABLE bills(
  sha256 TEXT PRIMARY KEY,
  body   TEXT NOT NULL  -- CycloneDX
) STRICT;
)sql";

}  // namespace cloister::store
