// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/run.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/clock.h"
#include "model/escalation.h"
#include "model/execution.h"
#include "sandbox/box/prestart.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
using model::End;
using wire::FromRunner;
using wire::ToRunner;

// Frames are collected up to this size before a write.
constexpr size_t kBatch = size_t{256} << 10;
constexpr size_t kMaxPath = 4096;
// Bytes of input sent with the start: the socket's buffer takes as much without a reader, so a
// runner that does not read can still report an error.
constexpr size_t kFirstInput = size_t{64} << 10;

}  // namespace

Run::Run(std::shared_ptr<Housing> housing, const model::ExecSpec& spec, ExecObserver& observer,
         std::function<void()> on_started)
    : housing_(std::move(housing)),
      spec_(spec),
      observer_(observer),
      on_started_(std::move(on_started)),
      wall_timer_(housing_->executor()),
      usage_timer_(housing_->executor()),
      stdin_changed_(housing_->executor()) {}

Task<Result<model::Outcome>> Run::go() {
  const auto self = shared_from_this();
  const WorkspaceUse use(housing_->workspaceState());
  outcome_.started_at = base::wallMicros();
  started_at_ = base::monotonicNow();
  watchMemory();
  watchUsage();
  if (auto added = co_await addFiles(); !added && !cause_)
    stop(End::kRunnerLost, added.error().message);
  if (!cause_) co_await compile();
  if (!cause_ && !outcome_.compile_failed) co_await program();
  done_ = true;
  wall_timer_.cancel();
  usage_timer_.cancel();
  if (oom_) oom_->cancel();
  compose();
  co_return std::move(outcome_);
}

void Run::stop(End end, std::string message) {
  if (cause_ || done_) return;
  cause_ = end;
  outcome_.message = std::move(message);
  io_.atLeast(housing_->io());  // read now, because the processes' counters end with the processes
  housing_->kill();
}

Task<Result<>> Run::flush() {
  const std::string frames = std::exchange(frames_, {});
  co_return co_await housing_->channel().write(frames);
}

Task<Result<>> Run::addFiles() {
  for (const model::FileSpec& file : spec_.files) {
    CO_TRY(addFile(frames_, 0, file));
    for (std::string_view rest = file.content; !rest.empty();) {
      const std::string_view piece = rest.substr(0, wire::kRunnerMaxPayload);
      rest.remove_prefix(piece.size());
      addFrame(frames_, ToRunner::kFileData, 0, piece);
      if (frames_.size() < kBatch) continue;
      armWall(housing_->startGrace());
      CO_TRY(co_await flush());
    }
  }
  co_return Result<>();
}

Task<void> Run::compile() {
  if (spec_.compile.empty()) co_return;
  compiling_ = true;
  const auto begin = base::monotonicNow();
  outcome_.compile.emplace();
  for (const model::Command& step : spec_.compile) {
    const bool exited = co_await command(step, kCompiler);
    outcome_.compile->wall_ms =
        std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
    if (report_)
      outcome_.compile->exit_code = report_->signaled ? 128 + report_->value : report_->value;
    outcome_.compile_failed = !exited || outcome_.compile->exit_code != 0;
    if (outcome_.compile_failed) break;
  }
  compiling_ = false;
  started_ = false;  // the program is not
}

Task<void> Run::program() {
  if (!spec_.artifacts.globs.empty()) addFrame(frames_, ToRunner::kMark, 0, {});
  const bool waits = housing_->ahead() != Housing::Ahead::kNone;
  const bool exited = waits ? co_await waitingProgram() : co_await command(spec_.run, kProgram);
  if (exited && asked_) co_await collect();
}

// The program is already started; send its code, or the signal that its file is ready.
Task<bool> Run::waitingProgram() {
  stdin_stop_ = false;
  wall_ = housing_->limits().wall;
  onStarted();
  askForArtifacts();
  const bool copied = housing_->ahead() == Housing::Ahead::kCopied;
  std::string_view input = copied ? std::string_view() : spec_.files.front().content;
  stdin_window_ = wire::kStdinWindow;
  const bool fed = addInput(frames_, kProgram, input, kFirstInput);
  if (auto sent = co_await flush(); !sent) {
    stop(End::kRunnerLost, sent.error().message);
  } else if (!fed) {
    async::spawn(housing_->executor(), feed(kProgram, input));
  }
  co_return co_await relay(kProgram);
}

