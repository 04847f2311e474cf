// SPDX-License-Identifier: Apache-2.0
#include "runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runner/beneath.h"
#include "runner/file_table.h"
#include "runner/files.h"
#include "runner/kernel.h"
#include "runner/kill_tree.h"
#include "runner/nest.h"
#include "runner/other_user.h"
#include "runner/process.h"
#include "runner/runner_impl.h"
#include "runner/stop_rest.h"
#include "runner/terminal.h"
#include "runner/writes.h"
#include "wire/files.h"
#include "wire/kernel.h"

namespace cloister::runner {
namespace {

Runner the_runner;

// Zero at first, which costs no memory until use.
constinit FileTable the_files;  // of the workspace, at kMark
char stdin_bytes[kChannels][wire::kStdinWindow];

[[noreturn]] void systemError() {
  _exit(kExitSystem);
}

[[noreturn]] void refuse(std::string_view why) {
  [[maybe_unused]] const ssize_t n = write(2, why.data(), why.size());
  _exit(kExitUsage);
}

// Programs must see no inherited descriptor, whatever started the runner.
Fd closeInherited(bool adopts) {
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) systemError();
  for (int fd = 0; fd < 3; ++fd) {
    if (null.get() != fd && dup2(null.get(), fd) < 0) systemError();
  }
  unsigned others = adopts ? kAdoptedErr + 1U : wire::kRunnerFd + 1U;
  if (nester() == wire::kNesterFd) others = wire::kNesterFd + 1U;
  if (syscall(SYS_close_range, others, kLastFd, 0U) != 0) systemError();
  if (nester() >= 0 && fcntl(nester(), F_SETFD, FD_CLOEXEC) != 0) systemError();
  if (fcntl(wire::kRunnerFd, F_SETFD, FD_CLOEXEC) != 0) systemError();
  for (int fd = kAdoptedGo; adopts && fd <= kAdoptedErr; ++fd) {
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) systemError();
  }
  [[maybe_unused]] const int was = null.release();  // closed above, or numbered 0 to 2
  Fd kept(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!kept) systemError();
  return kept;
}

// Children inherit dispositions, so reset all; the mask blocks all signals.
Fd openSignals() {
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, SIG_DFL);
  sigset_t set;
  sigfillset(&set);
  if (sigprocmask(SIG_SETMASK, &set, nullptr) != 0) systemError();
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, kAdoptedDone);
  Fd fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) systemError();
  return fd;
}

}  // namespace

void Runner::start(const char* adopted, const char* writes) {
  if (getpid() != 1) refuse("cloister-runner: runs only as pid 1 of a sandbox\n");
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(wire::kRunnerFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM)
    refuse("cloister-runner: fd 3 is not a stream socket\n");
  if (prctl(PR_SET_DUMPABLE, 0) != 0) systemError();
  prctl(PR_SET_NAME, "cloister-runner");  // the runner runs from a memfd, whose name is meaningless
  if (adopted != nullptr) adopted_ = atoi(adopted);
  if (cpu_set_t ours; adopted_ > 0 && sched_getaffinity(0, sizeof ours, &ours) == 0) {
    sched_setaffinity(adopted_, sizeof ours, &ours);  // a process made elsewhere
  }
  null_ = closeInherited(adopted != nullptr);
  if (writes != nullptr && !limitWrites(writes)) {
    refuse("cloister-runner: the kernel cannot hold programs to what they may write\n");
  }
  signals_ = openSignals();
  umask(kUmask);
  workspace_.reset(open(kWorkspace, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!workspace_ || chdir(kWorkspace) != 0) systemError();
  for (size_t i = 0; i < kChannels; ++i)
    channels_[i].pending.use(stdin_bytes[i]);
  link_.open(wire::kRunnerFd);
  hello();
}

void Runner::hello() {
  wire::Writer w(link_.payload(), sizeof(uint32_t));
  w.u32(static_cast<uint32_t>(getpid()));
  link_.commit(FromRunner::kHello, 0, w.view().size());
}

void Runner::rest() {
  link_.send(FromRunner::kResting, 0);
  link_.finish();
  wire::FrameHeader header;
  std::string_view payload;
  link_.await(header, payload);
  if (header.type != static_cast<uint16_t>(ToRunner::kGoOn) || !payload.empty()) protocolError();
  hello();
}

void Runner::loop() {
  for (;;) {
    link_.flush();
    pollfd fds[2 + kPolled];
    const size_t count = fillPoll(fds);
    if (poll(fds, count, anyWatched() ? look_.untilDue() : -1) < 0 && errno != EINTR) systemError();
    notePoll(fds, count);
    lookIfDue();
    if ((fds[1].revents & POLLIN) != 0) reap(false);
    if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      link_.receive();
      wire::FrameHeader header;
      for (std::string_view payload; link_.next(header, payload);)
        handle(header, payload);
    }
    serve();
  }
}

