// SPDX-License-Identifier: Apache-2.0
// FileCall: one request to the file server of a session's sandbox (wire/files.h), and its answer as
// it comes. Neither side is held whole: what is sent waits for the sandbox, what it says waits for
// the reader. One executor; giving up the call ends the request where it is.
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
  std::string action;   // of its audit row, with the paths; "": it changes nothing, and has none
  bool own = false;     // the service's, for an approval: policy has wanted that already
  bool passes = false;  // Host::pass()
  // It waits while the workspace is held for another, until that is so (Home::wake()). Without, it
  // fails then.
  std::function<bool()> over = {};
  bool stays = false;  // as long as the session, and is none of its programs
};

class FileCall {
 public:
  // Writes the row of a request that has succeeded, or of one that failed for that reason.
  using Record = std::function<Task<Result<>>(const std::optional<Error>& failed)>;

  // `host` is prepared for `spec` and occupied. `record` is called once, before anyone hears how it
  // ended.
  FileCall(boost::asio::any_io_executor executor, std::unique_ptr<Host> host, model::ExecSpec spec,
           Record record);
  ~FileCall();
  FileCall(const FileCall&) = delete;
  FileCall& operator=(const FileCall&) = delete;

  // More of what it takes; "" is the end.
  Task<Result<>> send(std::string bytes);
  // The next part of the answer; nothing at its end.
  Task<Result<std::optional<wire::files::Part>>> next();
  // The first part, where that is an entry.
  Task<Result<wire::files::Entry>> entry();
  // The answer's next raw bytes, at most 64 KiB; "" at its end.
  Task<Result<std::string>> read();
  // To the end of the request, and of its record: only now is it done.
  Task<Result<>> finish();
  // Ends the request where it is: the session is ending.
  void abandon();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace cloister::orchestrator
