// SPDX-License-Identifier: Apache-2.0
// Runtime: the one interface behind which isolation lives. The process runtime implements it in the
// node, `remote` carries it over the wire to a node, `fake` serves tests. runtime_suite.h is the
// conformance suite that every implementation passes.
//
// All calls and callbacks happen on the executor given at construction (one thread); coroutines may
// suspend. A Sandbox must be torn down with teardown(); destroying one without it kills it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "base/json.h"
#include "base/result.h"
#include "model/exec_spec.h"
#include "model/outcome.h"
#include "model/permit.h"
#include "model/plan.h"

namespace cloister::runtime {

template <class T>
using Task = boost::asio::awaitable<T>;

// Receives what a running exec produces. A coroutine that suspends slows the program down: that is
// the backpressure.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // The program has been started.
  virtual void onStarted() = 0;
  virtual Task<void> onOutput(model::Stream stream, std::string_view bytes) = 0;
  // A collected file: begin, then its bytes in order, then end. `path` is relative, valid UTF-8 or
  // not, and hostile.
  virtual Task<void> onFileBegin(std::string path, uint64_t size) = 0;
  virtual Task<void> onFileData(std::string_view bytes) = 0;
  virtual Task<void> onFileEnd() = 0;
  virtual void onUsage(const model::Usage&) {}
};

// What a sandbox is, for the record.
struct SandboxInfo {
  std::string runtime;
  std::string node;
  std::string image_digest;
  std::vector<std::string> weakened;
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;
  [[nodiscard]] virtual const SandboxInfo& info() const = 0;

  // Runs one command to its end and collects the artifacts. An Error is a fault of ours; all that
  // the program does is an Outcome. One exec at a time for now.
  virtual Task<Result<model::Outcome>> exec(const model::ExecSpec& spec,
                                            ExecObserver& observer) = 0;

  // Ends the running exec as kCancelled. Returns at once; exec() reports. Idempotent.
  virtual void cancel() = 0;

  // Kills everything inside and releases every resource. After it nothing of the sandbox is left.
  virtual Task<Result<>> teardown() = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  // A fresh sandbox for this permit. kDenied, kUnsupported, kQuota or kInternal say why not;
  // kUnavailable, here and in Sandbox, always means that the runtime itself is gone (node lost).
  virtual Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) = 0;

  // What provision would do, as JSON: mounts, syscall policy, limits, identities. Starts nothing.
  virtual Task<Result<base::json::object>> plan(const model::SignedPermit& permit) = 0;
};

}  // namespace cloister::runtime
