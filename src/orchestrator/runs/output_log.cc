// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/output_log.h"

#include <algorithm>
#include <utility>

namespace cloister::orchestrator {

OutputLog::OutputLog(boost::asio::any_io_executor executor, uint64_t cap, Keep keep)
    : cap_(cap), keep_(keep), changed_(std::move(executor)) {}

std::shared_ptr<OutputLog> OutputLog::ofRecord(boost::asio::any_io_executor executor,
                                               const model::Execution& execution) {
  const size_t most = std::max(execution.out.bytes.size(), execution.err.bytes.size());
  auto log = std::make_shared<OutputLog>(std::move(executor), most);
  log->out_ = {execution.out.bytes, execution.out.total, 0};
  log->err_ = {execution.err.bytes, execution.err.total, 0};
  log->publish(execution);
  log->close();
  return log;
}

void OutputLog::append(model::Stream stream, std::string_view bytes) {
  Kept& kept = stream == model::Stream::kStdout ? out_ : err_;
  kept.total += bytes.size();
  if (keep_ == Keep::kLast) {
    kept.bytes += bytes;
    const uint64_t extra = kept.bytes.size() - std::min<uint64_t>(cap_, kept.bytes.size());
    if (extra >= cap_) {
      kept.bytes.erase(0, extra);
      kept.begin += extra;
    }
  } else if (kept.bytes.size() < cap_) {
    kept.bytes += bytes.substr(0, static_cast<size_t>(cap_ - kept.bytes.size()));
  }
  changed();
}

void OutputLog::publish(const model::Execution& execution) {
  latest_ = execution;
  latest_.out.bytes = {};
  latest_.err.bytes = {};
  changed();
}

void OutputLog::close() {
  closed_ = true;
  changed();
}

std::string_view OutputLog::kept(model::Stream stream, uint64_t offset) const {
  const std::string_view bytes = of(stream).bytes;
  offset -= std::min(offset, of(stream).begin);
  return offset < bytes.size() ? bytes.substr(static_cast<size_t>(offset)) : std::string_view{};
}

model::Execution OutputLog::withOutput() const {
  model::Execution execution = latest_;
  const auto fill = [](model::KeptOutput& shown, const Kept& kept) {
    shown.bytes = kept.bytes;
    shown.total = kept.total;
    shown.truncated = shown.truncated || kept.total > kept.bytes.size();
  };
  fill(execution.out, out_);
  fill(execution.err, err_);
  return execution;
}

uint64_t OutputLog::begin(model::Stream stream) const {
  return of(stream).begin;
}

uint64_t OutputLog::total(model::Stream stream) const {
  return of(stream).total;
}

boost::asio::awaitable<void> OutputLog::wait(uint64_t seen, std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (version_ <= seen && !closed_ && std::chrono::steady_clock::now() < until) {
    co_await changed_.wait(until);
  }
}

const OutputLog::Kept& OutputLog::of(model::Stream stream) const {
  return stream == model::Stream::kStdout ? out_ : err_;
}

void OutputLog::changed() {
  version_++;
  changed_.notify();
}

}  // namespace cloister::orchestrator
