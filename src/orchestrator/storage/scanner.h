// SPDX-License-Identifier: Apache-2.0
// Scanner: an operator's command, or server, that examines each stored file before any reader. The
// scanner fails closed: a file not called clean is not kept. docs/adr/0026. On the executor;
// threads of their own wait for the command.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "artifacts/blobs.h"
#include "async/signal.h"
#include "base/result.h"

namespace cloister::orchestrator {

// The command's end: its exit status, or less than 0 without a status.
struct ScanEnd {
  int status = -1;
  std::string said;  // the command's output, bounded
};

class Scanner {
 public:
  using More = std::function<Result<std::string>()>;  // the content's next bytes; "" at its end
  // Runs the command in `slot` (0 to slots - 1), on one thread at a time for each. An error means
  // an unusable slot.
  using Command = std::function<Result<ScanEnd>(size_t slot, const More& more)>;

  // `key`: of the configuration, for refusals. `stop` ends every running command at once.
  Scanner(const boost::asio::any_io_executor& executor, std::string key, size_t slots,
          Command command, std::function<void()> stop);
  ~Scanner();

  // Nothing for a clean file; kDenied for a refused file; kUnavailable without a verdict. Waits for
  // a slot.
  boost::asio::awaitable<Result<>> scan(std::shared_ptr<artifacts::BlobReader> content);

 private:
  enum class Slot : uint8_t { kFree, kBusy, kLost };

  std::string key_;
  Command command_;
  std::function<void()> stop_;
  std::vector<Slot> slots_;
  async::Signal changed_;
  std::stop_source stopped_;  // of the threads that wait for content
  boost::asio::thread_pool threads_;
};

}  // namespace cloister::orchestrator
