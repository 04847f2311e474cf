// SPDX-License-Identifier: Apache-2.0
// The state of a session's workspace at one moment: what an approval in a session is bound to
// besides the request. Names, types, modes, content and targets of links; no times. Its digest is
// made as docs/ESCALATIONS.md says, so that people can make it too. Immutable once made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/files_codec.h"

namespace cloister::orchestrator {

class WorkspaceState {
 public:
  // `names` in any order.
  explicit WorkspaceState(std::vector<wire::files::State> names);

  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  // Sorted by the bytes of their paths.
  [[nodiscard]] const std::vector<wire::files::State>& names() const { return names_; }
  // How many names there are in the workspace, and how many bytes in its files.
  [[nodiscard]] size_t files() const;
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  // "12 files and directories, 3456 bytes, sha256 …".
  [[nodiscard]] std::string shown() const;
  // Of the first name, by its bytes, at which `now` differs, for people: "deploy.sh has changed".
  // Nothing: they are the same.
  [[nodiscard]] std::optional<std::string> firstChange(const WorkspaceState& now) const;

 private:
  std::vector<wire::files::State> names_;
  uint64_t bytes_ = 0;
  std::string sha256_;
};
using WorkspacePtr = std::shared_ptr<const WorkspaceState>;

}  // namespace cloister::orchestrator
