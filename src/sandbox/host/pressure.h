// SPDX-License-Identifier: Apache-2.0
// Pressure: whether this machine, by the kernel's figures, has memory and processors to spare for
// sandboxes made ahead of requests. Reads small files of /proc and of the memory cgroups above this
// process. A resource whose file cannot be read does not count as short. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace cloister::runtime {

struct PressureConfig {
  // Percent of the machine's memory, and of each memory limit on this process's cgroups, kept free;
  // 0: none.
  uint32_t spare_memory = 0;
  // Percent of the last ten seconds in which a runnable task waited for a processor (PSI `some`)
  // above which running work counts as starved; 100: never.
  uint32_t cpu_pressure = 100;
  uint32_t cpus = std::thread::hardware_concurrency();
  std::string proc = "/proc";
};

class Pressure {
 public:
  explicit Pressure(PressureConfig config);

  // Whether less memory is available than `spare_memory`: by MemAvailable (proc_meminfo(5)) and by
  // the room left in each cgroup, where droppable page cache counts as free.
  [[nodiscard]] bool memoryShort() const;
  // Whether running work waits for processors: by PSI (Documentation/accounting/psi.rst) and by the
  // tasks runnable now (proc_loadavg(5)), since PSI averages the past and includes waits for a
  // quota. Without PSI, by the runnable tasks alone.
  [[nodiscard]] bool cpuShort() const;

 private:
  PressureConfig config_;
  std::vector<std::string> groups_;  // directories of this process's cgroup and its parents
};

}  // namespace cloister::runtime
