// SPDX-License-Identifier: Apache-2.0
#include "runner/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <string_view>

#include <stdio.h>

#include "base/fd.h"
#include "runner/kernel_output.h"
#include "runner/other_user.h"
#include "runner/process.h"
#include "runner/writes.h"
#include "wire/codec.h"
#include "wire/kernel.h"

namespace cloister::runner {
namespace {

using wire::kernel::Frame;
using wire::kernel::kFrameHead;
using wire::kernel::kMaxFrame;

constexpr int kCannotBegin = 127;  // as in a shell
constexpr int kNotTold = 70;       // the kernel did not say how the cell ended
constexpr const char* kFifos[] = {"code", "in", "out", "err", "report"};
constexpr char kCellFile[] = "cell";

volatile sig_atomic_t the_kernel_is_gone = 0;

bool pathIn(const char* dir, const char* name, char (&path)[PATH_MAX]) {
  const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
  return n > 0 && static_cast<size_t>(n) < sizeof path;
}

Fd openFifoFor(const char* dir, const char* name, int flags) {
  char path[PATH_MAX];
  if (!pathIn(dir, name, path)) return Fd();
  Fd fd(open(path, flags | O_NOFOLLOW | O_CLOEXEC));
  struct stat st{};
  if (fd && (fstat(fd.get(), &st) != 0 || !S_ISFIFO(st.st_mode))) fd.reset();
  return fd;
}

// Open for both directions: the open does not wait for a peer, and the FIFO never ends by itself.
Fd openFifo(const char* dir, const char* name, int flags) {
  return openFifoFor(dir, name, O_RDWR | flags);
}

// Only a single cell may use an interpreter at a time. The control plane ensures the order, except
// for cells of a session resumed from a memory image, which would read the next cell's frames.
// Closing the directory releases the lock. Polls, since flock(2) cannot wait for an otherwise
// blocked signal; nearly always the first try succeeds.
Fd waitForTurn(const char* dir) {
  sigset_t none;
  sigemptyset(&none);
  Fd turn(open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  while (turn && flock(turn.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || the_kernel_is_gone != 0) return Fd();
    const timespec pause{0, 20'000'000};
    ppoll(nullptr, 0, &pause, &none);
  }
  return turn;
}

// The interpreter may be another user, in the same group.
class WithGroup {
 public:
  WithGroup() : before_(umask(007)) {}
  WithGroup(const WithGroup&) = delete;
  WithGroup& operator=(const WithGroup&) = delete;
  ~WithGroup() { umask(before_); }

 private:
  mode_t before_;
};

// Does not follow a link in the place of `dir`, which a program may have made: its target may be
// closed to programs.
int makeFifos(const char* dir) {
  const WithGroup with_group;
  const mode_t shared = usersAreSplit() ? 0060 : 0;
  if (mkdir(dir, shared != 0 ? 0750 : 0700) != 0 && errno != EEXIST) return errno;
  const Fd in(open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!in) return errno;
  for (const char* name : kFifos) {
    if (unlinkat(in.get(), name, 0) != 0 && errno != ENOENT) return errno;
    if (mknodat(in.get(), name, S_IFIFO | 0600 | shared, 0) != 0) return errno;
  }
  if (unlinkat(in.get(), kCellFile, 0) != 0 && errno != ENOENT) return errno;
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return Fd(openat(in.get(), kCellFile, kNew, 0600 | shared)) ? 0 : errno;
}

int failKernel(int out, const char* what, int error) {
  dprintf(out, "%s: %s\n", what, strerror(error));
  return kCannotBegin;
}

bool writeAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno != EINTR) return false;
    if (n < 0) continue;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

using Tag = char[wire::kernel::kTagSize + 1];  // and the end of its line

bool makeTag(Tag& tag) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return false;
  char text[sizeof tag + 1];
  snprintf(text, sizeof text, "%016llx\n", static_cast<unsigned long long>(random));
  std::memcpy(tag, text, sizeof tag);
  return true;
}

// An interpreter's report about the cell with this tag, parsed piece by piece.
class Report {
 public:
  explicit Report(std::string_view tag) : tag_(tag) {}

  enum class Said : uint8_t { kNothing, kBegun, kResult, kPiece, kDone, kNonsense };

  // Takes a statement off the front of `bytes`. `number` and `piece` receive its content.
  Said take(std::string_view& bytes, uint32_t& number, std::string_view& piece) {
    if (bytes.empty()) return Said::kNothing;
    if (left_ > 0) {
      piece = bytes.substr(0, left_);
      bytes.remove_prefix(piece.size());
      left_ -= static_cast<uint32_t>(piece.size());
      return late_ ? Said::kNothing : Said::kPiece;
    }
    while (!bytes.empty()) {
      const char c = bytes.front();
      bytes.remove_prefix(1);
      if (c == '\n') return line(number);
      if (size_ == sizeof line_) return Said::kNonsense;
      line_[size_++] = c;
    }
    return Said::kNothing;
  }

