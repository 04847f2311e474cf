// SPDX-License-Identifier: Apache-2.0
// The digest of the node's own image, if the digest becomes known only after a run. A run with a
// later end has the digest in its record. A run with an earlier end is noted in the ledger, and an
// entry of the audit log binds the digest to the run.
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "model/image_state.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {

void RunService::Impl::imageVerified() {
  const std::string& digest = control->nodes.image()->digest;
  std::string before = std::exchange(image_before, digest);
  if (!before.empty() && before != digest) {
    async::spawn(control->executor, recordImageChange(std::move(before)));
  }
  async::spawn(control->executor, bindImage());
}

// Before its end is recorded: a note without an end does no harm.
Task<void> RunService::Impl::noteUnverified(const Live& run) {
  const auto& image = control->nodes.image();
  if (!isUnverified(run.execution.provenance) || !image) co_return;
  const std::string id = run.execution.id;
  const auto noted =
      co_await control->ledger.write(store::noteUnverified, {id, image->place, run.image_since});
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
  const auto& image = control->nodes.image();
  while (std::exchange(bind_again, false) && image && !image->digest.empty()) {
    const store::VerifiedImage verified{.place = image->place,
                                        .digest = image->digest,
                                        .node = control->nodes.offer().node,
                                        .changed_at = image->changed_at,
                                        .newest = image->newest,
                                        .changed = image->changed};
    uint64_t bound = 0;
    const auto write = [&]() -> Task<Result<>> {
      bound = CO_TRY(co_await control->ledger.write(store::bindImage, verified));
      co_return Result<>{};
    };
    const auto written = co_await control->insist("image " + verified.digest, write);
    if (!written) {
      base::log(base::Level::kError, "an image digest was not bound to runs",
                {{"reason", written.error().message}});
    } else if (bound > 0) {
      bind_again = true;
    }
  }
  binding = false;
}

// Runs since the change may have the previous digest.
Task<void> RunService::Impl::recordImageChange(std::string from) {
  const auto self = shared_from_this();
  const auto& image = control->nodes.image();
  model::AuditEvent event{
      .action = "image.changed",
      .subject = image->digest,
      .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
      .details = {{"from", from},
                  {"to", image->digest},
                  {"node", control->nodes.offer().node},
                  {"changed_at", image->changed_at},
                  {"changed", base::json::array(image->changed.begin(), image->changed.end())}}};
  std::ignore = co_await control->insist(
      "image", [&] { return control->ledger.write(store::appendEvent, event); });
}

}  // namespace cloister::orchestrator