size_t Runner::fillPoll(pollfd* fds) {
  static bool no_matter;
  size_t n = 0;
  const auto add = [&](const Fd& fd, short events, bool& ready) {
    ready = false;
    polled_[n - 2] = &ready;
    fds[n++] = {fd.get(), events, 0};
  };
  fds[n++] = {link_.fd(), static_cast<short>(POLLIN | (link_.wantsWrite() ? POLLOUT : 0)), 0};
  fds[n++] = {signals_.get(), POLLIN, 0};
  const bool room = link_.hasRoom();
  for (Channel& channel : channels_) {
    if (!channel.used) continue;
    if (channel.in && !channel.pending.empty()) add(channel.in, POLLOUT, no_matter);
    const bool may_send = room && channel.allowance() > 0;
    if (may_send && channel.out) add(channel.out, POLLIN, channel.out_ready);
    if (may_send && channel.err) add(channel.err, POLLIN, channel.err_ready);
  }
  const auto read = [&](const Fd& fd, bool& ready) { add(fd, POLLIN, ready); };
  left_over_.each(read);
  the_kernel_outputs.each(read);
  return n;
}

void Runner::notePoll(const pollfd* fds, size_t count) {
  for (size_t i = 2; i < count; ++i)
    *polled_[i - 2] = fds[i].revents != 0;
}

// A round over the channels: input, output, and the end of ended channels.
void Runner::serve() {
  left_over_.serve();
  the_kernel_outputs.serve();
  for (Channel& channel : channels_) {
    if (!channel.used) continue;
    channel.feed();
    tellTaken(channel);
    if (channel.ended) continue;
    if (channel.out_ready && link_.hasRoom()) relay(channel, channel.out, FromRunner::kStdout);
    if (channel.err_ready && link_.hasRoom()) relay(channel, channel.err, FromRunner::kStderr);
  }
  for (Channel& channel : channels_) {
    if (channel.used && channel.ended && channel.kill_rest) {
      killRest();  // may end other channels
      break;
    }
  }
  for (Channel& channel : channels_) {
    if (channel.used && channel.ended && drain(channel)) finish(channel);
  }
}

void Runner::handle(const wire::FrameHeader& header, std::string_view payload) {
  switch (static_cast<ToRunner>(header.type)) {
    case ToRunner::kFile:
      return onFile(header.channel, payload);
    case ToRunner::kFileData:
      return onFileData(header.channel, payload);
    case ToRunner::kText:
      return onText(header.channel, payload);
    case ToRunner::kStart:
      return onStart(header.channel, payload);
    case ToRunner::kStdin:
      return onStdin(header.channel, payload);
    case ToRunner::kSignal:
      return onSignal(header.channel, payload);
    case ToRunner::kCollect:
      return onCollect(header.channel, payload);
    case ToRunner::kGroups:
      return onGroups(header.channel, payload);
    case ToRunner::kTaken:
      return onTaken(header.channel, payload);
    case ToRunner::kKill:
      return onKill(header.channel, payload);
    case ToRunner::kResize:
      return onResize(header.channel, payload);
    case ToRunner::kMark:
      if (!payload.empty()) protocolError();
      return markFiles(workspace_.get(), the_files);
    case ToRunner::kRest:
      if (!payload.empty()) protocolError();
      return rest();
    case ToRunner::kWritable:
      if (!setWritable(payload)) protocolError();
      return;
    case ToRunner::kRemove:
      return onRemove(payload);
    case ToRunner::kGoOn:  // from nothing
      break;
  }
  protocolError();
}

void Runner::onText(uint32_t channel, std::string_view payload) {
  wire::Reader r(payload);
  const uint8_t kind = r.u8();
  const uint8_t more = r.u8();
  if (!r.ok() || kind > 1 || more > 1 || (text_begun_ && channel != text_channel_)) protocolError();
  text_begun_ = true;
  text_channel_ = channel;
  payload.remove_prefix(2);
  if (!text_.add(static_cast<TextKind>(kind), more != 0, payload)) protocolError();
}

namespace {
constexpr uint8_t kNotOnTerminal = wire::kStartStdin | wire::kStartFifo | wire::kStartFiles;

// Whether a built-in program changes nothing in the workspace, however long running.
bool onlyServes(std::string_view verb) {
  constexpr std::string_view kVerbs[] = {
      "watch", "tools", "connect", "state",   "read",
      "list",  "stat",  "clock",   "changed", wire::files::kNest};
  return std::ranges::find(kVerbs, verb) != std::end(kVerbs);
}
}  // namespace

