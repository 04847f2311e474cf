// SPDX-License-Identifier: Apache-2.0
// Scanner: a command of the operator that is asked about each stored file before anyone can read
// it. It fails closed: what it did not call clean is not kept. docs/adr/0026. On the executor; the
// command is waited for on threads of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "artifacts/blobs.h"
#include "async/signal.h"
#include "base/result.h"

namespace cloister::orchestrator {

// What the command came to: its exit status, or less than 0 if it has none.
struct ScanEnd {
  int status = -1;
  std::string said;  // bounded; what it wrote
};

class Scanner {
 public:
  using More = std::function<Result<std::string>()>;  // the content's next bytes; "" at its end
  // Runs the command in `slot` (0 to slots - 1), on one thread at a time for each. An error means
  // that the slot is of no use any more.
  using Command = std::function<Result<ScanEnd>(size_t slot, const More& more)>;

  // `stop` makes every command that is running end at once.
  Scanner(const boost::asio::any_io_executor& executor, size_t slots, Command command,
          std::function<void()> stop);
  ~Scanner();

  // Nothing when it is clean; kDenied when it was refused; kUnavailable when it is not known. Waits
  // for a slot.
  boost::asio::awaitable<Result<>> scan(std::shared_ptr<artifacts::BlobReader> content);

 private:
  enum class Slot : uint8_t { kFree, kBusy, kLost };

  Command command_;
  std::function<void()> stop_;
  std::vector<Slot> slots_;
  async::Signal changed_;
  boost::asio::thread_pool threads_;
};

}  // namespace cloister::orchestrator
