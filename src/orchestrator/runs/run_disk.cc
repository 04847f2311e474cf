// SPDX-License-Identifier: Apache-2.0
// Runs and sessions share the disk for workspaces.
#include <algorithm>

#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {
namespace {

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

// The beginning of why not.
std::string forDisk(uint64_t bytes) {
  return std::string(model::limit_name::kDisk) + " of " + mebibytes(bytes) +
         " does not fit memory_mb, and is for disk: ";
}

}  // namespace

Result<> RunService::Impl::checkDisk(const model::Limits& limits) const {
  const uint64_t need = control->places.needOf(limits).disk;
  if (need == 0) return {};
  const std::string field(model::limit_name::kDisk);
  const std::string what = forDisk(need);
  const auto& findings = control->nodes.offer().findings;
  const auto found = std::ranges::find(findings, model::kDiskFinding, &model::Finding::name);
  if (found != findings.end() && found->state != model::Finding::State::kOk) {
    return fail(Code::kUnsupported,
                what + "the node has no workspaces there (" + found->detail + "; " + found->remedy +
                    "); ask for less, or for more memory_mb",
                field);
  }
  const uint64_t most = control->places.bounds().disk;
  if (need <= most) return {};
  return fail(Code::kUnsupported,
              what + mebibytes(most) + " are there for all (workspace.disk.max_mb)", field);
}

WorkspacePlace RunService::Impl::workspaceOf(const model::Limits& limits,
                                             std::string_view runtime) const {
  const auto& findings = control->nodes.offer().findings;
  const auto found = std::ranges::find(findings, model::kDiskFinding, &model::Finding::name);
  const bool has_disks = found != findings.end() && found->state == model::Finding::State::kOk;
  WorkspacePlace place{.on_disk = control->places.needOf(limits).disk > 0};
  // No guest has its workspace on disk.
  if (has_disks && runtime == "process") place.disk_over = control->places.bounds().disk_over;
  return place;
}

Result<> RunService::Impl::admitDisk(const model::Limits& limits) const {
  TRY(checkDisk(limits));
  const Need need = control->places.needOf(limits);
  if (control->places.hasDiskBesideSessions(need)) return {};
  Error full{Code::kQuota,
             forDisk(need.disk) + "sessions hold " + mebibytes(control->places.sessionsDisk()) +
                 " of the " + mebibytes(control->places.bounds().disk) +
                 " (workspace.disk.max_mb); end some",
             ""};
  full.retry_after_seconds = retryAfter();
  return std::unexpected(std::move(full));
}

}  // namespace cloister::orchestrator
