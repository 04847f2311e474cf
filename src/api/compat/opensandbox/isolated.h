// SPDX-License-Identifier: Apache-2.0
// Isolated sessions of a sandbox: each of their programs has a separate sandbox, with nothing of
// the first but its workspace ("sandbox": "fresh" of an exec). In memory, as Interpreters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::api::compat::opensandbox {

struct IsolatedSession {
  std::string id;
  base::json::object asked;  // the request, for answers
  std::string path;          // of the workspace, absolute
  bool passes_all = true;    // of the sandbox's variables, but `keys`; otherwise `keys` alone
  std::vector<std::string> keys = {};
  int64_t idle_us = 0;  // the session ends so long after its last program; 0: with the sandbox
  int64_t created_at = 0;
  int64_t last_run_at = 0;  // 0: never
};

// kInvalid names the field; kUnsupported for what this service does not offer.
Result<IsolatedSession> parseIsolated(const base::json::object& body);

// By sandbox. Sessions that were idle for too long are not found.
class IsolatedSessions {
 public:
  static constexpr size_t kMostPerSandbox = 64;

  void sweep(const std::function<bool(const std::string&)>& lives);
  Result<IsolatedSession*> add(const std::string& sandbox, IsolatedSession fresh);
  IsolatedSession* find(const std::string& sandbox, std::string_view id, int64_t now);
  std::vector<IsolatedSession> list(const std::string& sandbox, int64_t now);
  void drop(const std::string& sandbox, const std::string& id);

 private:
  std::map<std::string, std::map<std::string, IsolatedSession, std::less<>>> by_sandbox_;
};

}  // namespace cloister::api::compat::opensandbox
