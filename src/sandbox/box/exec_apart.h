// SPDX-License-Identifier: Apache-2.0
// One program of a session in a sandbox that is made for it and ends with it: within the session's
// (within.h), or beside it (beside.h). It is conducted like any run (Run). It takes no input but
// ExecSpec::input, no signal and no terminal. One thread.
#pragma once

#include <memory>

#include "model/exec_spec.h"
#include "runtime/runtime.h"
#include "sandbox/box/housing.h"

namespace cloister::runtime {

// A sandbox for one program, before and after it is there.
class Apart {
 public:
  virtual ~Apart() = default;
  // Makes it: returns when its runner is there. Once.
  virtual Task<Result<std::shared_ptr<Housing>>> make() = 0;
  // What its program has used, before bury(); for what is to be the session's as well.
  virtual void take(const model::Usage& /*usage*/) {}
  // Ends it, made or not. Returns at once. Idempotent.
  virtual void end() = 0;
  // end(), and waits until it is gone. Once, after make().
  virtual Task<void> bury() = 0;
};

// The sandbox is made by run(), and gone when that returns. `place` is let go with the Exec.
std::unique_ptr<Exec> makeExecApart(std::shared_ptr<Apart> apart, model::ExecSpec spec,
                                    std::shared_ptr<void> place);

}  // namespace cloister::runtime
