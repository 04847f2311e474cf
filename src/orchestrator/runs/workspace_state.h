// SPDX-License-Identifier: Apache-2.0
// The state of a session's workspace at one moment. An approval in a session binds the state and
// the request. The state has names, types, modes, content and targets of links. For regular files
// the state also has the modification times, which programs use for choices, and the names of the
// same file. docs/ESCALATIONS.md defines the digest, so that people can compute the digest, too.
// Immutable.
#pragma once

#include <cstddef>
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
  // For the name at `at` of names(): the first name of the same file; nullptr for a first or only
  // name. Lives as long as the state.
  [[nodiscard]] const wire::files::State* hardLinkOf(size_t at) const;
  // How many names there are in the workspace, and how many bytes in its files.
  [[nodiscard]] size_t files() const;
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  // "12 files and directories, 3456 bytes, sha256 …".
  [[nodiscard]] std::string shown() const;
  // The first differing name, by its bytes, compared with `now`, for people: "deploy.sh has
  // changed". Nothing without a difference.
  [[nodiscard]] std::optional<std::string> firstChange(const WorkspaceState& now) const;
  // The first FIFO, socket or device, for people: "the FIFO p". The state lacks the content of
  // these names: a program may have written bytes there that another program reads later.
  [[nodiscard]] std::optional<std::string> firstWithoutContent() const;

 private:
  std::vector<wire::files::State> names_;  // sorted
  // For each of `names_`: the place of the first name of the same file, from 1 on; 0: no other
  // name.
  std::vector<uint32_t> first_names_;
  uint64_t bytes_ = 0;
  std::string sha256_;
};
using WorkspacePtr = std::shared_ptr<const WorkspaceState>;

}  // namespace cloister::orchestrator
