// SPDX-License-Identifier: Apache-2.0
// Secrets: what a request wants to use, what a rule of policy grants, and the part of a plan that
// cloister-egress fills in. Values are never in these types, but in SecretValue alone, which no
// record, log or error has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

// How a program gets a secret. kBroker: the program never has it; cloister-egress puts it into
// requests to one destination.
enum class SecretAs : uint8_t { kEnv, kFile, kBroker };
std::string_view secretAsName(SecretAs as);
std::optional<SecretAs> secretAsFromName(std::string_view name);

// Bounds. A name has letters, digits, "_", "-" and ".", and begins with a letter.
inline constexpr size_t kMaxSecretName = 64;
inline constexpr size_t kMaxSecretBytes = size_t{64} << 10;
inline constexpr size_t kMaxSecretUses = 32;  // of one request
// Files of secrets with an absolute path. The folder vanishes with the sandbox; no snapshot has it.
inline constexpr std::string_view kSecretsFolder = "/run/secrets/";
bool isSecretName(std::string_view name);

// A member of a request's `secrets`.
struct SecretUse {
  std::string name;
  SecretAs as = SecretAs::kEnv;
  // kEnv: the variable with the value. kBroker: the variable with a placeholder, which stands for
  // the value in headers; "" for none.
  std::string variable;
  std::string path;           // kFile: relative to the home folder, or absolute below /run/secrets
  std::string host;           // kBroker: of hostName()
  uint16_t port = 443;        // kBroker
  std::string header;         // kBroker: the header that is set; "" with a placeholder alone
  std::string format = "{}";  // kBroker: the header's value, "{}" stands for the secret
  std::vector<std::string> methods;  // kBroker: upper case; empty: all
  std::vector<std::string> paths;    // kBroker: globs that begin with "/"; empty: all

  friend bool operator==(const SecretUse&, const SecretUse&) = default;
};

// A member of a policy rule's `secrets`. Silence refuses.
struct SecretGrant {
  std::string name;                // a glob
  std::vector<SecretAs> as;        // never empty
  std::vector<std::string> hosts;  // of hostPattern(); for kBroker never empty

  friend bool operator==(const SecretGrant&, const SecretGrant&) = default;
};

// The brokered secret of a plan: the value comes apart from the plan, by its id.
struct PlanSecret {
  std::string id;        // of this use, distinct in the plan
  std::string name;      // for records
  uint64_t version = 0;  // of the value
  std::string host;
  uint16_t port = 443;
  std::string header;  // lower case
  std::string format;
  std::string placeholder;  // "" for none; random, so that it never occurs by chance
  std::vector<std::string> methods;
  std::vector<std::string> paths;

  friend bool operator==(const PlanSecret&, const PlanSecret&) = default;
};

// Reads a request's `secrets`. Errors name the member below `path`.
Result<std::vector<SecretUse>> readSecretUses(const base::json::value& value,
                                              const std::string& path);
// Reads a rule's `secrets`.
Result<std::vector<SecretGrant>> readSecretGrants(const base::json::value& value,
                                                  const std::string& path);
base::json::object toJsonObject(const SecretUse& use);
base::json::object toJsonObject(const SecretGrant& grant);
base::json::object toJsonObject(const PlanSecret& secret);
Result<PlanSecret> readPlanSecret(const base::json::object& object);

// A value in transit to cloister-egress, for the PlanSecret with this id.
struct SecretValue {
  std::string id;
  std::string value;
};

}  // namespace cloister::model
