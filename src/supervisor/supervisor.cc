// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/log.h"

namespace cloister::supervisor {

using base::monotonicNow;

Result<Supervisor> Supervisor::make(SupervisorConfig config) {
  Signals signals = TRY(Signals::block({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE}));
  Pipe lifeline = TRY(makePipe());
  std::vector<Row> rows;
  for (Part& part : config.parts)
    rows.push_back(TRY(rowOf(std::move(part))));
  return Supervisor(std::move(config), std::move(rows), std::move(signals), std::move(lifeline));
}

Result<Supervisor::Row> Supervisor::rowOf(Part part) {
  Program program = part.program;
  Pipe hung;
  if (!part.watches.empty()) {
    hung = TRY(makePipe());
    ::fcntl(hung.read.get(), F_SETFL, O_NONBLOCK);
    program.argv.insert(program.argv.end(), {"--hung-fd", std::to_string(hung.write.get())});
    program.pass.push_back(hung.write.get());
  }
  std::string name = part.name;
  const Millis longest = part.longest_delay;
  return Row{
      std::move(part), Child(std::move(name), std::move(program), longest), std::move(hung), {}};
}

Supervisor::Supervisor(SupervisorConfig config, std::vector<Row> rows, Signals signals,
                       Pipe lifeline)
    : config_(std::move(config)),
      rows_(std::move(rows)),
      signals_(std::move(signals)),
      lifeline_(std::move(lifeline)),
      next_beat_(monotonicNow()) {}

Result<> Supervisor::run() {
  // The first start with an older ledger encrypts it, which takes minutes for each gigabyte.
  notifier_.send("STATUS=starting\nEXTEND_TIMEOUT_USEC=7200000000");
  Result<> result;
  while (result && (isRunning() || anyRuns())) {
    result = startDue();
    if (result) result = announce();
    if (!result) break;
    wait();
    takeSignals();
    result = reap();
    advanceStop();
    beat();
  }
  if (!result) {
    notifier_.send("STOPPING=1\nSTATUS=" + result.error().message);
    killAll();
  }
  return result;
}

bool Supervisor::anyRuns() const {
  return std::ranges::any_of(rows_, [](const Row& row) { return row.child.pid() != 0; });
}

bool Supervisor::allReady() const {
  return std::ranges::all_of(rows_, [](const Row& row) { return row.child.ready(); });
}

bool Supervisor::allAnswer() const {
  return std::ranges::all_of(
      rows_, [this](const Row& row) { return !row.part.probe || row.part.probe(signals_.fd()); });
}

Result<> Supervisor::startDue() {
  if (!isRunning()) return {};
  for (Row& row : rows_) {
    Child& child = row.child;
    if (child.pid() != 0 || monotonicNow() < child.nextStart()) continue;
    TRY(child.startNow(lifeline_.read.get()));
    if (child.restarts() > 0) {
      base::log(base::Level::kWarn, "part restarted",
                {{"part", child.name()}, {"why", child.lastEnd()}});
    }
  }
  return {};
}

// Readiness is the service's own answer, checked again after every death.
Result<> Supervisor::announce() {
  if (!isRunning() || answering_ || !allReady()) return {};
  if (monotonicNow() < next_probe_) return {};
  next_probe_ = monotonicNow() + probe_pause_;
  probe_pause_ = std::min(probe_pause_ * 2, kLongestProbePause);
  if (!allAnswer()) return {};
  answering_ = true;
  if (!announced_) TRY(config_.on_ready());
  announced_ = true;
  notifier_.send("READY=1\nSTATUS=ready");
  return {};
}

Millis Supervisor::untilNextEvent() const {
  auto next = monotonicNow() + std::chrono::hours(1);
  for (const Row& row : rows_) {
    const bool runs = row.child.pid() != 0;
    if (isRunning() && !runs) next = std::min(next, row.child.nextStart());
    if (!isRunning() && runs && row.part.stop_turn == turn_) next = std::min(next, row.kill_at);
  }
  if (isRunning() && !answering_ && allReady()) next = std::min(next, next_probe_);
  if (notifier_.watchdog()) next = std::min(next, next_beat_);
  return std::max(Millis(0), std::chrono::ceil<Millis>(next - monotonicNow()));
}

void Supervisor::wait() {
  std::vector<pollfd> polled = {{signals_.fd(), POLLIN, 0},
                                {isRunning() ? config_.lifeline : -1, POLLIN, 0}};
  const size_t first = polled.size();
  for (const Row& row : rows_) {
    polled.push_back({row.child.readyFd(), POLLIN, 0});
    polled.push_back({row.hung.read.get(), POLLIN, 0});
  }
  const int patience = static_cast<int>(untilNextEvent().count());
  if (::poll(polled.data(), polled.size(), patience) <= 0) return;
  if (polled[1].revents != 0) stop("our parent is gone");
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (polled[first + 2 * i].revents != 0) rows_[i].child.checkReady();
    if (polled[first + 2 * i + 1].revents != 0) killHung(rows_[i]);
  }
}

