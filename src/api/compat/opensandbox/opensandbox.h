// SPDX-License-Identifier: Apache-2.0
// The interface of OpenSandbox, at /opensandbox. Errors are {"code": "SOME_TEXT", "message"}.
#pragma once

#include "api/compat/compat.h"

namespace cloister::api::compat::opensandbox {

Facade facade(RestParts& parts);

}  // namespace cloister::api::compat::opensandbox
