// SPDX-License-Identifier: Apache-2.0
// One program of a session in a sandbox that is made for the program and ends with the program. The
// sandbox is within the session's (within.h), or beside the session's (beside.h). Run conducts the
// program like any other. The program takes no input but ExecSpec::input, no signal and no
// terminal. One thread.
#pragma once

#include <memory>

#include "model/exec_spec.h"
#include "runtime/runtime.h"
#include "sandbox/box/housing.h"

namespace cloister::runtime {

// A separate sandbox for a single program, before and after its creation.
class Apart {
 public:
  virtual ~Apart() = default;
  // Creates the sandbox. Returns when its runner is ready. Call once.
  virtual Task<Result<std::shared_ptr<Housing>>> make() = 0;
  // Receives the program's usage before bury(), so that the session's usage can include the
  // program.
  virtual void take(const model::Usage& /*usage*/) {}
  // Ends the sandbox, ready or not. Returns at once. Idempotent.
  virtual void end() = 0;
  // Calls end() and waits until the sandbox is gone. Call once, after make().
  virtual Task<void> bury() = 0;
};

// run() creates the sandbox, and the sandbox is gone when run() returns. `place` lives as long as
// the Exec.
std::unique_ptr<Exec> makeExecApart(std::shared_ptr<Apart> apart, model::ExecSpec spec,
                                    std::shared_ptr<void> place);

}  // namespace cloister::runtime
