// SPDX-License-Identifier: Apache-2.0
// The interface of E2B, at /e2b and at the root of compat.e2b.listen: the control plane, envd
// (files and processes of a sandbox) and the code interpreter.
#pragma once

#include "api/compat/compat.h"

namespace cloister::api::compat::e2b {

Facade facade(RestParts& parts);

}  // namespace cloister::api::compat::e2b
