// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

namespace cloister::base {
namespace {

size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// Names of one thing. A list of clients' names for fields and flags: E2B's, Modal's, Docker's,
// Kubernetes', OpenAI's and Piston's among them.
using Meaning = std::initializer_list<std::string_view>;
constexpr Meaning kMeanings[] = {
    {"timeout_seconds", "timeout", "time_limit", "time_limit_seconds", "timeout_s", "timeout_secs",
     "timeout_ms", "max_time", "max_seconds", "run_timeout", "wall_time", "wall_time_limit",
     "deadline"},
    {"language", "lang", "language_id", "lang_id", "kernel_language"},
    {"code", "source", "source_code", "script", "program", "snippet"},
    {"command", "cmd", "commands", "shell", "shell_command", "entrypoint", "exec"},
    {"args", "arguments", "argv", "arg", "params"},
    {"input", "stdin", "std_in", "standard_input"},
    {"input_base64", "stdin_base64"},
    {"env", "env_vars", "envs", "environment", "environment_variables", "envvars", "variables",
     "vars"},
    {"memory_mb", "memory", "mem", "mem_mb", "memory_limit", "memory_limit_mb", "memory_mib", "ram",
     "ram_mb", "max_memory", "run_memory_limit"},
    {"cpu_millis", "cpu", "cpus", "cpu_limit", "cpu_count", "vcpu", "vcpus", "cores", "millicores",
     "milli_cpu"},
    {"cpu_seconds", "cpu_time", "cpu_time_limit"},
    {"disk_mb", "disk", "disk_limit", "disk_size", "disk_size_mb", "storage", "storage_mb"},
    {"file_size_mb", "file_size", "max_file_size", "max_file_size_mb"},
    {"pids", "processes", "max_processes", "pids_limit", "max_pids", "process_limit"},
    {"open_files", "max_open_files", "nofile", "max_files"},
    {"max_output_bytes", "output_bytes", "output_limit", "max_output", "max_output_size"},
    {"deps", "dependencies", "packages", "requirements", "pip", "pip_packages", "libraries",
     "modules", "dep"},
    {"network_policy", "network", "allow_network", "network_access", "internet", "internet_access",
     "allow_internet_access", "networking", "egress"},
    {"network_allow", "allow_hosts", "allowed_hosts", "allowed_domains"},
    {"cwd", "workdir", "work_dir", "working_dir", "working_directory", "dir"},
    {"ttl_seconds", "ttl", "lifetime", "lifetime_seconds", "expires_in", "max_lifetime"},
    {"idle_ttl_seconds", "idle_ttl", "idle_timeout", "idle_timeout_seconds", "idle_seconds"},
    {"image", "template", "template_id", "container_image", "docker_image"},
    {"runtime", "runtime_class", "isolation", "sandbox_type"},
    {"session_id", "session", "sandbox_id", "container_id"},
    {"execution_id", "run_id", "exec_id", "job_id"},
    {"kernel", "context", "context_id", "interpreter"},
    {"from_snapshot", "snapshot", "snapshot_id"},
    {"metadata", "labels", "tags", "annotations"},
    {"secrets", "secret", "credentials"},
    {"capabilities", "permissions", "scopes"},
    {"files", "file", "attachments"},
    {"path", "file_path", "filename", "file_name", "filepath"},
    {"content", "contents", "text", "data"},
    {"background", "detach", "detached", "async"},
    {"tty", "pty", "terminal"},
    {"name", "alias", "label"},
};

// "envVars", "--env-vars" and "ENV_VARS" as "env_vars".
std::string plainName(std::string_view name) {
  while (name.starts_with('-'))
    name.remove_prefix(1);
  std::string plain;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool begins = upper && !plain.empty() && plain.back() >= 'a' && plain.back() <= 'z';
    if (begins) plain += '_';
    plain += upper ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  }
  return plain;
}

}  // namespace

std::string nearestName(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 128;  // the cost is quadratic and the word is not ours
  if (word.size() > kLongestWord) return {};
  std::string best;
  size_t best_distance = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const size_t distance = editDistance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string meantName(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 128;
  if (word.size() > kLongestWord) return {};
  const std::string plain = plainName(word);
  const auto named = [&](std::string_view wanted) {
    return std::ranges::find(candidates, wanted,
                             [](const std::string& each) { return plainName(each); });
  };
  if (const auto found = named(plain); found != candidates.end()) return *found;
  for (const Meaning& meaning : kMeanings) {
    if (std::ranges::find(meaning, plain) == meaning.end()) continue;
    for (const std::string_view other : meaning) {
      if (const auto found = named(other); found != candidates.end()) return *found;
    }
  }
  return nearestName(word, candidates);
}

}  // namespace cloister::base
