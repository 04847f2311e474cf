// SPDX-License-Identifier: Apache-2.0
// Pressure: whether this machine, as the kernel tells, has memory and processors to spare for what
// nobody has asked for yet. Reads small files of /proc and of the memory cgroups above this
// process; what cannot be read is not short. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace cloister::runtime {

struct PressureConfig {
  // Percent of the machine's memory, and of each memory limit on this process's cgroups, that stays
  // free; 0: none need be.
  uint32_t spare_memory = 0;
  // Percent of the last ten seconds in which something that could run waited for a processor
  // (PSI `some`), above which running work is starved; 100: never.
  uint32_t cpu_pressure = 100;
  uint32_t cpus = std::thread::hardware_concurrency();
  std::string proc = "/proc";
};

class Pressure {
 public:
  explicit Pressure(PressureConfig config);

  // Less memory is available than is to be spared: MemAvailable (proc_meminfo(5)), or what a cgroup
  // may still take, in which files that can be dropped count as free.
  [[nodiscard]] bool memoryShort() const;
  // Running work waits for processors: by PSI (Documentation/accounting/psi.rst), and, because that
  // looks back and counts what a quota holds up too, by what is runnable now (proc_loadavg(5)).
  // Without PSI by the latter alone.
  [[nodiscard]] bool cpuShort() const;

 private:
  PressureConfig config_;
  std::vector<std::string> groups_;  // directories of this process's cgroup and those above it
};

}  // namespace cloister::runtime
