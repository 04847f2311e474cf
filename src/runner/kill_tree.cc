// SPDX-License-Identifier: Apache-2.0
#include "runner/kill_tree.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include <time.h>

#include "runner/processes.h"

namespace cloister::runner {
namespace {

constexpr int kMaxRounds = 64;  // each round finds a new process
// A killed process exists until next scheduled, which takes time on a busy machine: half a second
// was once too short.
constexpr int kMaxWaits = 3000;
constexpr long kWaitNanos = 1'000'000;

ProcessTable table;

bool isDoomed(pid_t pid) {
  return std::any_of(table.rows, table.rows + table.count,
                     [pid](const Process& row) { return row.pid == pid && row.doomed; });
}

void doom(pid_t leader) {
  for (bool more = true; std::exchange(more, false);) {
    for (size_t i = 0; i < table.count; ++i) {
      Process& row = table.rows[i];
      if (row.doomed || row.pid <= 1) continue;
      row.doomed = row.pid == leader || row.session == leader || isDoomed(row.parent);
      more = more || row.doomed;
    }
  }
}

// Sends the signal to all doomed processes. Returns how many still ran.
size_t signalDoomed(int signal) {
  size_t running = 0;
  for (size_t i = 0; i < table.count; ++i) {
    const Process& row = table.rows[i];
    if (!row.doomed) continue;
    if (!row.still()) ++running;
    kill(row.pid, signal);
  }
  return running;
}

// Numbers of the doomed processes still to go, whatever their current parents.
pid_t killed[ProcessTable::kMax];

size_t keepDoomed() {
  size_t count = 0;
  for (size_t i = 0; i < table.count; ++i) {
    if (table.rows[i].doomed) killed[count++] = table.rows[i].pid;
  }
  std::sort(killed, killed + count);
  return count;
}

bool anyLives(size_t count) {
  table.read();
  return std::any_of(table.rows, table.rows + table.count, [count](const Process& row) {
    return !row.ended() && std::binary_search(killed, killed + count, row.pid);
  });
}

}  // namespace

void killTree(pid_t leader) {
  for (int round = 0; round < kMaxRounds; ++round) {
    table.read();
    doom(leader);
    if (signalDoomed(SIGSTOP) == 0) break;
  }
  signalDoomed(SIGKILL);
  const size_t count = keepDoomed();
  for (int wait = 0; wait < kMaxWaits && anyLives(count); ++wait) {
    const timespec pause{.tv_sec = 0, .tv_nsec = kWaitNanos};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace cloister::runner
