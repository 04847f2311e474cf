// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/workspace_state.h"

#include <algorithm>
#include <utility>

#include "base/crypto.h"
#include "model/shown_text.h"
#include "wire/string_writer.h"

namespace cloister::orchestrator {
namespace {

using wire::files::State;

constexpr size_t kShownName = 400;

std::string digestOfNames(const std::vector<State>& names) {
  base::Sha256 all;
  wire::StringWriter head;
  head.bytes("cloister-workspace v2");
  all.update(head.take());
  for (const State& each : names) {
    wire::StringWriter one;
    one.u32(each.mode);
    one.u64(each.size);
    one.bytes(each.path);
    one.bytes(each.sum);
    all.update(one.take());
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

std::string WorkspaceState::shown() const {
  const bool with_itself = !names_.empty() && names_.front().path.empty();
  return std::to_string(names_.size() - (with_itself ? 1 : 0)) + " files and directories, " +
         std::to_string(bytes_) + " bytes, sha256 " + sha256_;
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
