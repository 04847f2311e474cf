// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <sstream>

#include "base/log.h"

namespace cloister::supervisor {

using base::monotonicNow;

namespace {

Program withHungFd(Program control, int fd) {
  control.argv.insert(control.argv.end(), {"--hung-fd", std::to_string(fd)});
  control.pass.push_back(fd);
  return control;
}

}  // namespace

Result<Supervisor> Supervisor::make(SupervisorConfig config) {
  Signals signals = TRY(Signals::block({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE}));
  Pipe lifeline = TRY(makePipe());
  Pipe hung = TRY(makePipe());
  ::fcntl(hung.read.get(), F_SETFL, O_NONBLOCK);
  return Supervisor(std::move(config), std::move(signals), std::move(lifeline), std::move(hung));
}

Supervisor::Supervisor(SupervisorConfig config, Signals signals, Pipe lifeline, Pipe hung)
    : config_(std::move(config)),
      signals_(std::move(signals)),
      lifeline_(std::move(lifeline)),
      hung_(std::move(hung)),
      control_("cloisterd", withHungFd(config_.control, hung_.write.get())),
      node_("cloister-node", config_.node),
      next_beat_(monotonicNow()) {}

Result<> Supervisor::run() {
  // The first start with an older ledger encrypts it, which takes minutes for each gigabyte.
  notifier_.send("STATUS=starting\nEXTEND_TIMEOUT_USEC=7200000000");
  Result<> result;
  while (result && !finished()) {
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

bool Supervisor::finished() const {
  return phase_ != Phase::kRunning && control_.pid() == 0 && node_.pid() == 0;
}

Result<> Supervisor::startDue() {
  if (phase_ != Phase::kRunning) return {};
  for (Child* child : {&node_, &control_}) {
    if (child->pid() != 0 || monotonicNow() < child->nextStart()) continue;
    TRY(child->startNow(lifeline_.read.get()));
    if (child->restarts() > 0) {
      base::log(base::Level::kWarn, "part restarted",
                {{"part", child->name()}, {"why", child->lastEnd()}});
    }
  }
  return {};
}

// Ready is what the service itself says, asked again after every death.
Result<> Supervisor::announce() {
  if (phase_ != Phase::kRunning || answering_ || !control_.ready() || !node_.ready()) return {};
  if (monotonicNow() < next_probe_) return {};
  next_probe_ = monotonicNow() + probe_pause_;
  probe_pause_ = std::min(probe_pause_ * 2, kLongestProbePause);
  if (!config_.probe(signals_.fd())) return {};
  answering_ = true;
  if (!announced_) TRY(config_.on_ready());
  announced_ = true;
  notifier_.send("READY=1\nSTATUS=ready");
  return {};
}

Millis Supervisor::untilNextEvent() const {
  auto next = monotonicNow() + std::chrono::hours(1);
  if (phase_ == Phase::kRunning) {
    for (const Child* child : {&node_, &control_}) {
      if (child->pid() == 0) next = std::min(next, child->nextStart());
    }
    if (!answering_ && control_.ready() && node_.ready()) next = std::min(next, next_probe_);
  } else {
    next = std::min(next, deadline_);
  }
  if (notifier_.watchdog()) next = std::min(next, next_beat_);
  return std::max(Millis(0), std::chrono::ceil<Millis>(next - monotonicNow()));
}

void Supervisor::wait() {
  pollfd polled[] = {{signals_.fd(), POLLIN, 0},
                     {phase_ == Phase::kRunning ? config_.lifeline : -1, POLLIN, 0},
                     {control_.readyFd(), POLLIN, 0},
                     {node_.readyFd(), POLLIN, 0},
                     {hung_.read.get(), POLLIN, 0}};
  if (::poll(polled, std::size(polled), static_cast<int>(untilNextEvent().count())) <= 0) return;
  if (polled[1].revents != 0) stop("our parent is gone");
  if (polled[2].revents != 0) control_.checkReady();
  if (polled[3].revents != 0) node_.checkReady();
  if (polled[4].revents != 0) killHungNode();
}

// What the control plane says is a line with the process it means: by then another may run.
void Supervisor::killHungNode() {
  char bytes[256];
  const ssize_t n = ::read(hung_.read.get(), bytes, sizeof bytes);
  std::istringstream lines(std::string(bytes, n > 0 ? static_cast<size_t>(n) : 0));
  for (pid_t pid = 0; lines >> pid;) {
    if (pid != node_.pid() || pid <= 0) continue;
    base::log(base::Level::kError, "part hangs", {{"part", node_.name()}});
    node_.signal(SIGKILL);
  }
}

void Supervisor::takeSignals() {
  while (const int signal = signals_.take()) {
    if (signal == SIGCHLD || signal == SIGPIPE) continue;
    if (told_to_stop_ && signal == SIGINT) {  // a second Ctrl-C: no more patience
      control_.signal(SIGKILL);
      node_.signal(SIGKILL);
    }
    told_to_stop_ = true;
    stop("told to stop");
  }
}

Result<> Supervisor::reap() {
  int status = 0;
  while (const pid_t pid = ::waitpid(-1, &status, WNOHANG)) {
    if (pid < 0) break;
    for (Child* child : {&node_, &control_}) {
      if (child->pid() != pid) continue;
      child->ended(status);
      answering_ = false;
      probe_pause_ = kFirstProbePause;
      if (phase_ != Phase::kRunning) continue;
      if (!child->everReady()) {
        return fail(Code::kUnavailable, "starting " + child->name() + ": it " + child->lastEnd());
      }
      base::log(base::Level::kError, "part died",
                {{"part", child->name()}, {"how", child->lastEnd()}});
      notifier_.send("STATUS=restarting " + child->name() + ", which " + child->lastEnd());
    }
  }
  return {};
}

void Supervisor::stop(std::string_view why) {
  if (phase_ != Phase::kRunning) return;
  base::log(base::Level::kInfo, "stopping", {{"why", why}});
  notifier_.send("STOPPING=1\nSTATUS=stopping");
  phase_ = Phase::kDraining;
  deadline_ = monotonicNow() + config_.drain;
  control_.signal(SIGTERM);
}

void Supervisor::advanceStop() {
  if (phase_ == Phase::kDraining) {
    if (control_.pid() == 0) {
      phase_ = Phase::kStoppingNode;
      deadline_ = monotonicNow() + config_.node_stop;
      node_.signal(SIGTERM);
    } else if (monotonicNow() >= deadline_) {
      control_.signal(SIGKILL);
      deadline_ = monotonicNow() + config_.drain;
    }
  } else if (phase_ == Phase::kStoppingNode && monotonicNow() >= deadline_) {
    node_.signal(SIGKILL);
    deadline_ = monotonicNow() + config_.node_stop;
  }
}

void Supervisor::beat() {
  if (!notifier_.watchdog() || monotonicNow() < next_beat_) return;
  notifier_.send("WATCHDOG=1");
  next_beat_ = monotonicNow() + *notifier_.watchdog();
}

void Supervisor::killAll() {
  for (Child* child : {&control_, &node_}) {
    child->signal(SIGKILL);
    if (child->pid() != 0) ::waitpid(child->pid(), nullptr, 0);
  }
}

}  // namespace cloister::supervisor
