// SPDX-License-Identifier: Apache-2.0
// NodeExec: the programs of a session that the node answers by itself (wire/files.h). One thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

// Input, signals and sizes are refused. `place` lives as long as the Exec.
class NodeExec : public Exec {
 public:
  explicit NodeExec(std::shared_ptr<void> place) : place_(std::move(place)) {}
  void cancel() override { cancelled_ = true; }
  Task<Result<>> input(std::string /*bytes*/) override {
    co_return fail(Code::kConflict, "sending input: it takes none");
  }
  Result<> signal(int /*number*/) override {
    return fail(Code::kConflict, "sending a signal: there is no process");
  }
  Result<> resize(model::TerminalSize /*size*/) override {
    return fail(Code::kConflict, "resizing a terminal: there is none");
  }

 protected:
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  static std::unexpected<Error> gone() { return fail(Code::kConflict, "it was broken off"); }

 private:
  std::shared_ptr<void> place_;
  bool cancelled_ = false;
};

// The outcome of such a program that succeeded.
inline model::Outcome succeeded(int64_t started_at) {
  model::Outcome outcome;
  outcome.end = model::End::kExited;
  outcome.started_at = started_at;
  outcome.finished_at = base::wallMicros();
  return outcome;
}

}  // namespace cloister::runtime
