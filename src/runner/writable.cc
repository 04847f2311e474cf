// SPDX-License-Identifier: Apache-2.0
#include "runner/writable.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "model/writable.h"
#include "runner/beneath.h"

namespace cloister::runner {
namespace {

constexpr uint64_t kHow = O_RDONLY | O_NONBLOCK | O_NOCTTY;  // a program may have put a FIFO there
constexpr mode_t kFileMode = 0644;
constexpr mode_t kDirectoryMode = 0755;

// The writable place that includes the path; empty if none.
std::string_view placeOf(std::string_view path) {
  for (const std::string_view place : model::kWritablePlaces) {
    if (path == place || (path.starts_with(place) && path[place.size()] == '/')) return place;
  }
  return {};
}

bool isNameable(std::string_view path) {
  const std::string_view place = placeOf(path);
  if (place.empty() || path.size() >= PATH_MAX) return false;
  if (path == place) return true;
  path.remove_prefix(place.size() + 1);  // not substr(): the runner has nothing to throw with
  return isPlainPath(path);
}

// Returns whether newly made. Restores `path`.
bool make(int top, char* path, bool directory) {
  if (makeParents(top, path) != 0) return false;
  char* slash = std::strrchr(path, '/');
  if (slash != nullptr) *slash = '\0';
  const Fd above(openBeneath(top, slash == nullptr ? "." : path, O_PATH | O_DIRECTORY));
  if (slash != nullptr) *slash = '/';
  const char* name = slash == nullptr ? path : slash + 1;
  if (!above) return false;
  if (directory) return mkdirat(above.get(), name, kDirectoryMode) == 0;
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return static_cast<bool>(Fd(openat(above.get(), name, kNew, kFileMode)));
}

}  // namespace

bool WritablePlace::writes() const {
  return (operations & (model::kMayWrite | model::kMayCreate)) != 0;
}

bool WritablePlace::removes() const {
  return (operations & model::kMayDelete) != 0;
}

bool WritablePlace::opensFile() const {
  return (operations & model::kMayWrite) != 0 || (*made && writes());
}

Fd openOrMake(const WritablePlace& place) {
  char text[PATH_MAX];
  const std::string_view top_name = placeOf(place.path);
  std::memcpy(text, place.path.data(), place.path.size());
  text[place.path.size()] = '\0';
  text[top_name.size()] = '\0';
  Fd top(open(text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!top || place.path == top_name) return top;
  char* path = text + top_name.size() + 1;
  Fd found(openBeneath(top.get(), path, kHow));
  if (found || errno != ENOENT || !place.writes()) return found;
  if (!make(top.get(), path, place.beneath)) return Fd();
  *place.made = true;
  return Fd(openBeneath(top.get(), path, kHow));
}

bool WritableList::take(std::string_view payload) {
  size_ = 0;
  std::memset(made_, 0, sizeof made_);
  wire::Reader r(payload);
  const uint32_t count = r.u32();
  if (!r.ok() || count > kMost || payload.size() > sizeof bytes_) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const WritablePlace place = next(r);
    if (!r.ok() || place.operations > model::kMayAll || !isNameable(place.path)) return false;
  }
  if (!r.done()) return false;
  std::memcpy(bytes_, payload.data(), payload.size());
  size_ = payload.size();
  return true;
}

WritablePlace WritableList::next(wire::Reader& r) {
  WritablePlace place;
  place.operations = r.u8();
  place.beneath = r.u8() != 0;
  place.path = r.bytes();
  return place;
}

}  // namespace cloister::runner
