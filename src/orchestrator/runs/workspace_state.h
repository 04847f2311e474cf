// SPDX-License-Identifier: Apache-2.0
// The state of a session's workspace at one moment: what an approval in a session is bound to
// besides the request. Names, types, modes, content and targets of links; of regular files also
// when they were modified, by which programs choose what they run, and which names are one file.
// Its digest is made as docs/ESCALATIONS.md says, so that people can make it too. Immutable once
// made.
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
  // Of the name at `at` of names(): the first name of the same file; nullptr: it is that itself, or
  // the file has no other. Lives as long as this does.
  [[nodiscard]] const wire::files::State* hardLinkOf(size_t at) const;
  // How many names there are in the workspace, and how many bytes in its files.
  [[nodiscard]] size_t files() const;
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  // "12 files and directories, 3456 bytes, sha256 …".
  [[nodiscard]] std::string shown() const;
  // Of the first name, by its bytes, at which `now` differs, for people: "deploy.sh has changed".
  // Nothing: they are the same.
  [[nodiscard]] std::optional<std::string> firstChange(const WorkspaceState& now) const;
  // The first name that is a FIFO, a socket or a device, for people: "the FIFO p". The state has no
  // content of such a one: a program may have written into it what another reads later.
  [[nodiscard]] std::optional<std::string> firstWithoutContent() const;

 private:
  std::vector<wire::files::State> names_;  // sorted
  // Of each of `names_`: the place of the first name of the same file, from 1 on; 0: it has no
  // other.
  std::vector<uint32_t> first_names_;
  uint64_t bytes_ = 0;
  std::string sha256_;
};
using WorkspacePtr = std::shared_ptr<const WorkspaceState>;

}  // namespace cloister::orchestrator
