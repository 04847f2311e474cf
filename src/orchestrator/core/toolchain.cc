// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/toolchain.h"

#include <algorithm>
#include <string>

#include "model/image_name.h"

namespace cloister::orchestrator {
namespace {

constexpr std::string_view kMachine = "microvm";

Result<> inDefaultImage(const model::NodeOffer& offer, std::string_view language) {
  for (const model::Finding& finding : offer.findings) {
    if (finding.area != "language" || finding.name != language) continue;
    if (finding.state != model::Finding::State::kMissing) continue;
    return fail(Code::kUnsupported,
                "language: " + finding.detail + "; on the node: " + finding.remedy, "language");
  }
  return {};
}

}  // namespace

Result<> checkToolchain(const model::NodeOffer& offer, std::string_view language,
                        const model::PermitFields& permit) {
  if (language.empty()) return {};
  const model::ImageRef image = TRY(model::parseImageRef(permit.image));
  if (image.isHost()) {
    return permit.runtime == kMachine ? Result<>() : inDefaultImage(offer, language);
  }
  const auto found = std::ranges::find(offer.images, image.name, &model::OfferedImage::name);
  if (found == offer.images.end() || found->languages.empty()) return {};
  if (std::ranges::find(found->languages, language) != found->languages.end()) return {};
  std::string names;
  for (const std::string& name : found->languages)
    names += (names.empty() ? "" : ", ") + name;
  return fail(Code::kUnsupported,
              "language: the image " + image.name + " has no toolchain for " +
                  std::string(language) + "; it has those of: " + names,
              "language");
}

}  // namespace cloister::orchestrator
