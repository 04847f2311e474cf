// SPDX-License-Identifier: Apache-2.0
#include "linux/proc_tree.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <dirent.h>

#include "base/file.h"

namespace cloister::linux {
namespace {

constexpr size_t kMaxProcesses = 4096;

void addChildren(const std::string& process, std::vector<pid_t>& found) {
  DIR* tasks = ::opendir((process + "/task").c_str());
  if (tasks == nullptr) return;
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const auto text = base::readFile(process + "/task/" + entry->d_name + "/children");
    std::istringstream words(text.value_or(std::string()));
    for (pid_t child = 0; words >> child && found.size() < kMaxProcesses;)
      found.push_back(child);
  }
  ::closedir(tasks);
}

// The part of a process's stat after its name, which may have any characters but ends with the last
// ')'; "" for an ended process.
std::string statOf(const std::string& process) {
  const auto text = base::readFile(process + "/stat", 4096);
  const size_t name_end = text ? text->rfind(')') : std::string::npos;
  return name_end == std::string::npos ? "" : text->substr(name_end + 1);
}

IoBytes ioIn(const std::string& process) {
  const auto text = base::readFile(process + "/io", 4096);
  IoBytes io;
  std::istringstream words(text.value_or(std::string()));
  for (std::string name, value; words >> name >> value;) {
    if (name == "read_bytes:") io.read = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "write_bytes:") io.written = std::strtoull(value.c_str(), nullptr, 10);
  }
  return io;
}

// utime, stime, cutime, cstime are fields 14 to 17 and rss is 24.
bool addStat(const std::string& process, TreeUsage& usage) {
  const std::string stat = statOf(process);
  if (stat.empty()) return false;
  std::istringstream words(stat);
  uint64_t ticks = 0;
  std::string word;
  for (int field = 3; words >> word && field <= 24; ++field) {
    const uint64_t value = std::strtoull(word.c_str(), nullptr, 10);
    if (field >= 14 && field <= 17) ticks += value;
    if (field == 24) usage.rss_bytes += value * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  usage.cpu_micros += ticks * 1'000'000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  usage.io += ioIn(process);
  ++usage.processes;
  return true;
}

}  // namespace

TreeUsage usageOfTree(pid_t root) {
  TreeUsage usage;
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string process = "/proc/" + std::to_string(found[i]);
    if (addStat(process, usage)) addChildren(process, found);
  }
  return usage;
}

std::vector<pid_t> processesOf(pid_t root, size_t most) {
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size() && found.size() < most; ++i)
    addChildren("/proc/" + std::to_string(found[i]), found);
  if (found.size() > most) found.resize(most);
  return found;
}

IoBytes ioOf(pid_t process) {
  return ioIn("/proc/" + std::to_string(process));
}

pid_t parentOf(pid_t process) {
  std::istringstream words(statOf("/proc/" + std::to_string(process)));
  std::string state;
  pid_t parent = -1;
  return words >> state >> parent ? parent : -1;
}

}  // namespace cloister::linux
