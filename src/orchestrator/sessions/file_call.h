// SPDX-License-Identifier: Apache-2.0
// FileCall: one request to the file server of a session's sandbox (wire/files.h), and its streamed
// answer. Neither side is held whole: input waits for the sandbox, and output waits for the reader.
// One executor; giving up the call ends the request at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "orchestrator/core/task.h"
#include "orchestrator/runs/host.h"
#include "wire/files_codec.h"

namespace cloister::orchestrator {

struct FileRequest {
  std::vector<std::string> argv;  // see wire/files.h
  bool takes_input = false;
  std::string action;   // of its audit row, which has the paths; "" without changes or row
  bool own = false;     // the service's own, for an approval: policy already wanted the approval
  bool passes = false;  // Host::pass()
  // Waits while the workspace is held for another program, until `over` is true (Home::wake()).
  // Without `over` the request fails then.
  std::function<bool()> over = {};
  bool stays = false;  // as long as the session, and is none of its programs
};

class FileCall {
 public:
  // Writes the audit row of a successful request, or of a request that failed for this reason.
  using Record = std::function<Task<Result<>>(const std::optional<Error>& failed)>;

  // `host` is prepared for `spec` and occupied. `record` is called once, before the caller learns
  // the result.
  FileCall(boost::asio::any_io_executor executor, std::unique_ptr<Host> host, model::ExecSpec spec,
           Record record);
  ~FileCall();
  FileCall(const FileCall&) = delete;
  FileCall& operator=(const FileCall&) = delete;

  // More input; "" is the end.
  Task<Result<>> send(std::string bytes);
  // The next part of the answer; nothing at its end.
  Task<Result<std::optional<wire::files::Part>>> next();
  // The first part, if the part is an entry.
  Task<Result<wire::files::Entry>> entry();
  // The answer's next raw bytes, at most 64 KiB; "" at its end.
  Task<Result<std::string>> read();
  // Waits for the end of the request and of its record.
  Task<Result<>> finish();
  // Ends the request at once: the session is ending.
  void abandon();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace cloister::orchestrator
