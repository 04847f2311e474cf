// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/workspace_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/crypto.h"
#include "model/shown_text.h"

namespace cloister::orchestrator {
namespace {

using wire::files::State;

constexpr size_t kShownName = 400;

// A path has no NUL in it, so that no list of names gives the text of another.
std::string digestOfNames(const std::vector<State>& names) {
  constexpr std::string_view kNul("\0", 1);
  base::Sha256 all;
  all.update("cloister-workspace v3");
  all.update(kNul);
  for (const State& each : names) {
    const bool link = S_ISLNK(each.mode);
    const std::string sum = link ? base::sha256Hex(each.sum) : base::toHex(each.sum);
    char mode[16];
    std::snprintf(mode, sizeof mode, "%o", each.mode);
    all.update(std::string(mode) + " " + std::to_string(each.size) + " " +
               (sum.empty() ? "-" : sum) + " " + (each.path.empty() ? "." : each.path));
    all.update(kNul);
  }
  return all.hex();
}

std::string said(const State& name, std::string_view what) {
  const std::string path =
      name.path.empty() ? "the workspace itself" : model::markedText(name.path, kShownName);
  return path + " " + std::string(what);
}

}  // namespace

WorkspaceState::WorkspaceState(std::vector<State> names) : names_(std::move(names)) {
  std::ranges::sort(names_, {}, &State::path);
  for (const State& each : names_)
    bytes_ += each.size;
  sha256_ = digestOfNames(names_);
}

size_t WorkspaceState::files() const {
  const bool with_itself = !names_.empty() && names_.front().path.empty();
  return names_.size() - (with_itself ? 1 : 0);
}

std::string WorkspaceState::shown() const {
  return std::to_string(files()) + " files and directories, " + std::to_string(bytes_) +
         " bytes, sha256 " + sha256_;
}

std::optional<std::string> WorkspaceState::firstChange(const WorkspaceState& now) const {
  if (sha256_ == now.sha256_) return std::nullopt;
  auto was = names_.begin();
  auto is = now.names_.begin();
  for (; was != names_.end() && is != now.names_.end(); ++was, ++is) {
    if (was->path < is->path) return said(*was, "was removed");
    if (is->path < was->path) return said(*is, "is new");
    if (was->mode != is->mode) return said(*is, "has another type or mode");
    if (was->size != is->size || was->sum != is->sum) return said(*is, "has changed");
  }
  if (was != names_.end()) return said(*was, "was removed");
  if (is != now.names_.end()) return said(*is, "is new");
  return "it has changed";
}

}  // namespace cloister::orchestrator
