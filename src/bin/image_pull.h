// SPDX-License-Identifier: Apache-2.0
// `cloister-image pull`: the registry client in a child process. The child alone has the
// credentials and reads what registries send; this process gets the result as a short message,
// which it does not trust.
#pragma once

#include <string>

#include "base/result.h"
#include "registry/pull.h"

namespace cloister {

// As registry::pull(). Ends with kUnavailable when `cancel`, a descriptor, becomes readable. The
// caller has a single thread.
Result<registry::Pulled> pullInChild(const registry::PullOptions& options, int cancel);

// The last part of the repository's path.
std::string nameOfPulled(const registry::Reference& reference);

}  // namespace cloister
