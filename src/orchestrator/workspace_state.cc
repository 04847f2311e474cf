// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/workspace_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/crypto.h"
#include "model/shown_text.h"
#include "wire/string_writer.h"

namespace cloister::orchestrator {
namespace {

using wire::files::State;

constexpr size_t kShownName = 400;

// What a file is known by changes when a sandbox is another; which names are one file does not.
std::vector<uint32_t> firstNames(const std::vector<State>& names) {
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> seen;
  std::vector<uint32_t> first(names.size(), 0);
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (names[i].inode == 0) continue;
    first[i] = seen.try_emplace({names[i].device, names[i].inode}, i + 1).first->second;
  }
  return first;
}

std::string digestOfNames(const std::vector<State>& names, const std::vector<uint32_t>& first) {
  base::Sha256 all;
  wire::StringWriter head;
  head.bytes("cloister-workspace v3");
  all.update(head.take());
  for (size_t i = 0; i < names.size(); ++i) {
    const State& each = names[i];
    wire::StringWriter one;
    one.u32(each.mode);
    one.u64(each.size);
    one.bytes(each.path);
    one.bytes(each.sum);
    one.i64(each.modified_s);
    one.u32(each.modified_ns);
    one.u32(first[i]);
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
  first_names_ = firstNames(names_);
  sha256_ = digestOfNames(names_, first_names_);
}

std::string WorkspaceState::shown() const {
  const bool with_itself = !names_.empty() && names_.front().path.empty();
  return std::to_string(names_.size() - (with_itself ? 1 : 0)) + " files and directories, " +
         std::to_string(bytes_) + " bytes, sha256 " + sha256_;
}

std::optional<std::string> WorkspaceState::firstChange(const WorkspaceState& now) const {
  if (sha256_ == now.sha256_) return std::nullopt;
  size_t i = 0;  // up to here they are the same
  for (; i < names_.size() && i < now.names_.size(); ++i) {
    const State& was = names_[i];
    const State& is = now.names_[i];
    if (was.path < is.path) return said(was, "was removed");
    if (is.path < was.path) return said(is, "is new");
    if (was.mode != is.mode) return said(is, "has another type or mode");
    if (was.size != is.size || was.sum != is.sum) return said(is, "has changed");
    if (first_names_[i] != now.first_names_[i]) return said(is, "has other hard links");
    if (was.modified_s != is.modified_s || was.modified_ns != is.modified_ns) {
      return said(is, "has another modification time");
    }
  }
  if (i < names_.size()) return said(names_[i], "was removed");
  if (i < now.names_.size()) return said(now.names_[i], "is new");
  return "it has changed";
}

std::optional<std::string> WorkspaceState::firstWithoutContent() const {
  for (const State& each : names_) {
    const char* what = S_ISFIFO(each.mode)   ? "the FIFO "
                       : S_ISSOCK(each.mode) ? "the socket "
                                             : "the device ";
    if (S_ISREG(each.mode) || S_ISDIR(each.mode) || S_ISLNK(each.mode)) continue;
    return what + model::markedText(each.path, kShownName);
  }
  return std::nullopt;
}

}  // namespace cloister::orchestrator
