// SPDX-License-Identifier: Apache-2.0
// Logins at registries, from a file in the form of docker's config.json (images.credentials_file).
// Programs that keep logins (credsStore, credHelpers) are not run. Pure but for the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::registry {

struct Login {
  std::string user;
  std::string password;

  [[nodiscard]] std::string basic() const;  // the value of the header Authorization
};

class Credentials {
 public:
  // "": none.
  static Result<Credentials> load(const std::string& path);
  static Result<Credentials> parse(std::string_view text);

  // The login at a registry, "HOST" or "HOST:PORT" as in references. kUnsupported: the file names a
  // form of login that is not read.
  [[nodiscard]] Result<std::optional<Login>> at(std::string_view registry) const;

 private:
  std::map<std::string, Result<Login>, std::less<>> logins_;
};

}  // namespace cloister::registry
