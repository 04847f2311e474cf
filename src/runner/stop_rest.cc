// SPDX-License-Identifier: Apache-2.0
#include "runner/stop_rest.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <time.h>

#include "runner/processes.h"

namespace cloister::runner {
namespace {

constexpr int kMaxRounds = 2000;
constexpr long kRoundNanos = 1'000'000;  // a signal stops a process when next scheduled

ProcessTable table;
pid_t stopped[ProcessTable::kMax];
size_t stopped_count = 0;

constexpr size_t kMaxServers = 64;  // above the runner's channels
pid_t servers[kMaxServers];
size_t server_count = 0;

bool isOthers(const Process& process) {
  return process.pid != 1 && process.pid != getpid() && !process.still();
}

bool isListed(pid_t pid) {
  return std::find(stopped, stopped + stopped_count, pid) != stopped + stopped_count;
}

}  // namespace

int stopRest() {
  for (int round = 0; round < kMaxRounds; ++round) {
    table.read();
    if (table.count == ProcessTable::kMax) return EAGAIN;
    bool any = false;
    for (size_t i = 0; i < table.count; ++i) {
      const Process& process = table.rows[i];
      if (!isOthers(process)) continue;
      any = true;
      if (isListed(process.pid)) continue;
      if (stopped_count == ProcessTable::kMax) return EAGAIN;
      stopped[stopped_count++] = process.pid;
      kill(process.pid, SIGSTOP);
    }
    if (!any) return 0;
    const timespec pause{.tv_sec = 0, .tv_nsec = kRoundNanos};
    nanosleep(&pause, nullptr);
  }
  return EAGAIN;
}

bool anyStarted() {
  table.read();
  return std::any_of(table.rows, table.rows + table.count, isOthers);
}

void noteServer(pid_t pid) {
  if (server_count < kMaxServers) servers[server_count++] = pid;
}

void forgetServers() {
  server_count = 0;
}

namespace {

bool isOther(const Process& process) {
  const bool own = process.pid == 1 || process.pid == getpid();
  pid_t* const end = servers + server_count;
  return !own && !process.ended() && std::find(servers, end, process.pid) == end;
}

// The kernel looks at all at once: no process can have ended and another begun meanwhile.
bool isNobody() {
  return kill(-1, 0) != 0 && errno == ESRCH;
}

}  // namespace

// A chain of processes, each of which starts the next and ends, shows a process in each look,
// though possibly gone before examination. An ordinary end at the moment looks the same, so look
// again.
bool anyOther() {
  constexpr int kClean = 3;
  constexpr int kMostLooks = 30;
  int clean = 0;
  for (int look = 0; look < kMostLooks && clean < kClean; ++look) {
    if (look > 0) {
      const timespec pause{.tv_sec = 0, .tv_nsec = kRoundNanos};
      nanosleep(&pause, nullptr);
    }
    table.read();
    if (table.count == ProcessTable::kMax) return true;
    if (std::any_of(table.rows, table.rows + table.count, isOther)) return true;
    const bool none = table.vanished == 0 && (server_count > 0 || isNobody());
    clean = none ? clean + 1 : 0;
  }
  return clean < kClean;
}

void continueRest() {
  while (stopped_count > 0)
    kill(stopped[--stopped_count], SIGCONT);
}

}  // namespace cloister::runner