Task<bool> Run::command(const model::Command& command, uint32_t channel) {
  addCommand(frames_, channel, command.argv, spec_.env);
  const bool with_stdin = channel == kProgram && !spec_.input.empty();
  uint8_t flags = wire::kStartKillRest;
  if (with_stdin) flags |= wire::kStartStdin;
  frames_ += startFrame(channel, flags, spec_.cwd, std::nullopt);
  if (channel == kProgram) askForArtifacts();
  std::string_view input = spec_.input;
  stdin_window_ = wire::kStdinWindow;
  const bool fed = !with_stdin || addInput(frames_, channel, input, kFirstInput);
  report_.reset();
  too_many_ = {};
  no_space_ = {};
  started_ = false;
  program_ = command.argv.front();
  stdin_stop_ = false;
  wall_ = command.timeout.count() > 0 ? command.timeout : housing_->limits().wall;
  armWall(wall_ + housing_->startGrace());
  if (auto sent = co_await flush(); !sent) {
    stop(End::kRunnerLost, sent.error().message);
  } else if (!fed) {
    async::spawn(housing_->executor(), feed(channel, input));
  }
  co_return co_await relay(channel);
}

// Reads frames until the command's end; false if the command did not exit.
Task<bool> Run::relay(uint32_t channel) {
  // Continue after another cause of the end: output until then belongs to the program.
  for (bool more = true; more;) {
    const auto frame = co_await housing_->channel().read();
    if (!frame) {
      const bool ours = frame.error().code == Code::kInvalid;
      stop(End::kRunnerLost, ours ? frame.error().message : housing_->lost("the runner died"));
      break;
    }
    if (frame->channel != channel && frame->channel != 0) {
      stop(End::kRunnerLost, "the runner broke its protocol: wrong channel");
      break;
    }
    more = co_await onFrame(*frame);
  }
  armWall(housing_->startGrace());  // a runner that does not read blocks the input
  stdin_stop_ = true;
  stdin_changed_.notify();
  while (feeding_)
    co_await stdin_changed_.wait();
  wall_timer_.cancel();
  co_return report_ && !cause_;
}

// True until the command's end.
Task<bool> Run::onFrame(const RunnerFrame& frame) {
  wire::Reader r(frame.payload);
  switch (frame.type) {
    case FromRunner::kStarted:
      if (!frame.payload.empty() || started_) break;
      onStarted();
      co_return true;
    case FromRunner::kStdout:
      if (!started_) break;
      co_await onOutput(model::Stream::kStdout, frame.payload);
      co_return true;
    case FromRunner::kStderr:
      if (!started_) break;
      co_await onOutput(model::Stream::kStderr, frame.payload);
      co_return true;
    case FromRunner::kStdinTaken: {
      const uint32_t taken = r.u32();
      if (!r.done() || taken > wire::kStdinWindow - stdin_window_) break;
      stdin_window_ += taken;
      stdin_changed_.notify();
      co_return true;
    }
    case FromRunner::kScratch: {
      const auto scratch = decodeScratch(frame.payload);
      if (!scratch) break;
      scratch_ = *scratch;
      co_return true;
    }
    case FromRunner::kStartFailed: {
      const auto error = static_cast<int>(r.u32());
      const std::string what = model::safeText(r.bytes(), kMostSaid);
      if (!r.done() || started_) break;
      if (const auto failure = notExecuted(what, error, program_)) {
        onStarted();
        co_await onOutput(model::Stream::kStderr, failure->message);
        report_ = ExitReport{.value = failure->exit_code};
      } else {
        stop(End::kStartFailed, base::errnoError(what, error).message);
      }
      co_return false;
    }
    case FromRunner::kFileFailed: {
      const auto error = static_cast<int>(r.u32());
      r.bytes();
      if (!r.done()) break;
      stop(End::kStartFailed, base::errnoError("writing the files", error).message);
      co_return false;
    }
    case FromRunner::kExited: {
      const auto report = decodeExited(frame.payload);
      if (!report || !started_) break;
      report_ = report;
      co_return false;
    }
    default:
      break;
  }
  stop(End::kRunnerLost, "the runner broke its protocol");
  co_return false;
}

void Run::onStarted() {
  started_ = true;
  armWall(wall_);
  on_started_();
  if (compiling_) return;
  started_at_ = base::monotonicNow();
  outcome_.started_at = base::wallMicros();
  observer_.onStarted();
}

