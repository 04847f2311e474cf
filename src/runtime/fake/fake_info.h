// SPDX-License-Identifier: Apache-2.0
// A fake sandbox's description of itself. Pure.
#pragma once

#include <optional>
#include <string>

#include "model/image_name.h"
#include "model/permit.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

inline SandboxInfo fakeInfo(const model::PermitFields& permit,
                            const std::optional<model::ImageState>& own) {
  const auto image = model::parseImageRef(permit.image).value_or(model::ImageRef{});
  SandboxInfo info{.runtime = "fake",
                   .node = "fake",
                   .image = image.name,
                   .image_digest = image.isHost() ? "sha256:" + std::string(64, '0') : image.digest,
                   .weakened = {"isolation: none (fake runtime)"}};
  if (!image.isHost() || !own) return info;
  info.image_digest = own->digest;
  if (own->digest.empty()) info.weakened.emplace_back(model::kWeakerUnverified);
  return info;
}

}  // namespace cloister::runtime
