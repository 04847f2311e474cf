// SPDX-License-Identifier: Apache-2.0
// What the settings require of an image before its layers are fetched: a signature by a key, a bill
// of materials, no denied package, no severe advisory. Fails closed: what cannot be checked is
// refused. One thread; blocks.
#pragma once

#include <string>

#include "base/result.h"
#include "model/image.h"
#include "registry/pull.h"
#include "registry/reference.h"
#include "registry/sources.h"

namespace cloister::registry {

// `manifest`: the digest of this machine's manifest, which the reference names or leads to. kDenied
// names the setting and the reason. Sets `out.verified` but for the reference, and `out.notes`.
Result<> verify(Sources& sources, const Reference& reference, const std::string& manifest,
                const model::ImageSettings& settings, Pulled& out);

}  // namespace cloister::registry
