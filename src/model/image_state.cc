// SPDX-License-Identifier: Apache-2.0
#include "model/image_state.h"

namespace cloister::model {
namespace {

std::string listOf(const std::vector<std::string>& paths) {
  std::string list;
  for (const std::string& path : paths)
    list += (list.empty() ? "" : ", ") + path;
  return list;
}

}  // namespace

Finding findingOf(const ImageState& state) {
  Finding finding{.area = "image", .name = "content", .detail = "", .remedy = ""};
  if (!state.digest.empty()) {
    finding.detail = "verified: " + state.digest + ", " + std::to_string(state.files) + " files, " +
                     std::to_string(state.files_read) + " of them read by the last look at it";
    if (!state.problem.empty()) finding.detail += "; a later look failed: " + state.problem;
  } else {
    finding.state = Finding::State::kReduced;
    finding.detail =
        state.problem.empty() ? std::string(kWeakerUnverified) : "not verified: " + state.problem;
    finding.remedy = state.problem.empty()
                         ? "No action needed. The node is reading the image; the audit log will "
                           "then record the digest for earlier runs."
                         : "see the log of cloister-node; it is read again";
  }
  if (!state.changed.empty()) finding.detail += "; changed: " + listOf(state.changed);
  return finding;
}

}  // namespace cloister::model