Task<void> Run::onOutput(model::Stream stream, std::string_view bytes) {
  if (stream == model::Stream::kStderr) {
    too_many_.read(bytes);
    no_space_.read(bytes);
  }
  if (!compiling_) {
    co_await observer_.onOutput(stream, bytes);
    co_return;
  }
  model::CompileResult& result = *outcome_.compile;
  std::string& text = stream == model::Stream::kStdout ? result.stdout_text : result.stderr_text;
  text.append(bytes.substr(0, housing_->limits().output_bytes - text.size()));
}

// Appends as much of the program's input as the runner's window accepts, at most `most` bytes.
// Returns true after the end of input is appended.
bool Run::addInput(std::string& out, uint32_t channel, std::string_view& rest, size_t most) {
  for (;;) {
    const size_t size =
        std::min<size_t>({rest.size(), wire::kRunnerMaxPayload, stdin_window_, most});
    if (size == 0 && !rest.empty()) return false;
    addFrame(out, ToRunner::kStdin, channel, rest.substr(0, size));
    rest.remove_prefix(size);
    stdin_window_ -= size;
    most -= size;
    if (size == 0) return true;
  }
}

// Sends the rest of the input while output is read.
Task<void> Run::feed(uint32_t channel, std::string_view rest) {
  const auto self = shared_from_this();
  feeding_ = true;
  for (bool ended = false; !ended && !stdin_stop_;) {
    std::string out;
    ended = addInput(out, channel, rest, wire::kStdinWindow);
    if (out.empty()) {
      co_await stdin_changed_.wait();
    } else if (!co_await housing_->channel().write(out)) {
      break;
    }
  }
  feeding_ = false;
  stdin_changed_.notify();
}

// Send the request behind the start, so that the answer follows the program's end without a round
// trip.
void Run::askForArtifacts() {
  if (spec_.artifacts.globs.empty()) return;
  std::string payload(16, '\0');
  for (const std::string& glob : spec_.artifacts.globs)
    payload.append(4 + glob.size(), '\0');
  if (payload.size() > wire::kRunnerMaxPayload) {
    outcome_.artifacts_truncated = true;
    return;
  }
  wire::Writer w(payload.data(), payload.size());
  w.u32(spec_.artifacts.max_files);
  w.u64(spec_.artifacts.max_bytes);
  w.u32(static_cast<uint32_t>(spec_.artifacts.globs.size()));
  for (const std::string& glob : spec_.artifacts.globs)
    w.bytes(glob);
  addFrame(frames_, ToRunner::kCollect, kProgram, w.view());
  asked_ = true;
}

Task<void> Run::collect() {
  armWall(housing_->patience());
  bool complete = false;
  for (bool more = true; more;) {
    const auto frame = co_await housing_->channel().read();
    const auto next =
        frame ? co_await onCollectFrame(*frame) : Result<bool>(std::unexpected(frame.error()));
    complete = next && !*next;
    more = next && *next;
  }
  // The program has ended, whatever happens to its files.
  if (!complete) outcome_.artifacts_truncated = true;
}

// True until the last frame.
Task<Result<bool>> Run::onCollectFrame(const RunnerFrame& frame) {
  wire::Reader r(frame.payload);
  if (frame.type == FromRunner::kFileBegin && !in_file_) {
    std::string path(r.bytes());
    const uint64_t size = r.u64();
    const bool named = !path.empty() && path.size() <= kMaxPath;
    const bool fits = size <= spec_.artifacts.max_bytes - file_bytes_;
    if (r.done() && named && fits && ++files_ <= spec_.artifacts.max_files) {
      file_bytes_ += size;
      file_left_ = size;
      in_file_ = size > 0;
      co_await observer_.onFileBegin(std::move(path), size);
      if (!in_file_) co_await observer_.onFileEnd();
      co_return true;
    }
  } else if (frame.type == FromRunner::kFileContent && in_file_ &&
             frame.payload.size() <= file_left_ && !frame.payload.empty()) {
    file_left_ -= frame.payload.size();
    in_file_ = file_left_ > 0;
    co_await observer_.onFileData(frame.payload);
    if (!in_file_) co_await observer_.onFileEnd();
    co_return true;
  } else if (frame.type == FromRunner::kCollected && !in_file_) {
    const uint32_t left_out = r.u32();
    if (left_out > 0) outcome_.artifacts_truncated = true;
    if (r.done()) co_return false;
  }
  co_return fail(Code::kInvalid, "collecting: the runner broke its protocol");
}

}  // namespace cloister::runtime
