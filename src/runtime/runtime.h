// SPDX-License-Identifier: Apache-2.0
// Runtime: the one interface to every kind of isolation. The process runtime implements the
// interface in the node, `remote` carries calls over the wire to a node, and `fake` serves tests.
// runtime_suite.h is the conformance suite that every implementation passes.
//
// All calls and callbacks happen on the executor given at construction (one thread); coroutines may
// suspend. End a Sandbox with teardown(); destroying a Sandbox without teardown() kills the
// sandbox.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "base/json.h"
#include "base/result.h"
#include "model/exec_spec.h"
#include "model/image_state.h"
#include "model/outcome.h"
#include "model/permit.h"
#include "model/plan.h"
#include "model/pool_stats.h"
#include "model/sandbox_end.h"

namespace cloister::runtime {

template <class T>
using Task = boost::asio::awaitable<T>;

// Receives the output of a running exec. A coroutine that suspends slows the program down:
// backpressure.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // The program has been started.
  virtual void onStarted() = 0;
  virtual Task<void> onOutput(model::Stream stream, std::string_view bytes) = 0;
  // A collected file: begin, then its bytes in order, then end. Without the end the file is
  // invalid. `path` is relative, possibly invalid UTF-8, and hostile.
  virtual Task<void> onFileBegin(std::string path, uint64_t size) = 0;
  virtual Task<void> onFileData(std::string_view bytes) = 0;
  virtual Task<void> onFileEnd() = 0;
  virtual void onUsage(const model::Usage&) {}
};

// A sandbox's properties for the record.
struct SandboxInfo {
  std::string runtime;
  std::string node;
  std::string image;         // its name
  std::string image_digest;  // "" while not verified, as stated in `weakened`
  std::vector<std::string> weakened;
};

// A program of a session's sandbox. Destroying a running program kills all its processes.
class Exec {
 public:
  virtual ~Exec() = default;
  // Runs the program to its end; call once. A timeout or cancel() ends all processes started by the
  // program and no others; processes left after its normal end continue. If the sandbox ends first,
  // the outcome is kRunnerLost.
  virtual Task<Result<model::Outcome>> run(ExecObserver& observer) = 0;
  // Ends the program as kCancelled. Returns at once; run() reports. Idempotent.
  virtual void cancel() = 0;
  // Sends more stdin, with ExecSpec::keep_input; empty: end of file. Suspends while the program is
  // slow to read. kConflict after the end of file, or of the program.
  virtual Task<Result<>> input(std::string bytes) = 0;
  // Sends a signal to the program's process group. kConflict after the end.
  virtual Result<> signal(int number) = 0;
  // Sets the size of its terminal (ExecSpec::terminal). kConflict after the end, or without a
  // terminal.
  virtual Result<> resize(model::TerminalSize size) = 0;
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;
  [[nodiscard]] virtual const SandboxInfo& info() const = 0;

  // Runs the single command named by its permit to its end, and collects the artifacts. An Error is
  // a fault of ours; any behaviour of the program is an Outcome.
  virtual Task<Result<model::Outcome>> exec(const model::ExecSpec& spec,
                                            ExecObserver& observer) = 0;

  // Opens a program beside others, for a sandbox whose permit makes a session
  // (PermitFields::session_id), with a separate permit in the session. kQuota: too many at once;
  // kDenied: not permitted. kUnsupported from a runtime without sessions.
  virtual Task<Result<std::unique_ptr<Exec>>> open(const model::SignedPermit& permit,
                                                   const model::ExecSpec& spec);
  // Suspends until a session's sandbox has ended, and says why.
  virtual Task<model::SandboxEnd> died();

  // Known total usage of a session's sandbox, and its current memory; nullopt: not yet known, or a
  // runtime without sessions. After the sandbox's end, returns the last value.
  [[nodiscard]] virtual std::optional<model::Usage> used() const { return std::nullopt; }

  // Ends the running exec as kCancelled. Returns at once; exec() reports. Idempotent.
  virtual void cancel() = 0;

  // Kills all processes inside and releases all resources. Afterwards nothing of the sandbox is
  // left.
  virtual Task<Result<>> teardown() = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Makes a new sandbox for the permit. kDenied, kUnsupported, kQuota and kInternal give the reason
  // of a failure; kUnavailable, here and in Sandbox, always means that the runtime itself is gone
  // (node lost).
  virtual Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) = 0;

  // A plan of provision() as JSON: mounts, syscall policy, limits, identities. Starts nothing.
  virtual Task<Result<base::json::object>> plan(const model::SignedPermit& permit) = 0;

  // The current images besides its own. A change replaces the list; nullptr: no images.
  [[nodiscard]] virtual std::shared_ptr<const std::vector<model::OfferedImage>> images() {
    return nullptr;
  }

  // The known state of the content of its own image; nullopt: unknown.
  [[nodiscard]] virtual std::optional<model::ImageState> image() const { return std::nullopt; }

  // The known state of ready sandboxes; nullopt without a pool.
  [[nodiscard]] virtual std::optional<model::PoolStats> pool() const { return std::nullopt; }
};

}  // namespace cloister::runtime
