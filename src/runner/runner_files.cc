// SPDX-License-Identifier: Apache-2.0
// The files that the node brings.
#include <errno.h>
#include <fcntl.h>

#include <stdio.h>

#include "runner/runner_impl.h"

namespace cloister::runner {

void Runner::onFile(uint32_t channel, std::string_view payload) {
  wire::Reader r(payload);
  const std::string_view path = r.bytes();
  const uint32_t mode = r.u32();
  const uint64_t size = r.u64();
  if (!r.done() || writer_.active() || (mode & ~0777U) != 0) protocolError();
  writer_channel_ = channel;
  staged_ = fifo_[0] != '\0' && path == fifo_;
  const int error =
      writer_.begin(workspace_.get(), staged_ ? std::string_view(kStaged) : path, mode, size);
  if (error != 0) fileFailed(channel, error);
  if (error == 0) stageFile(channel);
}

// Once it is whole, a file that was waited for takes the FIFO's place.
void Runner::stageFile(uint32_t channel) {
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

void Runner::fileFailed(uint32_t channel, int error) {
  wire::Writer w(link_.payload(), wire::kRunnerMaxPayload);
  w.u32(static_cast<uint32_t>(error));
  w.bytes("write");
  link_.commit(FromRunner::kFileFailed, channel, w.view().size());
}

}  // namespace cloister::runner
