// SPDX-License-Identifier: Apache-2.0
// The digest of the node's own image, where it becomes known only after something ran on it. A run
// that ends after that has the digest in its record. One that ended before is noted in the ledger,
// and an entry of the audit log binds the digest to it.
#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "model/image_state.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {

bool isUnverified(const model::Provenance& provenance) {
  const auto& weakened = provenance.weakened;
  return provenance.image_digest.empty() &&
         std::ranges::find(weakened, model::kWeakerUnverified) != weakened.end();
}

std::string unverifiedName(const model::ImageState& image) {
  return "not verified yet, identity " + image.identity;
}

std::string RunService::Impl::hostImage() const {
  if (!node.offer.image_digest.empty()) return node.offer.image_digest;
  return host_image ? unverifiedName(*host_image) : "";
}

// The node says something new of its image, or is a new one.
void RunService::Impl::imageTold() {
  if (node.runtime != nullptr) host_image = node.runtime->image();
  if (!host_image || host_image->digest.empty()) return;
  std::string before = std::exchange(image_before, host_image->digest);
  if (!before.empty() && before != host_image->digest) {
    async::spawn(executor, recordImageChange(std::move(before)));
  }
  async::spawn(executor, bindImage());
  if (image_verified) image_verified();
}

// A sandbox that is asked for now will have been made after this, by the node's clock: what the
// node says later of its image can only be later.
int64_t RunService::Impl::imageSince() const {
  return host_image ? host_image->since : 0;
}

// Whether the image that is verified by now was the same already for a sandbox made after `since`.
bool RunService::Impl::imageHeld(int64_t since) const {
  return host_image && !host_image->digest.empty() && since > host_image->changed_at;
}

void RunService::Impl::settleImage(model::Provenance& provenance, int64_t since) const {
  if (!isUnverified(provenance) || !imageHeld(since)) return;
  provenance.image_digest = host_image->digest;
  std::erase(provenance.weakened, model::kWeakerUnverified);
}

// Before its end is recorded: a note without an end does no harm.
Task<void> RunService::Impl::noteUnverified(const Live& run) {
  if (!isUnverified(run.execution.provenance) || !host_image) co_return;
  const std::string id = run.execution.id;
  const auto noted =
      co_await ledger.write(store::noteUnverified, {id, host_image->place, run.image_since});
  if (!noted) {
    base::log(base::Level::kError, "no image digest will be bound to a run",
              {{"execution", id}, {"reason", noted.error().message}});
  }
}

Task<void> RunService::Impl::bindImage() {
  const auto self = shared_from_this();
  bind_again = true;
  if (binding) co_return;
  binding = true;
  while (std::exchange(bind_again, false) && host_image && !host_image->digest.empty()) {
    const store::VerifiedImage verified{.place = host_image->place,
                                        .digest = host_image->digest,
                                        .node = node.offer.node,
                                        .changed_at = host_image->changed_at,
                                        .newest = host_image->newest,
                                        .changed = host_image->changed};
    uint64_t bound = 0;
    const auto write = [&]() -> Task<Result<>> {
      bound = CO_TRY(co_await ledger.write(store::bindImage, verified));
      co_return Result<>{};
    };
    const auto written = co_await insist("image " + verified.digest, write);
    if (!written) {
      base::log(base::Level::kError, "an image digest was not bound to runs",
                {{"reason", written.error().message}});
    } else if (bound > 0) {
      bind_again = true;
    }
  }
  binding = false;
}

// What ran since the change may have the digest of before.
Task<void> RunService::Impl::recordImageChange(std::string from) {
  const auto self = shared_from_this();
  model::AuditEvent event{
      .action = "image.changed",
      .subject = host_image->digest,
      .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
      .details = {
          {"from", from},
          {"to", host_image->digest},
          {"node", node.offer.node},
          {"changed_at", host_image->changed_at},
          {"changed", base::json::array(host_image->changed.begin(), host_image->changed.end())}}};
  std::ignore = co_await insist("image", [&] { return ledger.write(store::appendEvent, event); });
}

}  // namespace cloister::orchestrator
