// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/workspace_links.h"

#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cloister::orchestrator {
namespace {

constexpr std::string_view kWorkspace = "/workspace";
// Places outside the workspace and the home directory that a program can write or that change by
// themselves, with images' other names for these places.
constexpr std::string_view kChanging[] = {"/dev",      "/proc",    "/run",     "/sys",    "/tmp",
                                          "/var/lock", "/var/run", "/var/tmp", "/usr/tmp"};
// Directories above such a place: a link to the directory leads to the place.
constexpr std::string_view kAbove[] = {"/", "/dev", "/usr", "/var"};
constexpr std::string_view kDevices[] = {"/dev/full", "/dev/null", "/dev/random", "/dev/urandom",
                                         "/dev/zero"};
constexpr int kMostLinks = 40;                       // within a path, as in the kernel
constexpr size_t kMostLookedAt = size_t{128} << 20;  // bytes of paths, of all links together

bool isAt(std::string_view path, std::string_view place) {
  return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

// The absolute path of a name of the state.
std::string wholePath(const std::string& path) {
  return path.starts_with('/') ? path : std::string(kWorkspace) + "/" + path;
}

bool anyAt(std::string_view path, const auto& places) {
  return std::ranges::any_of(places, [&](std::string_view place) { return isAt(path, place); });
}

class Follower {
 public:
  explicit Follower(const WorkspaceState& workspace) {
    for (const auto& each : workspace.names()) {
      if (S_ISLNK(each.mode)) links_.emplace(wholePath(each.path), each.sum);
    }
  }

  // The changeable place that the link leads to; nothing: none.
  std::optional<std::string> follow(const wire::files::State& link) {
    at_ = wholePath(link.path);
    rest_.clear();
    up();
    turnTo(link.sum);
    for (int turns = 1; !rest_.empty();) {
      if (looked_at_ > kMostLookedAt) return at_ + " (there is too much to follow)";
      const std::string_view name = rest_.back();
      rest_.pop_back();
      if (name == ".") continue;
      if (name == "..") {
        if (at_ != "/" && !isAt(at_, kWorkspace) && !isAt(at_, model::kHome)) return there(name);
        up();
        continue;
      }
      at_ += (at_ == "/" ? "" : "/") + std::string(name);
      looked_at_ += at_.size();
      const auto found = links_.find(at_);
      if (found != links_.end()) {
        if (++turns > kMostLinks) return std::nullopt;  // cannot be opened
        up();
        turnTo(found->second);
      } else if (anyAt(at_, kDevices)) {
        return std::nullopt;
      } else if ((at_ != "/dev" || rest_.empty()) && anyAt(at_, kChanging)) {
        return there();
      }
    }
    return std::ranges::find(kAbove, at_) == std::end(kAbove) ? std::nullopt : std::optional(at_);
  }

 private:
  // The path so far, with the names not yet followed.
  [[nodiscard]] std::string there(std::string_view next = {}) const {
    std::string all = at_;
    if (!next.empty()) all.append("/").append(next);
    for (auto name = rest_.rbegin(); name != rest_.rend(); ++name)
      all.append("/").append(*name);
    return all;
  }

  void up() { at_.resize(std::max<size_t>(at_.rfind('/'), 1)); }

  // The parts of `target` are next, the first at the end.
  void turnTo(std::string_view target) {
    looked_at_ += target.size();
    if (target.starts_with('/')) at_ = "/";
    for (size_t end = target.size(); end > 0;) {
      const size_t slash = target.substr(0, end).rfind('/');
      const size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
      if (begin < end) rest_.push_back(target.substr(begin, end - begin));
      end = slash == std::string_view::npos ? 0 : slash;
    }
  }

  std::unordered_map<std::string, std::string_view> links_;  // targets, of the state
  std::string at_;
  std::vector<std::string_view> rest_;
  size_t looked_at_ = 0;
};

}  // namespace

std::optional<LinkOut> linkOut(const WorkspaceState& workspace) {
  Follower follower(workspace);
  for (const auto& each : workspace.names()) {
    if (!S_ISLNK(each.mode)) continue;
    if (auto where = follower.follow(each)) return LinkOut{each.path, *std::move(where)};
  }
  return std::nullopt;
}

}  // namespace cloister::orchestrator
