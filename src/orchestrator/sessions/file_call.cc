// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/file_call.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "async/signal.h"
#include "async/spawn.h"
#include "base/log.h"

namespace cloister::orchestrator {
namespace {

namespace files = wire::files;

constexpr size_t kWindow = size_t{256} << 10;  // bytes of an answer not yet taken by the reader
constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kMostSaid = 4096;  // on stderr

Result<> judge(const Result<model::Outcome>& outcome, std::string_view said) {
  if (!outcome) return std::unexpected(outcome.error());
  switch (outcome->end) {
    case model::End::kExited:
      if (outcome->exit_code == 0) return {};
      if (outcome->exit_code == files::kFailed) return std::unexpected(files::failure(said));
      return fail(Code::kInternal, "the sandbox's file server failed");
    case model::End::kTimedOut:
      return fail(Code::kUnavailable, "it took too long");
    case model::End::kCancelled:
      return fail(Code::kConflict, "the session ended meanwhile");
    case model::End::kLimit:
      return fail(Code::kTooLarge, "it met the limit " + outcome->limits.at(0).limit);
    case model::End::kStartFailed:
    case model::End::kRunnerLost:
    case model::End::kSignaled:
      break;
  }
  return fail(Code::kUnavailable, "the sandbox's file server was lost");
}

}  // namespace

// The request on its way to its end; outlives a FileCall that was given up.
class FileCall::State final : public runtime::ExecObserver {
 public:
  State(boost::asio::any_io_executor executor, std::unique_ptr<Host> host, model::ExecSpec spec,
        Record record)
      : changed_(std::move(executor)),
        host_(std::move(host)),
        spec_(std::move(spec)),
        record_(std::move(record)) {}

  static Task<void> run(std::shared_ptr<State> self) {
    const auto outcome = co_await self->host_->run(self->spec_, *self);
    const Result<> result = judge(outcome, self->said_);
    std::ignore = co_await self->host_->release();
    // After giving up, nobody may be waiting for the end.
    if (!result || self->given_up_) co_await recordEnd(self, result);
    self->result_ = result;
    self->host_->vacate();
    self->changed_.notify();
  }

  // `why`: the reason of the failure; "": the request reports its own reason.
  void giveUp(std::string why = "") {
    if (!given_up_) why_ = std::move(why);
    given_up_ = true;
    if (!result_) host_->cancel();
    changed_.notify();
  }

  static Task<Result<>> send(std::shared_ptr<State> self, std::string bytes) {
    if (!self->result_) {
      if (const auto sent = co_await self->host_->input(std::move(bytes)); sent) co_return sent;
    }
    // The request has ended or is about to end, and its own error says more.
    while (!self->result_)
      co_await self->changed_.wait();
    CO_TRY(*self->result_);
    co_return fail(Code::kInternal, "the sandbox's file server ended early");
  }

  static Task<Result<std::optional<files::Part>>> next(std::shared_ptr<State> self) {
    for (;;) {
      std::string_view rest = self->pending();
      auto part = files::takePart(rest);
      if (!part) {
        self->giveUp();
        co_return std::unexpected(std::move(part).error());
      }
      if (*part) {
        self->take(self->pending().size() - rest.size());
        co_return part;
      }
      if (self->result_) break;
      co_await self->changed_.wait();
    }
    CO_TRY(*self->result_);
    if (!self->pending().empty()) co_return fail(Code::kInternal, "the answer was cut short");
    co_return std::nullopt;
  }

  static Task<Result<std::string>> read(std::shared_ptr<State> self) {
    while (self->pending().empty() && !self->result_)
      co_await self->changed_.wait();
    if (self->pending().empty()) {
      CO_TRY(*self->result_);
      co_return std::string();
    }
    std::string piece(self->pending().substr(0, kPiece));
    self->take(piece.size());
    co_return piece;
  }

  static Task<Result<>> finish(std::shared_ptr<State> self) {
    while (!self->result_)
      co_await self->changed_.wait();
    if (*self->result_ && self->record_) {
      co_return co_await std::exchange(self->record_, nullptr)(std::nullopt);
    }
    co_return *self->result_;
  }

  void onStarted() override {}
  Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
    if (stream == model::Stream::kStderr) {
      said_ += bytes.substr(0, kMostSaid - std::min(kMostSaid, said_.size()));
      co_return;
    }
    while (pending().size() >= kWindow && !given_up_)
      co_await changed_.wait();
    if (given_up_) co_return;
    answer_ += bytes;
    changed_.notify();
  }
  Task<void> onFileBegin(std::string /*path*/, uint64_t /*size*/) override { co_return; }
  Task<void> onFileData(std::string_view /*bytes*/) override { co_return; }
  Task<void> onFileEnd() override { co_return; }

 private:
  static Task<void> recordEnd(std::shared_ptr<State> self, Result<> result) {
    const Record record = std::exchange(self->record_, nullptr);
    if (!record) co_return;
    std::optional<Error> failed;
    if (!result) failed = std::move(result).error();
    if (failed && !self->why_.empty()) failed = Error{Code::kUnavailable, self->why_, ""};
    const auto done = co_await record(failed);
    if (done) co_return;
    base::log(base::Level::kError, "audit row of a file request not written",
              {{"error", done.error().message}});
  }

  [[nodiscard]] std::string_view pending() const {
    return std::string_view(answer_).substr(taken_);
  }
  void take(size_t count) {
    taken_ += count;
    if (taken_ < kWindow && taken_ < answer_.size()) return;
    answer_.erase(0, std::exchange(taken_, 0));
    changed_.notify();
  }

  async::Signal changed_;
  std::unique_ptr<Host> host_;
  model::ExecSpec spec_;
  Record record_;
  std::string answer_;  // waits for the reader from `taken_` on
  size_t taken_ = 0;
  std::string said_;
  std::optional<Result<>> result_;
  bool given_up_ = false;
  std::string why_;
};

FileCall::FileCall(boost::asio::any_io_executor executor, std::unique_ptr<Host> host,
                   model::ExecSpec spec, Record record)
    : state_(
          std::make_shared<State>(executor, std::move(host), std::move(spec), std::move(record))) {
  async::spawn(executor, State::run(state_));
}

FileCall::~FileCall() {
  state_->giveUp("the client broke it off");
}

void FileCall::abandon() {
  state_->giveUp();
}

Task<Result<>> FileCall::send(std::string bytes) {
  return State::send(state_, std::move(bytes));
}

Task<Result<std::optional<files::Part>>> FileCall::next() {
  return State::next(state_);
}

Task<Result<files::Entry>> FileCall::entry() {
  const std::shared_ptr<State> state = state_;
  const auto part = CO_TRY(co_await State::next(state));
  if (part && std::holds_alternative<files::Entry>(*part)) co_return std::get<files::Entry>(*part);
  co_return fail(Code::kInternal, "the sandbox's file server said nothing");
}

Task<Result<std::string>> FileCall::read() {
  return State::read(state_);
}

Task<Result<>> FileCall::finish() {
  return State::finish(state_);
}

}  // namespace cloister::orchestrator
