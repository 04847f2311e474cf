// SPDX-License-Identifier: Apache-2.0
// The scan of a run's artifacts, before the record of its end.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {

using model::Execution;

// Removes artifacts from the record unless the scan finds them clean.
Task<void> RunService::Impl::scanArtifacts(Live& run) {
  Execution& execution = run.execution;
  const auto is_clean = [&](std::string path, std::string sha256) -> Task<bool> {
    const model::BlobName blob{execution.principal.tenant, sha256};
    auto content = co_await parts.blobs.blobs().open(blob);
    Result<> clean;
    if (content) {
      clean = co_await parts.scanner->scan(*std::move(content));
    } else {
      clean = std::unexpected(std::move(content).error());
    }
    if (clean) co_return true;
    std::ignore = co_await control->ledger.write(
        store::appendEvent, {.action = "artifact.refused",
                             .subject = execution.id,
                             .principal = execution.principal,
                             .details = {{"path", path},
                                         {"sha256", sha256},
                                         {"tenant", execution.principal.tenant},
                                         {"reason", clean.error().message}}});
    co_return false;
  };
  std::vector<model::ArtifactRef> kept;
  for (model::ArtifactRef& artifact : execution.artifacts) {
    if (co_await is_clean(artifact.path, artifact.sha256)) {
      kept.push_back(std::move(artifact));
    } else {
      parts.blobs.release({execution.principal.tenant, artifact.sha256}, false);
    }
  }
  execution.artifacts = std::move(kept);
  for (model::KeptOutput* output : {&execution.out, &execution.err}) {
    const auto kept_one =
        std::ranges::find(execution.artifacts, output->artifact, &model::ArtifactRef::id);
    if (kept_one == execution.artifacts.end()) output->artifact.clear();
  }
}

}  // namespace cloister::orchestrator
