// SPDX-License-Identifier: Apache-2.0
// Processes: the numbers by which E2B's clients name the programs of a sandbox. A program is an
// execution of ours; the numbers last as long as the process of the service, and so do sessions.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::api::compat::e2b {

struct Process {
  uint32_t pid = 0;
  std::string execution;  // id
  base::json::object config;
  std::optional<std::string> tag;
  bool terminal = false;
  bool ended = false;  // as far as known
};

class Processes {
 public:
  // Adds a program of a session, and gives its number. Of a session the last kMost programs are
  // known. `lives`: whether a session still runs; the programs of others are forgotten.
  const Process& add(const std::string& session, Process process,
                     const std::function<bool(const std::string&)>& lives);
  // The program that the selector {"pid"} or {"tag"} names; the newest of a tag. kNotFound for
  // none.
  [[nodiscard]] Result<Process> find(const std::string& session,
                                     const base::json::object& selector) const;
  [[nodiscard]] std::vector<Process> all(const std::string& session) const;

  // Notes that the program has ended.
  void end(const std::string& session, uint32_t pid);

  static constexpr size_t kMost = 1024;

 private:
  struct Table {
    uint32_t last = 0;
    std::map<uint32_t, Process> processes;
  };
  std::map<std::string, Table> tables_;  // by session
};

}  // namespace cloister::api::compat::e2b