 private:
  Said line(uint32_t& number) {
    std::string_view text(line_, size_);
    size_ = 0;
    if (text.size() < tag_.size() + 2 || text[text.size() - tag_.size() - 1] != ' ') {
      return Said::kNonsense;
    }
    late_ = !text.ends_with(tag_);
    text.remove_suffix(tag_.size() + 1);
    const Said said = word(text, number);
    return late_ && said != Said::kNonsense ? Said::kNothing : said;
  }

  Said word(std::string_view text, uint32_t& number) {
    if (text == "B") return Said::kBegun;
    if (text.size() < 2 || (text[0] != 'R' && text[0] != 'D')) return Said::kNonsense;
    number = 0;
    for (const char c : text.substr(1)) {
      if (c < '0' || c > '9') return Said::kNonsense;
      number = number * 10 + static_cast<uint32_t>(c - '0');
      if (number > wire::kernel::kMaxResult) return Said::kNonsense;
    }
    if (text[0] == 'D') return number <= 255 ? Said::kDone : Said::kNonsense;
    left_ = number;
    return number > 0 ? Said::kResult : Said::kNonsense;
  }

  std::string_view tag_;
  char line_[16 + wire::kernel::kTagSize];
  size_t size_ = 0;
  uint32_t left_ = 0;  // of a result
  bool late_ = false;  // the current part belongs to another cell
};

char the_buffer[kFrameHead + kMaxFrame];  // of this process's single cell

class Cell {
 public:
  // `tag`: a line of its own, which must outlive the object.
  Cell(const char* dir, std::string_view tag, const char* code)
      : tag_(tag), code_(code, std::strlen(code) + 1), report_(tag.substr(0, tag.size() - 1)) {
    sigemptyset(&none_);
    for (size_t i = 0; i < kCount; ++i)
      fifos_[i] = openFifo(dir, kFifos[i], O_NONBLOCK);
  }

  // `before`: output of the interpreter before this cell, or nullptr.
  int run(const KernelOutputs::Stream* before) {
    for (const Fd& fifo : fifos_) {
      if (!fifo) return kCannotBegin;
    }
    for (int i = 0; before != nullptr && i < 2; ++i)
      passBefore(*before[i].tail, i == 0 ? Frame::kStdout : Frame::kStderr);
    while (!done_ && !broken_ && the_kernel_is_gone == 0)
      step();
    drain();
    if (!done_ || broken_) return kNotTold;
    return number(Frame::kDone, code_number_) ? static_cast<int>(code_number_) : kNotTold;
  }

 private:
  enum Fifo : uint8_t { kCode, kIn, kOut, kErr, kReport, kCount };

  [[nodiscard]] int fd(Fifo which) const { return fifos_[which].get(); }

  void step() {
    const bool feeds = begun_ && fifos_[kIn];
    pollfd fds[] = {{fd(kOut), POLLIN, 0},
                    {fd(kErr), POLLIN, 0},
                    {fd(kReport), POLLIN, 0},
                    {code_.empty() ? -1 : fd(kCode), POLLOUT, 0},
                    {feeds && input_.empty() ? STDIN_FILENO : -1, POLLIN, 0},
                    {feeds && !input_.empty() ? fd(kIn) : -1, POLLOUT, 0}};
    if (ppoll(fds, sizeof fds / sizeof *fds, nullptr, &none_) < 0) return;
    if (fds[0].revents != 0) pass(kOut, Frame::kStdout);
    if (fds[1].revents != 0) pass(kErr, Frame::kStderr);
    if (fds[3].revents != 0) hand();
    if (fds[4].revents != 0) readInput();
    if (fds[5].revents != 0) feed();
    if (fds[2].revents != 0) hear();
  }

  // Sends available data of a stream as a frame. False without data.
  bool pass(Fifo from, Frame type) {
    const ssize_t n = read(fd(from), the_buffer + kFrameHead, kMaxFrame);
    if (n <= 0) return false;
    return send(type, static_cast<size_t>(n));
  }

  void passBefore(const Tail& tail, Frame type) {
    char note[96];
    const int n =
        snprintf(note, sizeof note, "[cloister: %llu bytes of what ran on are left out]\n",
                 static_cast<unsigned long long>(tail.lost()));
    const std::string_view lost(note, tail.lost() > 0 ? static_cast<size_t>(n) : 0);
    for (const std::string_view part : {lost, tail.older(), tail.newer()}) {
      if (part.empty() || broken_) continue;
      std::memcpy(the_buffer + kFrameHead, part.data(), part.size());
      send(type, part.size());
    }
  }

  // The first `size` bytes behind the head in the buffer.
  bool send(Frame type, size_t size) {
    wire::Writer w(the_buffer, kFrameHead);
    w.u8(static_cast<uint8_t>(type));
    w.u32(static_cast<uint32_t>(size));
    if (!writeAll(STDOUT_FILENO, the_buffer, kFrameHead + size)) broken_ = true;
    return !broken_;
  }

