// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <time.h>

#include "runner/kill_tree.h"
#include "runner/runner.h"
#include "runner/runner_impl.h"

namespace cloister::runner {

bool Runner::relay(Channel& channel, Fd& fd, FromRunner type, uint32_t* left) {
  size_t most = channel.allowance();
  if (left != nullptr) most = std::min<size_t>(most, *left);
  if (!fd || most == 0) return false;
  const ssize_t n = read(fd.get(), link_.payload(), most);
  if (n > 0) {
    const auto size = static_cast<uint32_t>(n);
    if (type == FromRunner::kStderr && saysTooManyFiles({link_.payload(), size})) {
      channel.sawTable(tableIfAlone(channel.pid));
    }
    link_.commit(type, channel.number, size);
    if (channel.windowed) channel.window -= wire::outputUnits(size);
    if (left != nullptr) *left -= size;
    return true;
  }
  if (n < 0 && errno == EINTR) return true;
  // EIO: no process has the terminal open any more.
  if (n == 0 || (n < 0 && errno == EIO)) fd.reset();
  if (left != nullptr) *left = 0;  // another process has read the data
  return false;
}

namespace {

// A surviving process may write to the terminal without end: the kernel buffers less than this.
constexpr uint32_t kMostOfTerminal = 1U << 20;

uint32_t bytesIn(const Fd& pipe) {
  int held = 0;
  return pipe && ioctl(pipe.get(), FIONREAD, &held) == 0 ? static_cast<uint32_t>(held) : 0;
}

}  // namespace

// Forwards data in the pipes at the program's end: a surviving process may write without end. True
// when done; without a window, waits until done.
bool Runner::drain(Channel& channel) {
  // A terminal returns all earlier data before reporting emptiness, but cannot report the amount.
  if (channel.terminal && !std::exchange(channel.draining, true)) {
    channel.out_left = channel.out ? kMostOfTerminal : 0;
    channel.err_left = 0;
  }
  if (!std::exchange(channel.draining, true)) {
    channel.out_left = bytesIn(channel.out);
    channel.err_left = bytesIn(channel.err);
  }
  while (relay(channel, channel.out, FromRunner::kStdout, &channel.out_left)) {
  }
  while (relay(channel, channel.err, FromRunner::kStderr, &channel.err_left)) {
  }
  return channel.out_left == 0 && channel.err_left == 0;
}

bool Runner::isHeld() const {
  return std::ranges::any_of(
      channels_, [](const Channel& each) { return each.used && each.holds && !each.ended; });
}

// A file request may end while the workspace is held. Undoing its steps, a mode or an upload, would
// change the workspace under the holding program, so wait.
void Runner::undoNotes(Channel& channel) {
  owed_[&channel - channels_] = true;
  if (isHeld()) return;
  for (size_t i = 0; i < kChannels; ++i) {
    if (std::exchange(owed_[i], false)) undo(workspace_.get(), unfinished_[i]);
  }
}

// The notes of an ended channel may still be needed.
Channel* Runner::freeChannel() {
  for (size_t i = 0; i < kChannels; ++i) {
    if (!channels_[i].used && !owed_[i]) return &channels_[i];
  }
  return nullptr;
}

void Runner::account(pid_t pid, int status, const rusage& usage) {
  if (pid == adopted_) adopted_ = -1;
  for (Channel& channel : channels_) {
    if (!channel.used) continue;
    const bool own = channel.pid == pid && !channel.ended;
    const bool orphan = std::none_of(std::begin(channels_), std::end(channels_),
                                     [&](const Channel& c) { return c.used && c.pid == pid; });
    if (own || orphan) channel.account(usage);
    if (own) {
      channel.status = status;
      channel.ended = true;
      if (channel.saves && WIFSIGNALED(status)) kill(-1, SIGCONT);
      if (channel.notes) undoNotes(channel);
    }
  }
}

void Runner::takeSignals() {
  signalfd_siginfo info[8];
  ssize_t n = sizeof info;
  while (n == sizeof info) {  // a shorter read was the last
    n = read(signals_.get(), info, sizeof info);
    for (ssize_t i = 0; i < n / static_cast<ssize_t>(sizeof *info); ++i) {
      if (info[i].ssi_signo == kAdoptedDone) onDone(info[i]);
    }
  }
}

void Runner::onKill(uint32_t number, std::string_view payload) {
  if (!payload.empty()) protocolError();
  const Channel* channel = find(number);
  if (channel != nullptr && !channel->ended) killTree(channel->pid);
}

void Runner::onResize(uint32_t number, std::string_view payload) {
  wire::Reader r(payload);
  winsize size{};
  size.ws_col = r.u16();
  size.ws_row = r.u16();
  if (!r.done()) protocolError();
  const Channel* channel = find(number);
  if (channel == nullptr || !channel->terminal || !channel->out) return;
  ioctl(channel->out.get(), TIOCSWINSZ, &size);  // the kernel sends SIGWINCH
}

// From here on no process inside runs. Stopping all takes a single call that no process can catch
// or fork past; killing all would spend processor time on releasing memory, which the sandbox's end
// does anyway. In gVisor a process can fork past the call. There a program that waited at a FIFO is
// stopped by itself, and unless no other process exists, all are killed; so too on Linux, whose
// sysinfo(2) counts the host's processes.
void Runner::stop(Channel& channel) {
  if (channel.adopted) {
    kill(channel.kill_rest ? -1 : channel.pid, SIGSTOP);
    channel.kill_rest = false;
    return;
  }
  int status = 0;
  struct sysinfo info{};
  kill(channel.pid, SIGSTOP);
  const bool stopped = wait4(channel.pid, &status, WUNTRACED, nullptr) == channel.pid &&
                       WIFSTOPPED(status) && sysinfo(&info) == 0;
  constexpr unsigned kBoth = 2;  // with the runner
  if (stopped && info.procs == kBoth) channel.kill_rest = false;
}

// The reported status counts, whatever status the process ends with.
void Runner::onDone(const signalfd_siginfo& info) {
  for (Channel& channel : channels_) {
    if (!channel.used || channel.ended || !(channel.adopted || channel.waited)) continue;
    // adoptedEnd(), which gVisor puts into ssi_status.
    const auto end = static_cast<uint32_t>(info.ssi_int | info.ssi_status);
    channel.status = static_cast<int>(end & 0xFF) << 8;  // the form that WEXITSTATUS() decodes
    channel.sawOpenFiles(end >> 8);
    // The stopped process still has its final descriptor table.
    if (channel.status != 0) channel.sawTable(tableIfAlone(channel.pid));
    channel.reaped++;
    channel.ended = true;
    stop(channel);
  }
}

// Reaps ended processes; with `wait`, at least 1 if there are children. __WALL: a child may have
// been made with another signal than SIGCHLD.
void Runner::reap(bool wait) {
  takeSignals();
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = wait4(-1, &status, __WALL | (wait ? 0 : WNOHANG), &usage);
    if (pid < 0 && errno == EINTR) continue;
    alone_ = pid < 0 && errno == ECHILD;
    if (pid <= 0) return;
    wait = false;
    account(pid, status, usage);
  }
}

