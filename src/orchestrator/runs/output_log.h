// SPDX-License-Identifier: Apache-2.0
// OutputLog: the live output of one execution, for any number of readers at their own pace. Each
// stream keeps its first `cap` bytes. Readers pull by offset, so a slow reader delays nobody and
// loses nothing below the cap. A terminal's stream keeps its last bytes instead. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "model/execution.h"
#include "model/outcome.h"

namespace cloister::orchestrator {

class OutputLog {
 public:
  // kLast: at least the last `cap` bytes, and less than twice as many.
  enum class Keep : uint8_t { kFirst, kLast };
  OutputLog(boost::asio::any_io_executor executor, uint64_t cap, Keep keep = Keep::kFirst);
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;
  ~OutputLog() = default;

  // The closed log of an ended execution, from its record.
  static std::shared_ptr<OutputLog> ofRecord(boost::asio::any_io_executor executor,
                                             const model::Execution& execution);

  void append(model::Stream stream, std::string_view bytes);
  // Publishes a new status or usage, without output bytes, which the log already has.
  void publish(const model::Execution& execution);
  void close();  // the last status has been published

  // The offset of the first kept byte.
  [[nodiscard]] uint64_t begin(model::Stream stream) const;
  // Kept bytes from `offset` or begin(), whichever is later; valid until the next append.
  [[nodiscard]] std::string_view kept(model::Stream stream, uint64_t offset) const;
  [[nodiscard]] uint64_t total(model::Stream stream) const;  // bytes the program wrote
  [[nodiscard]] const model::Execution& latest() const { return latest_; }  // no output bytes
  [[nodiscard]] model::Execution withOutput() const;                        // with kept bytes
  [[nodiscard]] uint64_t version() const { return version_; }  // grows with every change
  // Grows with every publish(): the first part of an event id.
  [[nodiscard]] bool closed() const { return closed_; }

  // Resumes when version() > seen, the log is closed, or `timeout` has passed. The caller keeps the
  // log alive.
  boost::asio::awaitable<void> wait(uint64_t seen, std::chrono::milliseconds timeout);

 private:
  struct Kept {
    std::string bytes;
    uint64_t total = 0;
    uint64_t begin = 0;
  };
  [[nodiscard]] const Kept& of(model::Stream stream) const;
  void changed();

  uint64_t cap_;
  Keep keep_;
  Kept out_;
  Kept err_;
  model::Execution latest_;
  uint64_t version_ = 0;
  bool closed_ = false;
  async::Signal changed_;
};

}  // namespace cloister::orchestrator
