// SPDX-License-Identifier: Apache-2.0
// The configuration of cloisterd, judged without serving: for `cloister serve --check`. The files
// that the configuration names are read; nothing is written.
#pragma once

#include <string>

#include "base/result.h"
#include "model/config.h"
#include "policy/command/levels.h"

namespace cloister {

// Everything of the configuration that cloisterd would refuse at a start. An error names the key,
// in `field` too. Call before any thread is started.
Result<> judgeConfig(const model::Config& config);

// The parts that a start checks as well.
Result<> checkDefaultLevel(const model::Config& config, const policy::Levels& levels);
Result<> checkAdvisories(const std::string& folder);

}  // namespace cloister
