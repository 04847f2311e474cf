// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime.h"

namespace cloister::runtime {

Task<Result<std::unique_ptr<Exec>>> Sandbox::open(const model::SignedPermit& /*permit*/,
                                                  const model::ExecSpec& /*spec*/) {
  co_return fail(Code::kUnsupported, "running in a session: this runtime has no sessions");
}

Task<model::SandboxEnd> Sandbox::died() {
  co_return model::SandboxEnd{};
}

}  // namespace cloister::runtime
