// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/workspace_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

#include "base/crypto.h"
#include "model/shown_text.h"

namespace cloister::orchestrator {
namespace {

using wire::files::State;

constexpr size_t kShownName = 400;

// Inode numbers differ between sandboxes; the grouping of names into files does not.
std::vector<uint32_t> firstNames(const std::vector<State>& names) {
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> seen;
  std::vector<uint32_t> first(names.size(), 0);
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (names[i].inode == 0) continue;
    first[i] = seen.try_emplace({names[i].device, names[i].inode}, i + 1).first->second;
  }
  return first;
}

// Seconds since 1970 with nine decimals, as stat(1) writes them: half a second before 1970 is
// -0.500000000, for the kernel's -1 and 500000000.
std::string timeOf(int64_t seconds, uint32_t nanoseconds) {
  constexpr uint32_t kSecond = 1'000'000'000;
  const bool before = seconds < 0 && nanoseconds > 0 && nanoseconds < kSecond;
  if (before) {
    ++seconds;
    nanoseconds = kSecond - nanoseconds;
  }
  char text[40];
  std::snprintf(text, sizeof text, "%s%lld.%09u", before && seconds == 0 ? "-" : "",
                static_cast<long long>(seconds), nanoseconds);
  return text;
}

// A path has no NUL, so two lists of names never give the same text.
std::string digestOfNames(const std::vector<State>& names, const std::vector<uint32_t>& first) {
  constexpr std::string_view kNul("\0", 1);
  base::Sha256 all;
  all.update("cloister-workspace v3");
  all.update(kNul);
  for (size_t i = 0; i < names.size(); ++i) {
    const State& each = names[i];
    const std::string sum = S_ISLNK(each.mode) ? base::sha256Hex(each.sum) : base::toHex(each.sum);
    const std::string time = S_ISREG(each.mode) ? timeOf(each.modified_s, each.modified_ns) : "-";
    char mode[16];
    std::snprintf(mode, sizeof mode, "%o", each.mode);
    all.update(std::string(mode) + " " + std::to_string(each.size) + " " +
               (sum.empty() ? "-" : sum) + " " + time + " " +
               (each.path.empty() ? "." : each.path));
    all.update(kNul);
    if (first[i] > 0) all.update(names[first[i] - 1].path);
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
  first_names_ = firstNames(names_);
  sha256_ = digestOfNames(names_, first_names_);
}

size_t WorkspaceState::files() const {
  const bool with_itself = !names_.empty() && names_.front().path.empty();
  return names_.size() - (with_itself ? 1 : 0);
}

std::string WorkspaceState::shown() const {
  return std::to_string(files()) + " files and directories, " + std::to_string(bytes_) +
         " bytes, sha256 " + sha256_;
}

const State* WorkspaceState::hardLinkOf(size_t at) const {
  const uint32_t first = first_names_[at];
  return first == 0 || first == at + 1 ? nullptr : &names_[first - 1];
}

std::optional<std::string> WorkspaceState::firstChange(const WorkspaceState& now) const {
  if (sha256_ == now.sha256_) return std::nullopt;
  size_t i = 0;  // length of the common prefix
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