void Runner::onStart(uint32_t number, std::string_view payload) {
  wire::Reader r(payload);
  const uint8_t flags = r.u8();
  const std::string_view cwd = r.bytes();
  const bool with_fifo = (flags & wire::kStartFifo) != 0;
  const bool with_stdin = (flags & wire::kStartStdin) != 0;
  const std::string_view fifo = with_fifo ? r.bytes() : std::string_view{};
  const bool adopts = (flags & wire::kStartAdopted) != 0;
  const bool terminal = (flags & wire::kStartTerminal) != 0;
  cols_ = terminal ? r.u16() : 0;
  rows_ = terminal ? r.u16() : 0;
  const bool known =
      adopts ? flags <= (wire::kStartAdopted | wire::kStartKillRest) &&
                   (flags & (wire::kStartStdin | wire::kStartFifo)) == 0
             : (flags & ~(wire::kStartStdin | wire::kStartKillRest | wire::kStartFifo |
                          wire::kStartWindow | wire::kStartFiles | wire::kStartTerminal)) == 0 &&
                   (!terminal || (flags & kNotOnTerminal) == 0);
  if (!r.done() || !known || cwd.size() >= PATH_MAX || cwd.contains('\0')) protocolError();
  if (with_fifo && (with_stdin || !isPlainPath(fifo) || fifo.contains('/') ||
                    fifo.size() > NAME_MAX || fifo_[0] != '\0'))
    protocolError();
  if (find(number) != nullptr || (text_begun_ && (adopts || number != text_channel_)) ||
      (group_count_ > 0 && (adopts || number != groups_channel_)))
    protocolError();
  char directory[PATH_MAX];
  std::memcpy(directory, cwd.data(), cwd.size());
  directory[cwd.size()] = '\0';
  Channel* channel = freeChannel();
  if (channel == nullptr) {
    startFailed(number, EAGAIN, "channels");
  } else if (!adopts && text_.error() != 0) {
    startFailed(number, text_.error(), "arguments");
  } else {
    channel->reset(number);
    channel->kill_rest = (flags & wire::kStartKillRest) != 0;
    channel->windowed = (flags & wire::kStartWindow) != 0;
    if (with_fifo) *std::ranges::copy(fifo, fifo_).out = '\0';
    if (adopts) {
      adopt(*channel);
    } else if (terminal) {
      launchTerminal(*channel, cwd.empty() ? kWorkspace : directory);
    } else {
      launch(*channel, flags, cwd.empty() ? kWorkspace : directory);
    }
  }
  text_.clear();
  text_begun_ = false;
  while (group_count_ > 0)
    groups_[--group_count_].reset();
}

namespace {

bool isNest(char** argv) {
  return std::string_view(argv[0]) == wire::files::kNest;
}

int runOwn(int fd, char** argv) {
  if (isNest(argv)) return nest(fd, argv);
  if (wire::kernel::kKernel == argv[0]) return becomeKernel(argv);
  if (wire::kernel::kCell == argv[0]) return runCell(argv);
  return serveFiles(fd, argv);
}

// Starts a built-in program of the runner; its environment is the process's.
Spawned spawnOwn(CommandText& text, int workspace, const Stdio& stdio, const Groups& groups) {
  environ = text.envp();
  const int fd = isNest(text.argv()) ? nester() : workspace;
  if (fd < 0) return {-1, ENOSYS, "nest"};
  return spawn(runOwn, fd, text.argv(), stdio, groups);
}

// A pipe whose end kept here does not block, while the program's does, as programs expect.
bool makePipe(Fd& ours, Fd& theirs, bool we_write) {
  int ends[2];
  const AsProgramUser as_program_user;
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  ours.reset(ends[we_write ? 1 : 0]);
  theirs.reset(ends[we_write ? 0 : 1]);
  return fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0;
}

int openProgramTerminal(Fd& ours, Fd& theirs, uint16_t cols, uint16_t rows) {
  const AsProgramUser as_program_user;
  return openTerminal(ours, theirs, cols, rows);
}

// Prepares a program: write permissions, and git's trust in repositories of another user.
int prepareLimits(CommandText& text) {
  constexpr std::string_view kTrust[] = {"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
                                         "GIT_CONFIG_VALUE_0=*"};
  for (const std::string_view variable : kTrust) {
    if (usersAreSplit()) text.add(TextKind::kEnvironment, false, variable);
  }
  return prepareWriteLimits();
}

}  // namespace

