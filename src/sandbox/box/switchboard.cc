// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/switchboard.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "async/spawn.h"
#include "sandbox/host/guest.h"

namespace cloister::runtime {
namespace {

using wire::FromRunner;

// Bounds for a line's inbox: output frames within the window, and a few short frames besides.
constexpr size_t kMaxFrames = wire::kOutputUnits / wire::outputUnits(1) + 8;
constexpr size_t kMaxOther = 1024;  // bytes
constexpr uint32_t kTakeEvery = wire::kOutputUnits / 4;

bool isOutput(FromRunner type) {
  return type == FromRunner::kStdout || type == FromRunner::kStderr;
}

std::unexpected<Error> broken(std::string_view what) {
  return fail(Code::kInvalid, "the runner broke its protocol: " + std::string(what));
}

Result<> put(Line& line, const RunnerFrame& frame) {
  if (isOutput(frame.type)) {
    const uint32_t units = wire::outputUnits(frame.payload.size());
    if (frame.payload.empty() || units > wire::kOutputUnits - line.units) return broken("output");
    line.units += units;
  } else if (frame.type == FromRunner::kStdinTaken) {
    wire::Reader r(frame.payload);
    const uint32_t taken = r.u32();
    if (!r.done() || taken > wire::kStdinWindow - line.stdin_window) return broken("stdin");
    line.stdin_window += taken;
    return {};
  } else if (line.inbox.size() >= kMaxFrames || frame.payload.size() > kMaxOther) {
    return broken("too many messages, or too long");
  }
  line.started = line.started || frame.type == FromRunner::kStarted;
  line.over = line.over || frame.type == FromRunner::kExited;
  line.inbox.push_back({frame.type, std::string(frame.payload)});
  return {};
}

}  // namespace

Switchboard::Switchboard(std::shared_ptr<Live> live)
    : live_(std::move(live)), changed_(live_->executor()) {}

void Switchboard::start() {
  async::spawn(live_->executor(), listen());
}

Task<void> Switchboard::listen() {
  const auto self = shared_from_this();
  const std::shared_ptr<Live> live = live_;
  Result<> going;
  while (going && !ended_) {
    const auto frame = co_await live->channel().read();
    going = frame ? deliver(*frame) : std::unexpected(frame.error());
  }
  if (ended_) co_return;
  live->kill();
  using Kind = model::SandboxEnd::Kind;
  const bool ours = going.error().code == Code::kInvalid;
  if (live->events().oom_kills > 0) co_return end({Kind::kMemory, "out of memory"});
  if (const auto& locks = live->locksOver()) {
    co_return end({Kind::kFileLocks, "its programs held " + std::to_string(locks->held) +
                                         " locks on files, of " + std::to_string(locks->most)});
  }
  end({Kind::kRunnerLost, ours ? going.error().message : live_->lost("the runner died")});
}

// Handles an answer to kRest or kGoOn. Any other frame is an error.
Result<> Switchboard::onSandbox(const RunnerFrame& frame) {
  if (turning_ == Turning::kToRest && frame.type == FromRunner::kResting && frame.payload.empty()) {
    turning_ = Turning::kResting;
  } else if (turning_ == Turning::kToRun && checkHello(frame)) {
    turning_ = Turning::kRunning;
  } else {
    return broken("unknown channel");
  }
  changed_.notify();
  return {};
}

Result<> Switchboard::deliver(const RunnerFrame& frame) {
  if (frame.channel == 0) return onSandbox(frame);
  if (turning_ == Turning::kResting || turning_ == Turning::kToRun) return broken("it rests");
  if (frame.channel >= next_number_) return broken("unknown channel");
  const auto found = lines_.find(frame.channel);
  const auto line = found == lines_.end() ? nullptr : found->second.lock();
  if (!line) {
    // All output precedes the program's end, and until then a reader exists.
    if (isOutput(frame.type)) return broken("output of no program");
    if (frame.type == FromRunner::kExited && found != lines_.end()) lines_.erase(found);
    return {};
  }
  TRY(put(*line, frame));
  line->changed.notify();
  return {};
}

std::shared_ptr<Line> Switchboard::open() {
  auto line = std::make_shared<Line>(live_->executor(), next_number_++);
  lines_[line->number] = line;
  return line;
}

std::shared_ptr<Line> Switchboard::kernelAt(std::string_view directory) const {
  for (const auto& [number, weak] : lines_) {
    auto line = weak.lock();
    const bool runs = line && line->use == LineUse::kKernel && !line->over;
    if (runs && line->kernel == directory) return line;
  }
  return nullptr;
}

void Switchboard::close(const std::shared_ptr<Line>& line) {
  lines_.erase(line->number);
}

Task<Result<Line::Kept>> Switchboard::next(Line& line) {
  while (line.inbox.empty() && !ended_)
    co_await line.changed.wait();
  if (line.inbox.empty()) co_return fail(Code::kUnavailable, why_.message);
  Line::Kept frame = std::move(line.inbox.front());
  line.inbox.pop_front();
  if (isOutput(frame.type)) line.taken += wire::outputUnits(frame.payload.size());
  // In few messages: by quarters, or when nothing else waits.
  if (line.taken > 0 && (line.taken >= kTakeEvery || line.inbox.empty())) {
    std::string frames;
    addFrame(frames, wire::ToRunner::kTaken, line.number, u32Payload(line.taken));
    const uint32_t giving = std::exchange(line.taken, 0);
    line.units -= giving;
    line.giving += giving;
    std::ignore = co_await send(std::move(frames));
    line.giving -= giving;
  }
  co_return frame;
}

Task<void> Switchboard::beginWriting() {
  while (writing_ && !ended_)
    co_await changed_.wait();
  writing_ = true;
}

void Switchboard::endWriting() {
  writing_ = false;
  changed_.notify();
}

Task<Result<>> Switchboard::send(std::string frames) {
  const auto self = shared_from_this();
  co_await beginWriting();
  if (ended_) co_return fail(Code::kUnavailable, why_.message);
  auto sent = co_await live_->channel().write(frames);
  endWriting();
  co_return sent;
}

Task<Result<>> Switchboard::sendWithFds(std::string frames, std::vector<int> fds) {
  const auto self = shared_from_this();
  co_await beginWriting();
  if (ended_) co_return fail(Code::kUnavailable, why_.message);
  auto sent = co_await live_->channel().writeWithFds(frames, fds);
  endWriting();
  co_return sent;
}

void Switchboard::signal(const std::shared_ptr<Line>& line, int number) {
  line->signals |= uint64_t{1} << (number - 1);
  tellSoon(line);
}

void Switchboard::resize(const std::shared_ptr<Line>& line, model::TerminalSize size) {
  line->size = size;
  tellSoon(line);
}

void Switchboard::tellSoon(const std::shared_ptr<Line>& line) {
  if (std::exchange(line->telling, true)) return;
  async::spawn(live_->executor(), tell(shared_from_this(), line));
}

Task<void> Switchboard::tell(std::shared_ptr<Switchboard> self, std::shared_ptr<Line> line) {
  while (line->signals != 0 || line->size) {
    co_await self->beginWriting();
    if (self->ended_) co_return;
    std::string frames;
    if (const auto size = std::exchange(line->size, std::nullopt)) {
      char payload[4];
      wire::Writer w(payload, sizeof payload);
      w.u16(size->cols);
      w.u16(size->rows);
      addFrame(frames, wire::ToRunner::kResize, line->number, w.view());
    }
    for (uint64_t left = std::exchange(line->signals, 0); left != 0; left &= left - 1) {
      const auto number = static_cast<uint32_t>(std::countr_zero(left)) + 1;
      addFrame(frames, wire::ToRunner::kSignal, line->number, u32Payload(number));
    }
    const auto sent = co_await self->live_->channel().write(frames);
    self->endWriting();
    if (!sent) co_return;
  }
  line->telling = false;
}

// Sends an order and awaits the runner's answer within patience(); else kills the sandbox.
Task<Result<>> Switchboard::change(wire::ToRunner order, Turning until) {
  boost::asio::steady_timer late(live_->executor(), live_->patience());
  late.async_wait([live = live_](const boost::system::error_code& error) {
    if (!error) live->kill();
  });
  const std::string frame = frameOf(order, 0);
  CO_TRY(co_await live_->channel().write(frame));
  while (turning_ != until && !ended_)
    co_await changed_.wait();
  if (ended_) co_return fail(Code::kUnavailable, why_.message);
  co_return Result<>();
}

Task<Result<std::vector<LineState>>> Switchboard::rest() {
  const auto self = shared_from_this();
  co_await beginWriting();
  if (ended_) co_return fail(Code::kUnavailable, why_.message);
  turning_ = Turning::kToRest;
  CO_TRY(co_await change(wire::ToRunner::kRest, Turning::kResting));
  std::vector<LineState> states;
  for (const auto& [number, weak] : lines_) {
    const auto line = weak.lock();
    if (!line || line->over) continue;
    // An interpreter not yet ready is unknown to its client, so its line is dropped.
    const bool kernel = line->use == LineUse::kKernel && line->started;
    const bool lost = line->use == LineUse::kKernel && !kernel;
    states.push_back({.number = number,
                      .use = lost ? LineUse::kFiles : line->use,
                      .kernel = kernel ? line->kernel : "",
                      .units = line->units + line->giving,
                      .stdin_closed = line->stdin_closed});
  }
  co_return states;
}

Task<Result<>> Switchboard::goOn() {
  const auto self = shared_from_this();
  turning_ = Turning::kToRun;
  auto went = co_await change(wire::ToRunner::kGoOn, Turning::kRunning);
  endWriting();
  co_return went;
}

std::shared_ptr<Line> Switchboard::takeOver(const LineState& state) {
  auto line = std::make_shared<Line>(live_->executor(), state.number);
  line->use = state.use;
  line->kernel = state.kernel;
  line->units = state.units;
  line->stdin_closed = state.stdin_closed;
  line->started = true;
  lines_[line->number] = line;
  next_number_ = std::max(next_number_, line->number + 1);
  return line;
}

Task<Switchboard::Turn> Switchboard::turn() {
  const auto self = shared_from_this();
  while (in_turn_ && !ended_)
    co_await changed_.wait();
  in_turn_ = true;
  co_return Turn(self);
}

void Switchboard::endTurn() {
  in_turn_ = false;
  changed_.notify();
}

Task<void> Switchboard::waitEnd() {
  const auto self = shared_from_this();
  while (!ended_)
    co_await changed_.wait();
}

void Switchboard::hangUp() {
  end({});
}

void Switchboard::end(model::SandboxEnd why) {
  if (std::exchange(ended_, true)) return;
  why_ = std::move(why);
  changed_.notify();
  for (const auto& [number, weak] : lines_) {
    if (const auto line = weak.lock()) line->changed.notify();
  }
}

}  // namespace cloister::runtime
