// SPDX-License-Identifier: Apache-2.0
// The files that the node writes and removes.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include <stdio.h>
#include <string.h>

#include "runner/beneath.h"
#include "runner/files.h"
#include "runner/runner_impl.h"
#include "wire/files.h"

namespace cloister::runner {
namespace {

constexpr char kTmp[] = "/tmp";
// Limit of names removed by a kRemove. Only the program used the directory, and other work waits
// meanwhile.
constexpr uint32_t kMostRemoved = 10'000;
constexpr std::string_view kSecrets = wire::kSecretFiles;

// Opens the folder of secrets' files. Returns errno.
int openSecrets(Fd& folder) {
  if (mkdir(wire::kSecretsPlace, 0755) != 0 && errno != EEXIST) return errno;
  folder.reset(open(wire::kSecretsPlace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder ? 0 : errno;
}

// Opens the directory of a plain path beneath `folder`, and sets `name` to the last component.
Fd parentOf(int folder, char* path, const char*& name) {
  char* slash = std::strrchr(path, '/');
  if (slash == nullptr) {
    name = path;
    return Fd(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  *slash = '\0';
  name = slash + 1;
  return Fd(openBeneath(folder, path, O_RDONLY | O_DIRECTORY));
}

void removeSecret(std::string_view path) {
  char buffer[PATH_MAX];
  *std::ranges::copy(path, buffer).out = '\0';
  Fd folder;
  if (openSecrets(folder) != 0) return;
  const char* name = nullptr;
  const Fd parent = parentOf(folder.get(), buffer, name);
  if (parent) unlinkat(parent.get(), name, 0);
}

}  // namespace

void Runner::onFile(uint32_t channel, std::string_view payload) {
  wire::Reader r(payload);
  const std::string_view path = r.bytes();
  const uint32_t mode = r.u32();
  const uint64_t size = r.u64();
  if (!r.done() || writer_.active() || (mode & ~0777U) != 0) protocolError();
  writer_channel_ = channel;
  staged_ = fifo_[0] != '\0' && path == fifo_;
  const int error =
      path.starts_with(kSecrets)
          ? beginSecret(path.substr(kSecrets.size()), mode, size)
          : writer_.begin(workspace_.get(), staged_ ? std::string_view(kStaged) : path, mode, size);
  if (error != 0) fileFailed(channel, error);
  if (error == 0) stageFile(channel);
}

// The file is written under another name: another program may be reading the one that it replaces.
int Runner::beginSecret(std::string_view path, uint32_t mode, uint64_t size) {
  if (!isPlainPath(path)) return EINVAL;
  *std::ranges::copy(path, secret_).out = '\0';
  int error = openSecrets(secrets_);
  if (error == 0) error = makeParents(secrets_.get(), secret_);
  if (error == 0 && unlinkat(secrets_.get(), kStaged, 0) != 0 && errno != ENOENT) error = errno;
  if (error == 0) error = writer_.begin(secrets_.get(), kStaged, mode, size);
  if (error != 0) secret_[0] = '\0';
  return error;
}

void Runner::stageSecret(uint32_t channel) {
  const char* name = nullptr;
  const Fd parent = parentOf(secrets_.get(), secret_, name);
  const bool done = parent && renameat(secrets_.get(), kStaged, parent.get(), name) == 0;
  if (!done) fileFailed(channel, errno);
  secret_[0] = '\0';
  secrets_.reset();
}

// A complete file for a waiting program replaces the FIFO.
void Runner::stageFile(uint32_t channel) {
  if (secret_[0] != '\0' && !writer_.active()) return stageSecret(channel);
  if (!staged_ || writer_.active()) return;
  staged_ = false;
  const int dir = workspace_.get();
  if (renameat(dir, kStaged, dir, fifo_) != 0) fileFailed(channel, errno);
  fifo_[0] = '\0';
  for (Channel& each : channels_) {
    if (each.used && each.waited) begin(each);
  }
}

void Runner::onFileData(uint32_t channel, std::string_view payload) {
  int error = 0;
  if (channel != writer_channel_ || !writer_.write(payload, error)) protocolError();
  if (error != 0) return fileFailed(channel, error);
  stageFile(channel);
}

void Runner::onRemove(std::string_view payload) {
  wire::Reader r(payload);
  const std::string_view path = r.bytes();
  if (path.starts_with(kSecrets)) {
    if (!r.done() || !isPlainPath(path.substr(kSecrets.size()))) protocolError();
    return removeSecret(path.substr(kSecrets.size()));
  }
  const size_t slash = path.rfind('/');
  char name[NAME_MAX + 1];
  if (!r.done() || slash == std::string_view::npos) protocolError();
  const std::string_view last = path.substr(slash + 1);
  if (!last.starts_with(wire::kTemporary) || last.size() > NAME_MAX || last.contains('\0'))
    protocolError();
  *std::ranges::copy(last, name).out = '\0';
  uint32_t most = kMostRemoved;
  if (path.substr(0, slash) == kWorkspace) {
    // A program's code was a regular file. Anything else with the name is the program's own.
    struct stat st;
    const bool file =
        fstatat(workspace_.get(), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    if (file) unlinkat(workspace_.get(), name, 0);
  } else if (path.substr(0, slash) == kTmp) {
    const Fd tmp(open(kTmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (tmp) removeTree(tmp.get(), name, wire::files::kMaxDepth, most);
  } else {
    protocolError();
  }
}

void Runner::fileFailed(uint32_t channel, int error) {
  wire::Writer w(link_.payload(), wire::kRunnerMaxPayload);
  w.u32(static_cast<uint32_t>(error));
  w.bytes("write");
  link_.commit(FromRunner::kFileFailed, channel, w.view().size());
}

}  // namespace cloister::runner