// A line names a process, because another process of the part may run by now.
void Supervisor::killHung(const Row& watcher) {
  char bytes[256];
  const ssize_t n = ::read(watcher.hung.read.get(), bytes, sizeof bytes);
  std::istringstream lines(std::string(bytes, n > 0 ? static_cast<size_t>(n) : 0));
  for (pid_t pid = 0; lines >> pid;) {
    for (const Row& row : rows_) {
      if (row.part.name != watcher.part.watches || pid <= 0 || pid != row.child.pid()) continue;
      base::log(base::Level::kError, "part hangs", {{"part", row.part.name}});
      row.child.signal(SIGKILL);
    }
  }
}

void Supervisor::takeSignals() {
  while (const int signal = signals_.take()) {
    if (signal == SIGCHLD || signal == SIGPIPE) continue;
    if (told_to_stop_ && signal == SIGINT) signalAll(SIGKILL);  // a second Ctrl-C: no more patience
    told_to_stop_ = true;
    stop("told to stop");
  }
}

Result<> Supervisor::reap() {
  int status = 0;
  while (const pid_t pid = ::waitpid(-1, &status, WNOHANG)) {
    if (pid < 0) break;
    for (Row& row : rows_) {
      if (row.child.pid() == pid) TRY(buried(row, status));
    }
  }
  return {};
}

// The row's process has ended.
Result<> Supervisor::buried(Row& row, int wait_status) {
  Child& child = row.child;
  child.ended(wait_status);
  answering_ = false;
  probe_pause_ = kFirstProbePause;
  if (!isRunning()) return {};
  if (!child.everReady()) {
    return fail(Code::kUnavailable, "starting " + child.name() + ": it " + child.lastEnd());
  }
  base::log(base::Level::kError, "part died", {{"part", child.name()}, {"how", child.lastEnd()}});
  notifier_.send("STATUS=restarting " + child.name() + ", which " + child.lastEnd());
  return {};
}

void Supervisor::stop(std::string_view why) {
  if (!isRunning()) return;
  base::log(base::Level::kInfo, "stopping", {{"why", why}});
  notifier_.send("STOPPING=1\nSTATUS=stopping");
  phase_ = Phase::kStopping;
  const auto turn = [](const Row& row) { return row.part.stop_turn; };
  if (!rows_.empty()) beginTurn(turn(*std::ranges::min_element(rows_, {}, turn)));
}

void Supervisor::beginTurn(int turn) {
  turn_ = turn;
  for (Row& row : rows_) {
    if (row.part.stop_turn != turn) continue;
    row.kill_at = monotonicNow() + row.part.patience;
    row.child.signal(SIGTERM);
  }
}

void Supervisor::advanceStop() {
  if (isRunning()) return;
  bool ended = true;
  std::optional<int> next;  // turn with a process
  for (Row& row : rows_) {
    if (row.child.pid() == 0) continue;
    const int turn = row.part.stop_turn;
    if (turn > turn_) next = std::min(turn, next.value_or(turn));
    if (turn != turn_) continue;
    ended = false;
    if (monotonicNow() < row.kill_at) continue;
    row.child.signal(SIGKILL);
    row.kill_at = monotonicNow() + row.part.patience;
  }
  if (ended && next) beginTurn(*next);
}

void Supervisor::beat() {
  if (!notifier_.watchdog() || monotonicNow() < next_beat_) return;
  notifier_.send("WATCHDOG=1");
  next_beat_ = monotonicNow() + *notifier_.watchdog();
}

void Supervisor::signalAll(int signal) const {
  for (const Row& row : rows_)
    row.child.signal(signal);
}

void Supervisor::killAll() {
  signalAll(SIGKILL);
  for (const Row& row : rows_) {
    if (row.child.pid() != 0) ::waitpid(row.child.pid(), nullptr, 0);
  }
}

}  // namespace cloister::supervisor
