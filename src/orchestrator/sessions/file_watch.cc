// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/file_watch.h"

#include <utility>
#include <variant>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/id.h"

namespace cloister::orchestrator {
namespace {

using wire::files::ChangeKind;

// Bounds the service's time for a sandbox that changes files without end: the rest waits inside,
// and the kernel reports an overflow.
constexpr uint32_t kBatch = 512;
constexpr Millis kPause{20};

size_t costOf(const wire::files::Change& change) {
  return sizeof(FileWatch::Change) + change.path.size() + change.from.size();
}

Task<void> pause() {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, kPause);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

}  // namespace

FileWatch::Reader::Reader(std::shared_ptr<FileWatch> of) : watch_(std::move(of)) {
  ++watch_->readers_;
}

FileWatch::Reader::~Reader() {
  if (--watch_->readers_ > 0) return;
  watch_->left_at_ = base::monotonicNow();
  watch_->readers_changed_.notify();
}

FileWatch::FileWatch(boost::asio::any_io_executor executor, WatchBounds bounds)
    : id_(base::randomHex(8)), bounds_(bounds), changed_(executor), readers_changed_(executor) {}

Task<void> FileWatch::run(std::shared_ptr<FileWatch> self,
                          Result<std::shared_ptr<FileCall>> opened) {
  if (!opened) co_return self->close(std::unexpected(opened.error()));
  const std::shared_ptr<FileCall> call = *std::move(opened);
  self->call_ = call;
  if (self->closed_) call->abandon();
  for (uint32_t taken = 0;;) {
    auto part = co_await call->next();
    if (!part) co_return self->close(std::unexpected(std::move(part).error()));
    if (!*part) co_return self->close({});
    if (auto* const change = std::get_if<wire::files::Change>(&**part)) {
      self->take(std::move(*change));
    }
    if (++taken % kBatch == 0) co_await pause();
  }
}

Task<void> FileWatch::endUnread(std::shared_ptr<FileWatch> self) {
  while (!self->closed_) {
    if (self->readers_ > 0) {
      co_await self->readers_changed_.wait();
      continue;
    }
    const base::Monotonic until = self->left_at_ + self->bounds_.linger;
    if (base::monotonicNow() >= until) co_return self->stop();
    co_await self->readers_changed_.wait(until);
  }
}

Task<Result<>> FileWatch::begun(std::shared_ptr<FileWatch> self) {
  while (!self->ready_ && !self->closed_)
    co_await self->changed_.wait();
  if (!self->ready_ && self->closed_) CO_TRY(*self->closed_);
  co_return Result<>{};
}

bool FileWatch::keepsAfter(uint64_t seq) const {
  const uint64_t first = kept_.empty() ? last_ + 1 : kept_.front().seq;
  return seq <= last_ && seq + 1 >= first;
}

const FileWatch::Change* FileWatch::after(uint64_t seq) const {
  if (seq >= last_ || !keepsAfter(seq)) return nullptr;
  return &kept_[static_cast<size_t>(seq + 1 - kept_.front().seq)];
}

void FileWatch::stop() {
  close(fail(Code::kUnavailable, "nobody has read it for a while"));
}

Task<void> FileWatch::wait(uint64_t seq, base::Monotonic deadline) {
  while (seq == last_ && !closed_ && base::monotonicNow() < deadline)
    co_await changed_.wait(deadline);
}

void FileWatch::take(wire::files::Change what) {
  if (what.kind == ChangeKind::kOverflow) unwatched_.clear();
  if (what.kind == ChangeKind::kLimit && unwatched_.size() <= wire::files::kMostLimits) {
    unwatched_.push_back(what.path);
  }
  if (!ready_) {  // until then, only reports of unwatched directories
    ready_ = what.kind == ChangeKind::kReady;
    if (ready_) changed_.notify();
    return;
  }
  kept_bytes_ += costOf(what);
  kept_.push_back({.seq = ++last_, .what = std::move(what)});
  while (kept_bytes_ > bounds_.kept_bytes) {
    kept_bytes_ -= costOf(kept_.front().what);
    kept_.pop_front();
  }
  changed_.notify();
}

void FileWatch::close(Result<> why) {
  if (!closed_) closed_ = std::move(why);
  // The call refers to its session, which refers to the watch.
  if (const auto call = std::exchange(call_, nullptr)) call->abandon();
  changed_.notify();
  readers_changed_.notify();
}

}  // namespace cloister::orchestrator
