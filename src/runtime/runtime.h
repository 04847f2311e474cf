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

// Receives what a running exec produces. A coroutine that suspends slows the program down: that is
// the backpressure.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // The program has been started.
  virtual void onStarted() = 0;
  virtual Task<void> onOutput(model::Stream stream, std::string_view bytes) = 0;
  // A collected file: begin, then its bytes in order, then end, without which it is none. `path` is
  // relative, valid UTF-8 or not, and hostile.
  virtual Task<void> onFileBegin(std::string path, uint64_t size) = 0;
  virtual Task<void> onFileData(std::string_view bytes) = 0;
  virtual Task<void> onFileEnd() = 0;
  virtual void onUsage(const model::Usage&) {}
};

// What a sandbox is, for the record.
struct SandboxInfo {
  std::string runtime;
  std::string node;
  std::string image;         // its name
  std::string image_digest;  // "" while it is not verified, which `weakened` tells
  std::vector<std::string> weakened;
};

// One program of a session's sandbox. Destroying one that runs kills it and all that it started.
class Exec {
 public:
  virtual ~Exec() = default;
  // Runs it to its end; once. Its time-out, or cancel(), ends every process that it started and
  // nothing else; what it leaves behind when it ends by itself goes on. Where the sandbox ends
  // first, the outcome is kRunnerLost.
  virtual Task<Result<model::Outcome>> run(ExecObserver& observer) = 0;
  // Ends it as kCancelled. Returns at once; run() reports. Idempotent.
  virtual void cancel() = 0;
  // More for its stdin, where ExecSpec::keep_input says that more may come; nothing: end of file.
  // Suspends while the program is slow to read. kConflict after the end of file, or of the program.
  virtual Task<Result<>> input(std::string bytes) = 0;
  // A signal to the program's process group. kConflict once it has ended.
  virtual Result<> signal(int number) = 0;
  // The size of its terminal (ExecSpec::terminal). kConflict once it has ended, or without one.
  virtual Result<> resize(model::TerminalSize size) = 0;
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;
  [[nodiscard]] virtual const SandboxInfo& info() const = 0;

  // Runs the one command that its permit names, to its end, and collects the artifacts. An Error is
  // a fault of ours; all that the program does is an Outcome.
  virtual Task<Result<model::Outcome>> exec(const model::ExecSpec& spec,
                                            ExecObserver& observer) = 0;

  // A program beside others, for a sandbox whose permit makes a session (PermitFields::session_id)
  // and a permit of its own in that session. kQuota: too many at once; kDenied: not its permit.
  // kUnsupported from a runtime that has no sessions.
  virtual Task<Result<std::unique_ptr<Exec>>> open(const model::SignedPermit& permit,
                                                   const model::ExecSpec& spec);
  // Suspends until a session's sandbox has ended, and says why.
  virtual Task<model::SandboxEnd> died();

  // What a session's sandbox has used, and holds now, as far as is known; nullopt: not yet, or from
  // a runtime that has no sessions. Goes on to say the last of it once the sandbox has ended.
  [[nodiscard]] virtual std::optional<model::Usage> used() const { return std::nullopt; }

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

  // The images that it has besides its own, now: another list when they change; none: there are
  // none.
  [[nodiscard]] virtual std::shared_ptr<const std::vector<model::OfferedImage>> images() {
    return nullptr;
  }

  // What it knows of the content of its own image, now; nullopt: nothing.
  [[nodiscard]] virtual std::optional<model::ImageState> image() const { return std::nullopt; }

  // What it keeps ready, as far as is known now; nullopt when it keeps nothing.
  [[nodiscard]] virtual std::optional<model::PoolStats> pool() const { return std::nullopt; }
};

}  // namespace cloister::runtime
