// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/session_run.h"

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "model/escalation.h"
#include "sandbox/box/limit_hits.h"
#include "sandbox/box/prestart.h"
#include "wire/kernel.h"

namespace cloister::runtime {
namespace {

using model::End;
using wire::FromRunner;
using wire::ToRunner;

// Frames are collected up to this size before a write.
constexpr size_t kBatch = size_t{256} << 10;

LineUse useOf(const model::ExecSpec& spec) {
  if (spec.terminal) return LineUse::kTerminal;
  if (!spec.for_files) return LineUse::kProgram;
  const std::string_view verb = spec.run.argv.empty() ? "" : std::string_view(spec.run.argv[0]);
  if (verb == wire::kernel::kKernel) return LineUse::kKernel;
  return verb == wire::kernel::kCell ? LineUse::kCell : LineUse::kFiles;
}

std::string numberFrame(ToRunner type, uint32_t line, uint32_t value) {
  char bytes[sizeof value];
  wire::Writer(bytes, sizeof bytes).u32(value);
  std::string frame;
  addFrame(frame, type, line, {bytes, sizeof bytes});
  return frame;
}

}  // namespace

SessionRun::SessionRun(std::shared_ptr<Live> live, std::shared_ptr<Switchboard> board,
                       model::ExecSpec spec, model::Limits limits, std::shared_ptr<Line> attached,
                       std::shared_ptr<HoldGate> gate)
    : live_(std::move(live)),
      board_(std::move(board)),
      spec_(std::move(spec)),
      limits_(limits),
      line_(std::move(attached)),
      gate_(std::move(gate)),
      passes_(gate_ && gate_->closed ? gate_->count : 0),
      attached_(line_ != nullptr),
      wall_timer_(live_->executor()),
      usage_timer_(live_->executor()),
      input_changed_(live_->executor()) {}

SessionRun::~SessionRun() {
  if (group_ != nullptr) live_->giveBack(group_);
}

Task<Result<model::Outcome>> SessionRun::run(ExecObserver& observer) {
  const auto self = shared_from_this();
  std::optional<WorkspaceUse> use;
  const LineUse kind = useOf(spec_);
  is_program_ = kind != LineUse::kKernel && kind != LineUse::kFiles;
  if (is_program_) use.emplace(live_->workspaceState());
  outcome_.started_at = base::wallMicros();
  started_at_ = base::monotonicNow();
  before_ = live_->events();
  auto group = live_->split();
  if (!group) co_return std::unexpected(std::move(group).error().within("running in a session"));
  group_ = *std::move(group);
  watchUsage(observer);
  if (!cause_) co_await compile(observer);
  if (!cause_ && !outcome_.compile_failed) co_await command(spec_.run, true, observer);
  done_ = true;
  wall_timer_.cancel();
  usage_timer_.cancel();
  input_changed_.notify();
  co_await clear();
  if (refused_) co_return std::unexpected(*std::move(refused_));
  compose();
  co_return std::move(outcome_);
}

// If the program was ended, wait until all its processes are gone before reporting the end.
Task<void> SessionRun::clear() {
  if (cause_ && group_ != nullptr && !board_->ended()) co_await killUntilGone(live_, group_);
}

Task<void> SessionRun::killUntilGone(std::shared_ptr<Live> live,
                                     std::shared_ptr<linux::Cgroup> group) {
  boost::asio::steady_timer pause(live->executor());
  for (auto wait = std::chrono::milliseconds(1); wait < live->patience(); wait *= 2) {
    group->kill();
    if (group->empty()) co_return;
    pause.expires_after(wait);
    co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

void SessionRun::stop(End end, std::string message) {
  if (cause_ || done_) return;
  cause_ = end;
  outcome_.message = std::move(message);
  if (group_ != nullptr) io_.atLeast(group_->io());  // the counters end with the processes
  kill();
  if (group_ != nullptr) {
    async::spawn(live_->executor(), killUntilReported(weak_from_this(), live_->executor()));
  }
  // Treat a runner that does not report the end as lost.
  armWall(live_->startGrace());
}

// The runner's built-in programs start before joining the group, so a kill at that moment misses
// them. Repeat the kill.
Task<void> SessionRun::killUntilReported(std::weak_ptr<SessionRun> weak,
                                         boost::asio::any_io_executor executor) {
  constexpr std::chrono::milliseconds kSlowest{200};
  boost::asio::steady_timer pause(executor);
  for (std::chrono::milliseconds wait{1};; wait = std::min(2 * wait, kSlowest)) {
    pause.expires_after(wait);
    co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    const auto self = weak.lock();
    if (!self || self->done_ || self->report_ || self->board_->ended()) co_return;
    self->group_->kill();
  }
}

void SessionRun::kill() {
  if (group_ != nullptr) group_->kill();
  if (group_ == nullptr && line_) {
    std::string frame;
    addFrame(frame, ToRunner::kKill, line_->number, {});
    async::spawn(live_->executor(),
                 [](std::shared_ptr<Switchboard> board, std::string out) -> Task<void> {
                   std::ignore = co_await board->send(std::move(out));
                 }(board_, std::move(frame)));
  }
}

Task<void> SessionRun::compile(ExecObserver& observer) {
  if (spec_.compile.empty()) co_return;
  compiling_ = true;
  const auto begin = base::monotonicNow();
  outcome_.compile.emplace();
  for (const model::Command& step : spec_.compile) {
    const bool exited = co_await command(step, false, observer);
    outcome_.compile->wall_ms =
        std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
    if (report_)
      outcome_.compile->exit_code = report_->signaled ? 128 + report_->value : report_->value;
    outcome_.compile_failed = !exited || outcome_.compile->exit_code != 0;
    if (outcome_.compile_failed) break;
  }
  compiling_ = false;
}

Task<bool> SessionRun::command(const model::Command& command, bool with_input,
                               ExecObserver& observer) {
  if (!attached_) line_ = board_->open();
  report_.reset();
  too_many_ = {};
  no_space_ = {};
  program_ = command.argv.front();
  started_ = begun_ = false;
  wall_ = command.timeout.count() > 0 ? command.timeout : limits_.wall;
  armWall(wall_ + live_->startGrace());
  if (attached_) {
    co_await attach(observer);
  } else if (auto sent = co_await start(command, with_input); !sent) {
    if (!begun_ && !cause_) {  // no part of the command was sent
      refused_ = std::move(sent).error();
      cause_ = End::kStartFailed;
    }
    if (!begun_) {
      wall_timer_.cancel();
      board_->close(line_);
      co_return false;
    }
    stop(End::kRunnerLost, sent.error().message);
  }
  co_await relay(observer);
  starting_.reset();
  armWall(live_->startGrace());  // a runner that does not read blocks the input
  line_->stdin_closed = true;
  line_->changed.notify();
  while (feeding_)
    co_await input_changed_.wait();
  wall_timer_.cancel();
  board_->close(line_);
  co_return report_ && !cause_;
}

// The interpreter sent its ready message before the image was taken, so send the message again.
Task<void> SessionRun::attach(ExecObserver& observer) {
  started_ = true;
  armWall(wall_);
  line_->group = group_;
  observer.onStarted();
  co_await observer.onOutput(model::Stream::kStdout, wire::kernel::kReady);
}

// Sends files, command and start without frames of another start in between.
Task<Result<>> SessionRun::start(const model::Command& command, bool with_input) {
  line_->use = useOf(spec_);
  line_->group = group_;
  if (line_->use == LineUse::kKernel && command.argv.size() > 1) line_->kernel = command.argv[1];
  if (line_->use == LineUse::kCell && command.argv.size() > 1) beginCell(command.argv[1]);
  const auto turn = CO_TRY(co_await this->turn());
  if (cause_) co_return fail(Code::kConflict, "it was ended before it could start");
  begun_ = true;
  if (gate_) {
    ++gate_->starting;
    starting_ = {nullptr, [gate = gate_](void*) {
                   --gate->starting;
                   gate->changed.notify();
                 }};
  }
  if (!std::exchange(files_sent_, true)) CO_TRY(co_await sendFiles());
  const bool with_terminal = with_input && spec_.terminal.has_value();
  const bool has_input =
      with_terminal || (with_input && (spec_.keep_input || !spec_.input.empty()));
  uint8_t flags = wire::kStartWindow;
  if (has_input) flags |= wire::kStartStdin;
  if (spec_.for_files) flags |= wire::kStartFiles;
  if (with_terminal) flags = wire::kStartWindow | wire::kStartTerminal;
  std::string frames;
  addCommand(frames, line_->number, command.argv, spec_.env);
  const std::vector<int> fds = group_ != nullptr ? group_->joinFds() : std::vector<int>();
  const auto count = static_cast<uint32_t>(fds.size());
  const std::string groups =
      fds.empty() ? "" : numberFrame(ToRunner::kGroups, line_->number, count);
  const std::string begin = groups + startFrame(line_->number, flags, spec_.cwd, spec_.terminal);
  if (frames.size() + begin.size() > RunnerChannel::kMaxWithFds) {
    CO_TRY(co_await board_->send(std::exchange(frames, {})));
  }
  frames += begin;
  CO_TRY(fds.empty() ? co_await board_->send(std::move(frames))
                     : co_await board_->sendWithFds(std::move(frames), fds));
  line_->stdin_closed = !has_input;
  if (has_input) async::spawn(live_->executor(), feedFirst());
  co_return Result<>();
}

// Waits for the right to start: afterwards the group can be frozen, and the workspace read
// consistently.
Task<Result<Switchboard::Turn>> SessionRun::turn() {
  constexpr std::chrono::milliseconds kLook{200};
  constexpr std::chrono::seconds kPatience{10};
  const auto waits = [this] {
    return gate_ && gate_->closed && gate_->count != passes_ && !cause_ && !board_->ended();
  };
  for (;;) {
    auto turn = co_await board_->turn();
    if (!waits()) co_return turn;
    {
      const auto given_back = std::move(turn);
    }
    wall_timer_.cancel();  // the program has not begun
    if (!gate_until_) gate_until_ = base::monotonicNow() + kPatience;
    while (waits() && base::monotonicNow() < *gate_until_)
      co_await gate_->changed.wait(base::monotonicNow() + kLook);
    if (waits()) {
      co_return fail(Code::kConflict,
                     "running in a session: its workspace is held for another program");
    }
    if (!cause_) armWall(wall_ + live_->startGrace());
  }
}

Task<Result<>> SessionRun::sendFiles() {
  std::string frames;
  for (const model::FileSpec& file : spec_.files) {
    CO_TRY(addFile(frames, line_->number, file));
    for (std::string_view rest = file.content; !rest.empty();) {
      const std::string_view piece = rest.substr(0, wire::kRunnerMaxPayload);
      rest.remove_prefix(piece.size());
      addFrame(frames, ToRunner::kFileData, line_->number, piece);
      if (frames.size() >= kBatch) CO_TRY(co_await board_->send(std::exchange(frames, {})));
    }
  }
  if (!frames.empty()) CO_TRY(co_await board_->send(std::move(frames)));
  co_return Result<>();
}

// Forwards frames until the command's end, including output before a stop.
Task<void> SessionRun::relay(ExecObserver& observer) {
  for (bool more = true; more;) {
    const auto frame = co_await board_->next(*line_);
    if (!frame) {
      const bool memory = outOfMemory() > 0;
      if (!cause_ && memory) {
        addHit(outcome_, model::limit_name::kMemory, live_->limits().memory_bytes,
               live_->usage().memory_peak, "bytes", true);
      }
      const bool locks = !memory && live_->locksOver();
      if (!cause_ && locks) addLocksHit(outcome_, *live_->locksOver());
      stop(memory || locks ? End::kLimit : End::kRunnerLost, frame.error().message);
      break;
    }
    more = co_await onFrame(*frame, observer);
  }
}

// True until the command's end.
Task<bool> SessionRun::onFrame(const Line::Kept& frame, ExecObserver& observer) {
  wire::Reader r(frame.payload);
  switch (frame.type) {
    case FromRunner::kStarted:
      if (!frame.payload.empty() || started_) break;
      onStarted(observer);
      co_return true;
    case FromRunner::kStdout:
    case FromRunner::kStderr:
      if (!started_) break;
      co_await onOutput(
          frame.type == FromRunner::kStdout ? model::Stream::kStdout : model::Stream::kStderr,
          frame.payload, observer);
      co_return true;
    case FromRunner::kScratch:
      scratch_ = decodeScratch(frame.payload);
      if (!scratch_) break;
      co_return true;
    case FromRunner::kFileFailed:
    case FromRunner::kStartFailed: {
      const auto error = static_cast<int>(r.u32());
      const std::string what = model::safeText(r.bytes(), kMostSaid);
      if (!r.done() || started_) break;
      // The start already follows a failed file, and is then ignored.
      const bool is_file = frame.type == FromRunner::kFileFailed;
      const auto failure = is_file ? std::nullopt : notExecuted(what, error, program_);
      if (failure && !cause_) {
        onStarted(observer);
        co_await onOutput(model::Stream::kStderr, failure->message, observer);
        report_ = ExitReport{.value = failure->exit_code};
      } else {
        stop(End::kStartFailed, base::errnoError(what, error).message);
      }
      co_return is_file;
    }
    case FromRunner::kExited:
      report_ = decodeExited(frame.payload);
      if (!report_ || !started_) break;
      reported_io_ += report_->io;
      co_return false;
    default:
      break;
  }
  stop(End::kRunnerLost, "the runner broke its protocol");
  live_->kill();
  co_return false;
}

void SessionRun::onStarted(ExecObserver& observer) {
  starting_.reset();
  started_ = true;
  if (cause_) kill();  // the first kill came too early
  if (!cause_) armWall(wall_);
  if (compiling_) return;
  input_changed_.notify();
  started_at_ = base::monotonicNow();
  outcome_.started_at = base::wallMicros();
  observer.onStarted();
}

Task<void> SessionRun::onOutput(model::Stream stream, std::string_view bytes,
                                ExecObserver& observer) {
  if (stream == model::Stream::kStderr) {
    too_many_.read(bytes);
    no_space_.read(bytes);
  }
  if (!compiling_) {
    co_await observer.onOutput(stream, bytes);
    co_return;
  }
  model::CompileResult& result = *outcome_.compile;
  std::string& text = stream == model::Stream::kStdout ? result.stdout_text : result.stderr_text;
  text.append(bytes.substr(0, limits_.output_bytes - text.size()));
}

Task<void> SessionRun::feedFirst() {
  const auto self = shared_from_this();
  feeding_ = true;
  auto fed = co_await feed(spec_.input);
  if (fed && !spec_.keep_input) std::ignore = co_await endInput();
  feeding_ = false;
  input_changed_.notify();
}

// Sends as much as the runner's window allows.
Task<Result<>> SessionRun::feed(std::string_view rest) {
  const std::shared_ptr<Line> line = line_;
  while (!rest.empty()) {
    if (line->stdin_closed || board_->ended()) {
      co_return fail(Code::kConflict, "sending input: the program has ended");
    }
    const size_t size =
        std::min<size_t>({rest.size(), wire::kRunnerMaxPayload, line->stdin_window});
    if (size == 0) {
      co_await line->changed.wait();
      continue;
    }
    std::string frames;
    addFrame(frames, ToRunner::kStdin, line->number, rest.substr(0, size));
    rest.remove_prefix(size);
    line->stdin_window -= static_cast<uint32_t>(size);
    CO_TRY(co_await board_->send(std::move(frames)));
  }
  co_return Result<>();
}

Task<Result<>> SessionRun::endInput() {
  line_->stdin_closed = true;
  std::string frame;
  addFrame(frame, ToRunner::kStdin, line_->number, {});
  co_return co_await board_->send(std::move(frame));
}

Task<Result<>> SessionRun::input(std::string bytes) {
  const auto self = shared_from_this();
  if (!spec_.keep_input) {
    co_return fail(Code::kConflict, "sending input: the program was started without");
  }
  while ((feeding_ || !started_ || compiling_) && !done_)
    co_await input_changed_.wait();
  if (done_ || line_->stdin_closed) {
    co_return fail(Code::kConflict, done_ ? "sending input: the program has ended"
                                          : "sending input: its end was sent before");
  }
  feeding_ = true;
  auto fed = bytes.empty() ? co_await endInput() : co_await feed(bytes);
  feeding_ = false;
  input_changed_.notify();
  co_return fed;
}

Result<> SessionRun::signal(int number) {
  if (done_ || !started_ || compiling_) {
    return fail(Code::kConflict, done_ ? "sending a signal: the program has ended"
                                       : "sending a signal: the program has not started");
  }
  board_->signal(line_, number);
  return {};
}

Result<> SessionRun::resize(model::TerminalSize size) {
  if (done_ || !started_ || compiling_ || !spec_.terminal) {
    return fail(Code::kConflict, done_ ? "resizing a terminal: the program has ended"
                                       : "resizing a terminal: the program has none now");
  }
  board_->resize(line_, size);
  return {};
}

}  // namespace cloister::runtime