// Open for reading too, so that the runner can open and write before the program opens the FIFO.
bool Runner::makeFifo(Fd& ours) {
  const mode_t mode = usersAreSplit() ? 0640 : 0600;  // the program is of the group alone
  if (mknodat(workspace_.get(), fifo_, S_IFIFO | mode, 0) != 0) return false;
  ours.reset(openat(workspace_.get(), fifo_, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  return static_cast<bool>(ours);
}

// Opens the destination of the channel's stdin bytes, and the program's end of stdin, if separate.
bool Runner::openInput(Channel& channel, uint8_t flags, Fd& theirs) {
  if ((flags & wire::kStartStdin) != 0) return makePipe(channel.in, theirs, true);
  return (flags & wire::kStartFifo) == 0 || makeFifo(channel.in);
}

void Runner::launch(Channel& channel, uint8_t flags, const char* cwd) {
  Fd in;
  Fd out;
  Fd err;
  if (!openInput(channel, flags, in) || !makePipe(channel.out, out, false) ||
      !makePipe(channel.err, err, false)) {
    const int error = errno;
    channel.reset(channel.number);
    channel.used = false;
    return startFailed(channel.number, error, "pipe");
  }
  const Stdio stdio{in ? in.get() : null_.get(), out.get(), err.get()};
  const Groups groups{groups_, group_count_};
  if ((flags & wire::kStartFifo) != 0) rehearse(channel);
  channel.notes = (flags & wire::kStartFiles) != 0;
  channel.waited = (flags & wire::kStartFifo) != 0;
  if (channel.notes && wire::kernel::kKernel == text_.argv()[0] && text_.argv()[1] != nullptr) {
    the_kernel_outputs.renew(text_.argv()[1], left_over_);
  }
  Spawned spawned{-1, ENOMEM, "mmap"};
  if (const int error = prepareLimits(text_); error != 0) {
    spawned = {-1, error, "landlock"};
  } else if (!channel.notes) {
    spawned = spawn(Command{text_.argv(), text_.envp(), cwd}, stdio, groups);
  } else if (prepareNotes(channel)) {
    noteServers();
    spawned = spawnOwn(text_, workspace_.get(), stdio, groups);
  }
  if (spawned.error != 0) {
    channel.reset(channel.number);
    channel.used = false;
    return startFailed(channel.number, spawned.error, spawned.what);
  }
  alone_ = false;
  channel.pid = spawned.pid;
  if (!channel.waited) begin(channel);
  const std::string_view verb = text_.argv()[0];
  channel.saves = channel.notes && verb == "save";
  channel.holds = channel.notes && verb == wire::files::kHold;
  channel.serves = channel.notes && onlyServes(verb);
  if (channel.notes && wire::kernel::kCell == text_.argv()[0] && text_.argv()[1] != nullptr) {
    channel.kernel = the_kernel_outputs.begin(text_.argv()[1]);
  }
  link_.send(FromRunner::kStarted, channel.number);
}

void Runner::noteServers() const {
  forgetServers();
  for (const Channel& each : channels_) {
    if (each.used && each.serves && !each.ended) noteServer(each.pid);
  }
}

// Rehearses, without effects, all calls between the arrival of the code and the program's end: in
// gVisor the first call at a place and the first use of a page cost more than later ones.
void Runner::rehearse(Channel& channel) {
  markFiles(workspace_.get(), the_files);
  the_files.touch(fifo_);
  channel.pending.add(fifo_);
  channel.pending.clear();
  struct statfs fs{};
  fstatfs(workspace_.get(), &fs);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  futimens(-1, nullptr);
  renameat(-1, kStaged, -1, fifo_);
  reap(false);
}

// Prepares the notes of the runner's copy started next.
bool Runner::prepareNotes(const Channel& channel) {
  if (unfinished_ == nullptr) {
    void* memory = mmap(nullptr, kChannels * sizeof(Unfinished), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    unfinished_ = static_cast<Unfinished*>(memory);
  }
  Unfinished& notes = notesOf(channel);
  notes.count = 0;
  noteIn(&notes);
  return true;
}

void Runner::launchTerminal(Channel& channel, const char* cwd) {
  Fd program;
  Spawned spawned{-1, openProgramTerminal(channel.out, program, cols_, rows_), "terminal"};
  if (const int error = prepareLimits(text_); error != 0) spawned = {-1, error, "landlock"};
  if (spawned.error == 0) {
    channel.in.reset(fcntl(channel.out.get(), F_DUPFD_CLOEXEC, 0));
    spawned = spawnOnTerminal(Command{text_.argv(), text_.envp(), cwd}, program.get(),
                              Groups{groups_, group_count_});
  }
  if (spawned.error != 0) {
    channel.reset(channel.number);
    channel.used = false;
    return startFailed(channel.number, spawned.error, spawned.what);
  }
  alone_ = false;
  channel.pid = spawned.pid;
  channel.terminal = true;
  begin(channel);
  link_.send(FromRunner::kStarted, channel.number);
}

void Runner::adopt(Channel& channel) {
  if (adopted_ <= 0) {
    channel.used = false;
    return startFailed(channel.number, ECHILD, "adopt");
  }
  alone_ = false;
  channel.pid = std::exchange(adopted_, -1);
  channel.adopted = true;
  channel.in.reset(kAdoptedGo);
  channel.out.reset(kAdoptedOut);
  channel.err.reset(kAdoptedErr);
  link_.send(FromRunner::kStarted, channel.number);
}

void Runner::startFailed(uint32_t channel, int error, std::string_view what) {
  wire::Writer w(link_.payload(), wire::kRunnerMaxPayload);
  w.u32(static_cast<uint32_t>(error));
  w.bytes(what);
  link_.commit(FromRunner::kStartFailed, channel, w.view().size());
}

void Runner::onStdin(uint32_t number, std::string_view payload) {
  Channel* channel = find(number);
  if (channel == nullptr) return;
  if (channel->stdin_closing) protocolError();
  if (payload.empty()) channel->stdin_closing = true;
  if (!channel->pending.add(payload)) protocolError();
  if (!channel->begun) begin(*channel);
  channel->feed();
}

// Lets the node send more. Without more input to come, the report can wait for the program's end.
void Runner::tellTaken(Channel& channel) {
  const bool all = channel.stdin_closing && channel.pending.empty();
  if (channel.taken == 0 || (all && !channel.ended)) return;
  const uint32_t taken = std::exchange(channel.taken, 0);
  wire::Writer w(link_.payload(), sizeof(uint32_t));
  w.u32(taken);
  link_.commit(FromRunner::kStdinTaken, channel.number, w.view().size());
}

void Runner::onSignal(uint32_t number, std::string_view payload) {
  wire::Reader r(payload);
  const uint32_t signal = r.u32();
  if (!r.done() || signal == 0 || signal >= NSIG) protocolError();
  const Channel* channel = find(number);
  if (channel == nullptr || channel->ended) return;
  // The leader of a terminal's session forwards all signals except SIGKILL.
  if (channel->terminal && signal == SIGKILL) return killTree(channel->pid);
  kill(-channel->pid, static_cast<int>(signal));
}

void Runner::onGroups(uint32_t channel, std::string_view payload) {
  wire::Reader r(payload);
  const uint32_t count = r.u32();
  const bool fits = r.done() && group_count_ == 0 && count > 0 && count <= wire::kMaxGroups;
  if (!fits || !link_.takeFds(groups_, count)) protocolError();
  groups_channel_ = channel;
  group_count_ = count;
}

void Runner::onTaken(uint32_t number, std::string_view payload) {
  wire::Reader r(payload);
  const uint32_t units = r.u32();
  if (!r.done()) protocolError();
  Channel* channel = find(number);
  if (channel == nullptr || !channel->windowed) return;
  if (units > wire::kOutputUnits - channel->window) protocolError();
  channel->window += units;
}

void Runner::onCollect(uint32_t channel, std::string_view payload) {
  if (find(channel) == nullptr) return collect(channel, payload);
  if (!later_.empty()) protocolError();
  later_ = {later_bytes_, payload.copy(later_bytes_, sizeof later_bytes_)};
  later_channel_ = channel;
}

void Runner::collect(uint32_t channel, std::string_view payload) {
  wire::Reader r(payload);
  rules_.max_files = r.u32();
  rules_.max_bytes = r.u64();
  rules_.glob_count = r.u32();
  if (!r.ok() || rules_.glob_count > CollectRules::kMaxGlobs) protocolError();
  for (uint32_t i = 0; i < rules_.glob_count; ++i)
    rules_.globs[i] = r.bytes();
  if (!r.done()) protocolError();
  collectFiles(workspace_.get(), the_files, rules_, channel, link_);
}

Channel* Runner::find(uint32_t number) {
  for (Channel& channel : channels_) {
    if (channel.used && channel.number == number) return &channel;
  }
  return nullptr;
}

void run(const char* adopted, const char* writes) {
  the_runner.start(adopted, writes);
  the_runner.loop();
}

}  // namespace cloister::runner
