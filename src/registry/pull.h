// SPDX-License-Identifier: Apache-2.0
// A pull: finds the image of this machine's platform, verifies what the settings require, and only
// then fetches the layers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/image.h"
#include "registry/reference.h"

namespace cloister::registry {

struct PullOptions {
  Reference reference;
  model::ImageSettings settings;
  std::string directory;  // must not exist; becomes an OCI layout of exactly one image
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct Pulled {
  model::VerifiedImage verified;
  std::vector<std::string> notes;  // what was not checked
};

// Blocks, for at most settings.pull_seconds. A failure leaves a partial directory, which the caller
// removes. The calling process has then read the credentials and hostile documents.
Result<Pulled> pull(const PullOptions& options);

}  // namespace cloister::registry
