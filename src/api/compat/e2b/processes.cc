// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/processes.h"

#include <ranges>
#include <utility>

namespace cloister::api::compat::e2b {
namespace {

// Above the numbers of a sandbox's own first processes.
constexpr uint32_t kFirst = 1000;

}  // namespace

const Process& Processes::add(const std::string& session, Process process,
                              const std::function<bool(const std::string&)>& lives) {
  if (!tables_.contains(session)) {
    std::erase_if(tables_, [&](const auto& table) { return !lives(table.first); });
  }
  Table& table = tables_[session];
  if (table.last == 0) table.last = kFirst;
  process.pid = ++table.last;
  if (table.processes.size() >= kMost) table.processes.erase(table.processes.begin());
  return table.processes[process.pid] = std::move(process);
}

Result<Process> Processes::find(const std::string& session,
                                const base::json::object& selector) const {
  base::ObjectReader reader(selector, "process");
  const auto pid = TRY(reader.integer("pid", 0, UINT32_MAX));
  const auto tag = TRY(reader.text("tag"));
  if (!pid && !tag) return fail(Code::kInvalid, "process: pid or tag is required", "process");
  for (const Process& each : all(session) | std::views::reverse) {
    if (pid ? each.pid == *pid : each.tag == tag) return each;
  }
  return fail(Code::kNotFound, "process with " +
                                   (pid ? "pid " + std::to_string(*pid) : "tag '" + *tag + "'") +
                                   " not found");
}

void Processes::end(const std::string& session, uint32_t pid) {
  const auto table = tables_.find(session);
  if (table == tables_.end()) return;
  const auto process = table->second.processes.find(pid);
  if (process != table->second.processes.end()) process->second.ended = true;
}

std::vector<Process> Processes::all(const std::string& session) const {
  std::vector<Process> all;
  const auto table = tables_.find(session);
  if (table == tables_.end()) return all;
  for (const auto& [pid, process] : table->second.processes)
    all.push_back(process);
  return all;
}

}  // namespace cloister::api::compat::e2b
