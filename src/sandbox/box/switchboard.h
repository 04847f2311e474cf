// SPDX-License-Identifier: Apache-2.0
// Switchboard: the socket of a runner, shared by programs side by side. An incoming frame goes to
// its line and waits there within the line's window (wire::kStartWindow). Outgoing batches are
// written whole, one after the other. A runner that sends a frame for no expecting line has broken
// its protocol, and the sandbox is killed. Always in a shared_ptr. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/signal.h"
#include "base/result.h"
#include "model/terminal_size.h"
#include "runtime/runtime.h"
#include "sandbox/box/live.h"
#include "sandbox/box/runner_channel.h"

namespace cloister::runtime {

// The kind of a line's program, needed by a copy of its runner.
enum class LineUse : uint8_t {
  kProgram,
  kTerminal,
  kKernel,  // wire/kernel.h
  kCell,    // a cell of an interpreter
  kFiles,   // of the runner's own, any other
};

// A running program, as known to a quiet copy of its runner.
struct LineState {
  uint32_t number = 0;
  LineUse use = LineUse::kProgram;
  std::string kernel{};  // of a kernel: its directory
  uint32_t units = 0;    // of output, arrived and not given back
  bool stdin_closed = false;
};

// The node's side of the conversation with a program.
struct Line {
  struct Kept {
    wire::FromRunner type{};
    std::string payload;
  };

  Line(const boost::asio::any_io_executor& executor, uint32_t with_number)
      : number(with_number), changed(executor) {}

  const uint32_t number;   // the runner's channel; never used again
  std::deque<Kept> inbox;  // arrived and not yet taken
  uint32_t units = 0;      // of output, arrived and not given back
  uint32_t taken = 0;      // of these, read from the inbox
  uint32_t giving = 0;     // given back, but not written yet
  LineUse use = LineUse::kProgram;
  std::string kernel{};                  // LineState
  std::shared_ptr<linux::Cgroup> group;  // of its program, if separate
  bool started = false;
  bool over = false;  // its program has ended, as the runner knows
  uint32_t stdin_window = wire::kStdinWindow;
  bool stdin_closed = false;  // by us, or because the program has ended
  // Orders not yet sent to the runner: each signal number once, as in the kernel, and only the last
  // size. So the queue for a slow runner stays bounded.
  uint64_t signals = 0;  // bit N - 1 is signal N
  std::optional<model::TerminalSize> size;
  bool telling = false;
  async::Signal changed;  // a frame more, or a wider window, or the end
};

class Switchboard : public std::enable_shared_from_this<Switchboard> {
 public:
  explicit Switchboard(std::shared_ptr<Live> live);

  // Begins to listen; once.
  void start();

  std::shared_ptr<Line> open();
  // The line of the running interpreter with this directory, or nullptr.
  [[nodiscard]] std::shared_ptr<Line> kernelAt(std::string_view directory) const;
  // Further frames for the line are dropped.
  void close(const std::shared_ptr<Line>& line);
  // The line's next frame; kUnavailable when nothing comes any more.
  Task<Result<Line::Kept>> next(Line& line);

  Task<Result<>> send(std::string frames);
  // A few frames, kMaxWithFds bytes, with descriptors.
  Task<Result<>> sendWithFds(std::string frames, std::vector<int> fds);

  // To the line's program, some time soon.
  void signal(const std::shared_ptr<Line>& line, int number);
  void resize(const std::shared_ptr<Line>& line, model::TerminalSize size);

  // The right to send the several frames of a start without frames of another start in between.
  // Held for the object's lifetime.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<Switchboard> board) : board_(std::move(board)) {}
    Turn(Turn&&) = default;
    Turn& operator=(Turn&&) = delete;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (board_) board_->endTurn();
    }

   private:
    std::shared_ptr<Switchboard> board_;
  };
  Task<Turn> turn();

  // Pauses the conversation until goOn(): the runner sends nothing, and frames to send wait. A copy
  // of the runner's memory continues from the returned lines. Call goOn() if and only if rest()
  // succeeded; after a failure the sandbox has ended or is ending.
  Task<Result<std::vector<LineState>>> rest();
  Task<Result<>> goOn();
  // In a copy, before start(): the line of a program that runs in the copy.
  std::shared_ptr<Line> takeOver(const LineState& state);

  // Nothing comes any more, and why: kTornDown after hangUp().
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] const model::SandboxEnd& why() const { return why_; }
  Task<void> waitEnd();
  // The sandbox is being torn down.
  void hangUp();

 private:
  // The state of a rest.
  enum class Turning : uint8_t { kRunning, kToRest, kResting, kToRun };

  Task<void> listen();
  Task<Result<>> change(wire::ToRunner order, Turning until);
  Result<> onSandbox(const RunnerFrame& frame);
  void tellSoon(const std::shared_ptr<Line>& line);
  static Task<void> tell(std::shared_ptr<Switchboard> self, std::shared_ptr<Line> line);
  Result<> deliver(const RunnerFrame& frame);
  Task<void> beginWriting();
  void endWriting();
  void endTurn();
  void end(model::SandboxEnd why);

  std::shared_ptr<Live> live_;
  std::map<uint32_t, std::weak_ptr<Line>> lines_;
  uint32_t next_number_ = 1;
  bool writing_ = false;
  Turning turning_ = Turning::kRunning;
  bool in_turn_ = false;
  bool ended_ = false;
  model::SandboxEnd why_;
  async::Signal changed_;  // a write or a turn has ended, or all has
};

}  // namespace cloister::runtime
