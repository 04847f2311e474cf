// SPDX-License-Identifier: Apache-2.0
// The reader of `packages.tenants` in the configuration's file.
#pragma once

#include <functional>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "model/config.h"

namespace cloister::model {

// Reads a map of members of `packages.rules` into the same member of a configuration.
using ApplyRules = std::function<Result<>(const YAML::Node& rules, Config& own)>;
// `packages.tenants.NAME.rules`: members of `packages.rules` for one tenant; the others are
// `config`'s, whose own rules are read before. kInvalid names the tenant. May throw
// YAML::Exception.
Result<> readTenantRules(const YAML::Node& file, const ApplyRules& apply, Config& config);

}  // namespace cloister::model
