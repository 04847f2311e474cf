// SPDX-License-Identifier: Apache-2.0
#include "node/exec_slot.h"

#include <chrono>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "wire/files.h"

namespace cloister::node {

using runtime::Task;
using wire::FromNode;

namespace {

// Limit of waiting pieces: full ones, since small pieces are joined, or ends of file.
constexpr size_t kMaxPieces = 64;

// Time for a holding program to end after the hold is over.
constexpr std::chrono::seconds kHeldPatience{10};
constexpr std::chrono::milliseconds kHeldLook{100};

bool holdsWorkspace(const model::ExecSpec& spec) {
  return spec.for_files && !spec.run.argv.empty() && spec.run.argv[0] == wire::files::kHold;
}

}  // namespace

ExecSlot::ExecSlot(std::shared_ptr<net::FrameConnection> connection,
                   boost::asio::any_io_executor executor, uint32_t channel)
    : outlet_(std::move(connection), executor, channel), changed_(std::move(executor)) {}

Task<void> ExecSlot::run(std::shared_ptr<Slot> slot, model::PermitFields permit,
                         wire::OpenRequest request) {
  auto outcome = co_await perform(*slot, std::move(permit), std::move(request));
  while (feeding_)
    co_await changed_.wait();
  exec_.reset();
  slot->tellUsed();
  if (closing()) {
    outlet_.post(FromNode::kTornDown);
  } else if (outcome) {
    outlet_.post(FromNode::kFinished, wire::encodeOutcome(*outcome));
  } else {
    outlet_.postError(outcome.error());
  }
}

Task<Result<model::Outcome>> ExecSlot::perform(Slot& slot, model::PermitFields permit,
                                               wire::OpenRequest request) {
  const model::ExecSpec spec = CO_TRY(slot.admit(permit, request));
  request.spec = {};
  std::shared_ptr<void> hold;
  if (holdsWorkspace(spec)) hold = slot.hold();
  const uint64_t opened = slot.opened();
  while (!going_ && !closing())
    co_await changed_.wait();
  if (!closing()) CO_TRY(co_await mayStart(slot, opened));
  if (closing()) co_return model::Outcome{};  // the outcome is not sent
  exec_ = CO_TRY(co_await slot.open(request.permit, spec));
  if (cancelled_) exec_->cancel();
  feedOn();
  co_return co_await exec_->run(outlet_);
}

Task<Result<>> ExecSlot::mayStart(const Slot& slot, uint64_t opened) {
  const auto until = base::monotonicNow() + kHeldPatience;
  while (!slot.mayStart(opened) && !closing() && !cancelled_ && base::monotonicNow() < until)
    co_await changed_.wait(base::monotonicNow() + kHeldLook);
  if (slot.mayStart(opened) || closing()) co_return Result<>{};
  co_return fail(Code::kConflict,
                 "running in a session: its workspace is held for another program");
}

void ExecSlot::cancel() {
  cancelled_ = true;
  if (exec_) exec_->cancel();
}

bool ExecSlot::go() {
  changed_.notify();
  return !std::exchange(going_, true);
}

void ExecSlot::close() {
  outlet_.shut();
  cancel();
  changed_.notify();
}

bool ExecSlot::input(std::string bytes) {
  if (bytes.size() > wire::kInputPiece || input_.size() >= kMaxPieces ||
      bytes.size() > wire::kInputWindow - input_bytes_) {
    return false;
  }
  input_bytes_ += static_cast<uint32_t>(bytes.size());
  // A client may send single bytes to a program that does not read.
  const bool joins = !bytes.empty() && !input_.empty() && !input_.back().empty() &&
                     input_.back().size() + bytes.size() <= wire::kInputPiece;
  if (joins) {
    input_.back() += bytes;
  } else {
    input_.push_back(std::move(bytes));
  }
  feedOn();
  return true;
}

void ExecSlot::feedOn() {
  if (!exec_ || input_.empty() || std::exchange(feeding_, true)) return;
  async::spawn(changed_.executor(), feed(shared_from_this()));
}

// Input not accepted by the program is dropped with the program.
Task<void> ExecSlot::feed(std::shared_ptr<ExecSlot> self) {
  while (!self->input_.empty()) {
    std::string bytes = std::move(self->input_.front());
    self->input_.pop_front();
    const auto size = static_cast<uint32_t>(bytes.size());
    const auto sent = co_await self->exec_->input(std::move(bytes));
    self->input_bytes_ -= size;
    if (!sent) break;
    char taken[sizeof size];
    wire::Writer(taken, sizeof taken).u32(size);
    if (!self->closing())
      self->outlet_.post(FromNode::kInputTaken, std::string(taken, sizeof taken));
  }
  self->feeding_ = false;
  self->changed_.notify();
}

void ExecSlot::signal(int number) {
  if (exec_) std::ignore = exec_->signal(number);
}

void ExecSlot::resize(model::TerminalSize size) {
  if (exec_) std::ignore = exec_->resize(size);
}

}  // namespace cloister::node
