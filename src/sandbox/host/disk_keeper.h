// SPDX-License-Identifier: Apache-2.0
// DiskKeeper: a process that makes one encrypted disk, keeps the disk, and destroys the disk at the
// end of its socket. The socket ends because the sandbox has ended, or the node has. So the slow
// operations of a disk run apart from the node's one thread.
//
// On the socket (SOCK_SEQPACKET), from the keeper: one message. After success the message is kDone
// with the mount, and with the empty file system if one had to be made. After a failure the message
// is a letter for the error's code and the error's text. The keeper ends when nothing is left.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"
#include "linux/encrypted_disk.h"

namespace cloister::runtime {

struct DiskOrder {
  linux::DiskShape shape;
  linux::DiskOptions options;
  int directory = -1;  // where its file is
  int format = -1;     // an existing format of this shape, if any
};

class DiskKeeper {
 public:
  // Forks. The caller has a single thread.
  static Result<DiskKeeper> start(const DiskOrder& order);

  // Readable when answer() has something to read.
  [[nodiscard]] int socket() const { return socket_.get(); }
  // A pidfd: readable when the keeper and its disk are gone.
  [[nodiscard]] int process() const { return process_.get(); }

  struct Made {
    Fd mount;   // detached, of the whole file system
    Fd format;  // if newly made
  };
  // Call once. kNoSpace, kQuota, kUnsupported: errors of making a disk (linux/encrypted_disk.h).
  Result<Made> answer();

  // Orders the keeper to destroy its disk, without an answer.
  void dismiss();
  // Once process() is readable.
  void reap();

 private:
  DiskKeeper(Fd socket, Fd process) : socket_(std::move(socket)), process_(std::move(process)) {}

  Fd socket_;
  Fd process_;
};

}  // namespace cloister::runtime
