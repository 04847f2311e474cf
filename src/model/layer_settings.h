// SPDX-License-Identifier: Apache-2.0
// Settings of dependency layers, keys of `packages` beside those of the gateway (packages.h).
#pragma once

#include <cstdint>

namespace cloister::model {

struct LayerSettings {
  uint32_t advisories_seconds = 60;  // between looks at `packages.advisories`, at requests alone
  // Of the layers that a tenant has had made; the longest unused ones go first.
  uint32_t per_tenant = 100;
  uint64_t mb_per_tenant = 4096;
};

}  // namespace cloister::model
