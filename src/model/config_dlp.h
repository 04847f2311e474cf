// SPDX-License-Identifier: Apache-2.0
// The reader of `dlp.rules` in the configuration's file.
#pragma once

#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "model/dlp_settings.h"

namespace cloister::model {

// kInvalid names the member, as `dlp.rules[0].in`. checkDlp() checks the values. May throw
// YAML::Exception.
Result<std::vector<DlpRule>> readDlpRules(const YAML::Node& node);

}  // namespace cloister::model
