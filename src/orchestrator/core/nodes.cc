// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/nodes.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace cloister::orchestrator {

void Nodes::set(NodeState state) {
  const bool lost = state.runtime == nullptr;
  if (lost) state.offer.runtimes = std::move(node_.offer.runtimes);
  node_ = std::move(state);
  places_.offer(node_.offer.max_sandboxes, node_.offer.memory_bytes);
  if (!lost) image_ = node_.runtime->image();
  const auto told = watchers();
  if (!lost && image_ && !image_->digest.empty()) {
    for (const auto& each : told)
      each->imageVerified();
  }
  for (const auto& each : std::views::reverse(told)) {
    if (lost) {
      each->nodeLost();
    } else {
      each->nodeCame();
    }
  }
}

std::vector<std::shared_ptr<Nodes::Watcher>> Nodes::watchers() {
  std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
  std::vector<std::shared_ptr<Watcher>> there;
  for (const auto& each : watchers_) {
    if (auto watcher = each.lock()) there.push_back(std::move(watcher));
  }
  return there;
}

std::string Nodes::imageName() const {
  if (!node_.offer.image_digest.empty()) return node_.offer.image_digest;
  return image_ ? unverifiedName(*image_) : "";
}

void Nodes::settleImage(model::Provenance& provenance, int64_t since) const {
  const bool held = image_ && !image_->digest.empty() && since > image_->changed_at;
  if (!isUnverified(provenance) || !held) return;
  provenance.image_digest = image_->digest;
  std::erase(provenance.weakened, model::kWeakerUnverified);
}

bool isUnverified(const model::Provenance& provenance) {
  const auto& weakened = provenance.weakened;
  return provenance.image_digest.empty() &&
         std::ranges::find(weakened, model::kWeakerUnverified) != weakened.end();
}

std::string unverifiedName(const model::ImageState& image) {
  return "not verified yet, identity " + image.identity;
}

}  // namespace cloister::orchestrator