// Every orphan becomes ours, so once wait4 knows of no child, nobody is left. In gVisor a process
// can fork past the call: once it has been reaped, the child is there for the next.
void Runner::killRest() {
  while (!alone_) {
    kill(-1, SIGKILL);
    reap(true);
  }
}

// In a session, background processes of a program continue without the program.
void Runner::keepOutput(Channel& channel) {
  if (channel.kernel >= 0) the_kernel_outputs.end(channel.kernel, left_over_);
  if (!channel.windowed || channel.terminal || channel.notes) return;
  left_over_.take(channel.out, channel.pid, "stdout");
  left_over_.take(channel.err, channel.pid, "stderr");
}

void Runner::finish(Channel& channel) {
  keepOutput(channel);
  sendScratch(channel);
  const bool signaled = WIFSIGNALED(channel.status);
  wire::Writer w(link_.payload(), wire::kRunnerMaxPayload);
  w.u8(signaled ? 1 : 0);
  w.u32(static_cast<uint32_t>(signaled ? WTERMSIG(channel.status) : WEXITSTATUS(channel.status)));
  w.u64(channel.user_micros);
  w.u64(channel.system_micros);
  w.u64(channel.max_rss_bytes);
  w.u32(channel.reaped);
  w.u64(channel.read_bytes);
  w.u64(channel.written_bytes);
  link_.commit(FromRunner::kExited, channel.number, w.view().size());
  if (!later_.empty() && later_channel_ == channel.number) {
    collect(later_channel_, std::exchange(later_, {}));
  }
  link_.flush();  // before closing the pipes, for which no client waits
  channel.reset(channel.number);
  channel.used = false;
}

void Runner::begin(Channel& channel) {
  clock_gettime(CLOCK_REALTIME_COARSE, &channel.since);
  if (channel.notes) return;
  channel.begun = true;
  look_.restart();
}

bool Runner::anyWatched() const {
  return std::any_of(std::begin(channels_), std::end(channels_),
                     [](const Channel& channel) { return channel.watched(); });
}

void Runner::lookIfDue() {
  if (anyWatched() && look_.due()) lookAtOpenFiles(channels_, kChannels);
}

// Programs that ignore SIGXFSZ are recognisable only by their failure and their files. In a
// session, files of earlier programs are no sign.
void Runner::sendScratch(const Channel& channel) {
  struct statfs fs{};
  fstatfs(workspace_.get(), &fs);
  const auto block = static_cast<uint64_t>(fs.f_bsize);
  wire::Writer w(link_.payload(), wire::kRunnerMaxPayload);
  w.u64((fs.f_blocks - fs.f_bavail) * block);
  w.u64(fs.f_blocks * block);
  w.u64(fs.f_files - fs.f_ffree);
  w.u64(fs.f_files);
  const bool failed = WIFEXITED(channel.status) && WEXITSTATUS(channel.status) != 0;
  const bool stopped = WIFSIGNALED(channel.status) && WTERMSIG(channel.status) == SIGXFSZ;
  w.u64(failed || stopped ? largestFile(workspace_.get(), channel.since) : 0);
  w.u32(channel.open_files);
  w.u32(channel.file_table);
  link_.commit(FromRunner::kScratch, channel.number, w.view().size());
}

}  // namespace cloister::runner
