// SPDX-License-Identifier: Apache-2.0
#include "policy/command/programs.h"
#include "policy/command/tables.h"

namespace cloister::policy {

Variable variableNamed(std::string_view name) {
  if (const Variable* what = kVariables.find(name)) return *what;
  for (const VariableStart& each : kVariableStarts) {
    if (name.starts_with(each.start)) return each.what;
  }
  return Variable::kPlain;
}

}  // namespace cloister::policy
