// SPDX-License-Identifier: Apache-2.0
// The keys of the configuration's file, and the members of Config that they set. Internal to
// config.cc, which reads the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/config.h"

namespace cloister::model::config_file {

using Names = std::vector<std::string>;
using TextMap = std::map<std::string, std::string>;
using NamesMap = std::map<std::string, Names>;
using RulesOfTenants = std::map<std::string, PackageRules>;
// A value of `refuse` or `allow`.
struct Allowed {
  bool* value;
};
// Destination of a value; the type determines the form in the file.
using Target = std::variant<std::string*, Names*, Durability*, Accelerator*, Vmm*, OnRevoke*, bool*,
                            uint32_t*, uint64_t*, std::chrono::milliseconds*, Allowed,
                            RulesOfTenants*, TextMap*, NamesMap*, std::vector<DlpRule>*>;

struct Key {
  std::string_view path;
  Target (*target)(Config&);
  std::string_view unit = {};
  uint64_t min = 0;  // of numbers, in `unit`
  uint64_t max = 0;
  uint64_t scale = 1;  // file value × scale = stored value
};

std::span<const Key> keys();

}  // namespace cloister::model::config_file
