// SPDX-License-Identifier: Apache-2.0
// E2B's code interpreter: cells of code in contexts, which are kernels of the session.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/compat/e2b/sandbox.h"

namespace cloister::api::compat::e2b {

// The contexts of sandboxes. Each sandbox has one for Python and one for JavaScript. One thread.
class Contexts {
 public:
  struct Context {
    std::string id;        // the name of the kernel
    std::string language;  // of the interpreter, our name
    std::string shown;     // the same, as the client asked
    std::string cwd;
  };
  static constexpr size_t kMost = 64;  // of a sandbox

  // kQuota above the bound. `lives`: whether a session runs; contexts of others are forgotten.
  Result<> add(const std::string& session, Context context,
               const std::function<bool(const std::string&)>& lives);
  [[nodiscard]] Result<Context> find(const std::string& session, const std::string& id) const;
  [[nodiscard]] std::vector<Context> all(const std::string& session) const;
  void remove(const std::string& session, const std::string& id);

 private:
  std::map<std::string, std::map<std::string, Context>> contexts_;  // made ones, by session
};

// `contexts` outlives the routes.
std::vector<Route> interpreterRoutes(RestParts& parts, Contexts& contexts);

}  // namespace cloister::api::compat::e2b
