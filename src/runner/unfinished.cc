// SPDX-License-Identifier: Apache-2.0
#include "runner/unfinished.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <stdio.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/roots.h"

namespace cloister::runner {
namespace {

Unfinished the_own{};  // for a process that the runner does not watch
Unfinished* the_unfinished = &the_own;

// <atomic> needs more of the C library than the runner has.
uint32_t countOf(const Unfinished& unfinished) {
  return __atomic_load_n(&unfinished.count, __ATOMIC_ACQUIRE);
}

void setCount(Unfinished& unfinished, uint32_t count) {
  __atomic_store_n(&unfinished.count, count, __ATOMIC_RELEASE);
}

// `path` is a noted path, whatever exists there now.
void giveMode(int base, const char* path, const Unfinished::Step& step) {
  const Fd fd(openBeneath(base, path, O_PATH));
  struct stat st;
  if (!fd || fstat(fd.get(), &st) != 0) return;
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return;
  if (step.inode != 0 && step.inode != st.st_ino) return;
  char self[32];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd.get());
  chmod(self, step.mode & 07777);
}

void removeUpload(int base, const char* name) {
  if (std::strchr(name, '/') != nullptr) return;
  if (std::string_view(name).starts_with(wire::files::kUploadName)) unlinkat(base, name, 0);
}

}  // namespace

void noteIn(Unfinished* unfinished) {
  the_unfinished = unfinished;
}

bool noteBase(std::string_view base) {
  if (base.size() >= sizeof the_unfinished->base) return false;
  std::memcpy(the_unfinished->base, base.data(), base.size());
  the_unfinished->base[base.size()] = '\0';
  return true;
}

bool Noted::mode(std::string_view path, mode_t mode, ino_t inode) {
  return note(path, mode, inode);
}

bool Noted::removal(std::string_view name) {
  return note(name, Unfinished::kRemove, 0);
}

bool Noted::note(std::string_view path, uint32_t mode, uint64_t inode) {
  Unfinished& to = *the_unfinished;
  const uint32_t at = countOf(to);
  if (noted_ || at >= Unfinished::kMost || path.size() >= sizeof to.path) return false;
  std::memcpy(to.path, path.data(), path.size());
  to.steps[at] = {.length = static_cast<uint32_t>(path.size()), .mode = mode, .inode = inode};
  setCount(to, at + 1);
  noted_ = true;
  return true;
}

void Noted::end() {
  if (!std::exchange(noted_, false)) return;
  setCount(*the_unfinished, countOf(*the_unfinished) - 1);
}

// The last step first: a directory above may be closed by its own.
void undo(int workspace, Unfinished& unfinished) {
  const uint32_t count = std::min(countOf(unfinished), Unfinished::kMost);
  setCount(unfinished, 0);
  if (count == 0) return;
  unfinished.base[sizeof unfinished.base - 1] = '\0';
  const char* within = unfinished.base;
  const RootOf root(workspace, within);
  const bool self = *within == '\0';
  if (root.fd() < 0 || (!self && !isPlainPath(within))) return;
  const Fd base(openBeneath(root.fd(), self ? "." : within, O_PATH | O_DIRECTORY));
  if (!base) return;
  static char path[PATH_MAX];
  for (uint32_t i = count; i-- > 0;) {
    const Unfinished::Step step = unfinished.steps[i];
    if (step.length >= sizeof path) continue;
    std::memcpy(path, unfinished.path, step.length);
    path[step.length] = '\0';
    if (!isPlainPath(path)) continue;
    if (step.mode == Unfinished::kRemove) {
      removeUpload(base.get(), path);
    } else {
      giveMode(base.get(), path, step);
    }
  }
}

}  // namespace cloister::runner