  bool number(Frame type, uint32_t value) {
    wire::Writer(the_buffer + kFrameHead, sizeof value).u32(value);
    return send(type, sizeof value);
  }

  void hand() {
    std::string_view& next = tag_.empty() ? code_ : tag_;
    const ssize_t n = write(fd(kCode), next.data(), next.size());
    if (n > 0) next.remove_prefix(static_cast<size_t>(n));
  }

  void readInput() {
    const ssize_t n = read(STDIN_FILENO, input_bytes_, sizeof input_bytes_);
    if (n > 0) input_ = {input_bytes_, static_cast<size_t>(n)};
    if (n == 0) fifos_[kIn].reset();  // the interpreter has the FIFO open, and sees the end
  }

  void feed() {
    const ssize_t n = write(fd(kIn), input_.data(), input_.size());
    if (n > 0) input_.remove_prefix(static_cast<size_t>(n));
    if (n < 0 && errno == EPIPE) fifos_[kIn].reset();
  }

  void hear() {
    char bytes[4096];
    const ssize_t n = read(fd(kReport), bytes, sizeof bytes);
    if (n <= 0) return;
    std::string_view rest(bytes, static_cast<size_t>(n));
    while (!rest.empty() && !done_ && !broken_)
      hearOne(rest);
  }

  void hearOne(std::string_view& rest) {
    uint32_t value = 0;
    std::string_view piece;
    switch (report_.take(rest, value, piece)) {
      case Report::Said::kNothing:
        return;
      case Report::Said::kBegun:
        begun_ = true;
        fifos_[kCode].reset();
        code_ = {};
        send(Frame::kBegun, 0);
        return;
      case Report::Said::kResult:
        number(Frame::kResult, value);
        return;
      case Report::Said::kPiece:
        std::memcpy(the_buffer + kFrameHead, piece.data(), piece.size());
        send(Frame::kPiece, piece.size());
        return;
      case Report::Said::kDone:
        done_ = true;
        code_number_ = value;
        return;
      case Report::Said::kNonsense:
        broken_ = true;
        return;
    }
  }

  // Sends output written before the interpreter's report of completion. At most as much as the
  // pipes hold, since background processes may continue to write.
  void drain() {
    for (const auto& [from, type] : {Stream{kOut, Frame::kStdout}, Stream{kErr, Frame::kStderr}}) {
      for (int i = 0; i < kDrains && pass(from, type); ++i) {
      }
    }
  }

  struct Stream {
    Fifo from;
    Frame type;
  };
  static constexpr int kDrains = 20;

  Fd fifos_[kCount];
  sigset_t none_;         // signals blocked while waiting: SIGTERM is delivered only then
  std::string_view tag_;  // the unsent rest, as the next
  std::string_view code_;
  std::string_view input_;
  char input_bytes_[4096];
  Report report_;
  bool begun_ = false;
  bool done_ = false;
  bool broken_ = false;
  uint32_t code_number_ = 0;
};

}  // namespace

int becomeKernel(char** argv) {
  if (argv[1] == nullptr || argv[2] == nullptr || argv[3] == nullptr) return kCannotBegin;
  const char* dir = argv[1];
  const Fd said(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (const int error = makeFifos(dir); error != 0) return failKernel(said.get(), dir, error);
  const Fd out = openFifo(dir, "out", 0);
  const Fd err = openFifo(dir, "err", 0);
  if (!said || !out || !err || dup2(out.get(), STDOUT_FILENO) < 0 ||
      dup2(err.get(), STDERR_FILENO) < 0)
    return failKernel(said.get(), dir, errno);
  if (chdir(argv[2]) != 0) return failKernel(said.get(), argv[2], errno);
  const std::string_view ready = wire::kernel::kReady;
  if (!writeAll(said.get(), ready.data(), ready.size())) return kCannotBegin;
  int limited = allowWritingBeneath(dir);
  if (limited == 0) limited = enterWriteLimits();
  if (limited != 0) return failKernel(said.get(), "landlock", limited);
  return failKernel(said.get(), argv[3], execInPath({argv + 3, environ, nullptr}));
}

Fd openKernelFifo(const char* dir, const char* name) {
  return openFifoFor(dir, name, O_RDONLY | O_NONBLOCK);
}

int runCell(char** argv) {
  if (argv[1] == nullptr || argv[2] == nullptr || argv[3] != nullptr) return kCannotBegin;
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  struct sigaction gone{};
  gone.sa_handler = [](int) { the_kernel_is_gone = 1; };
  sigaction(SIGTERM, &gone, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Tag tag;
  const Fd turn = waitForTurn(argv[1]);
  if (!turn || !makeTag(tag)) return kCannotBegin;
  Cell cell(argv[1], {tag, sizeof tag}, argv[2]);
  return cell.run(the_kernel_outputs.before(argv[1]));
}

}  // namespace cloister::runner
