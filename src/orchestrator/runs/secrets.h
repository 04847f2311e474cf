// SPDX-License-Identifier: Apache-2.0
// The secrets of a request, read from the ledger when its sandbox or program starts: values for the
// program's environment and files, and brokered ones for the plan of the network. Values live here,
// in the program's order to the node, and in KnownSecrets; no record has them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/exec_spec.h"
#include "model/secret.h"
#include "redact/matcher.h"
#include "store/store.h"

namespace cloister::orchestrator {

struct Variable {
  std::string name;
  std::string value;
};

struct SecretsInUse {
  std::vector<Variable> variables;  // values, and placeholders of brokered ones
  std::vector<model::FileSpec> files;
  std::vector<model::PlanSecret> brokered;
  std::vector<model::SecretValue> values;  // of `brokered`, by id
  std::vector<redact::Secret> known;       // all of them
  std::vector<std::string> names;
  base::json::array shown;  // {name, version, as, host} of each, for records
};

// kInvalid names the member of `secrets`: there is no such secret, it has expired, or its value
// does not fit the use.
Result<SecretsInUse> loadSecrets(store::Store& store, const std::string& tenant,
                                 const std::vector<model::SecretUse>& uses, int64_t now);

// What a sandbox's network adds to each of its programs.
struct Additions {
  std::vector<Variable> variables;
  std::vector<model::FileSpec> files;
};
// How programs trust the authority of inspected destinations: a bundle of the system's authorities
// and this certificate, and the variables by which programs find the bundle. `system`: authorities
// of the system, PEM; "" for none.
Additions trustIn(const std::string& certificate, const std::string& system);
// The system's authorities, read once; "" if there is no bundle.
const std::string& systemAuthorities();

// Adds variables that the program has not; options of Node and Java are appended to the program's
// own.
void addVariables(model::ExecSpec& spec, const std::vector<Variable>& variables);
void addTo(model::ExecSpec& spec, const Additions& additions);
// Adds variables in place of the program's.
void setVariables(model::ExecSpec& spec, const std::vector<Variable>& variables);

}  // namespace cloister::orchestrator
