// SPDX-License-Identifier: Apache-2.0
// The spawner: a small program of its own (cloister-spawner, become_spawner.h) that makes
// sandboxes. Each sandbox begins as a copy of the spawner. The spawner is pid 1 of a pid namespace
// of its own, so that its end is the end of every sandbox. The spawner lives in the finished
// read-only root, without any file of the host, and has none of the node's memory. The only
// descriptors are the control socket, the runner's program, and the descriptors of a request.
//
// A zygote (zygote.h) serves the same requests on a socket like the spawner's.
#pragma once

#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "confine/spawn_loop.h"
#include "confine/spawner_plan.h"

namespace cloister::runtime {

// The node's end of a spawner or zygote. Destroying the object kills the process and all its
// sandboxes.
class Spawner {
 public:
  // Starts a spawner and waits until its root is ready. Call from the node's main thread: the
  // spawner ends with the calling thread.
  static Result<std::unique_ptr<Spawner>> start(const SpawnerPlan& plan);

  // For a process that already serves on `socket`.
  Spawner(Fd socket, Fd pidfd) : socket_(std::move(socket)), pidfd_(std::move(pidfd)) {}
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;
  ~Spawner();

  // False once found dead, or given up.
  [[nodiscard]] bool alive() const { return alive_; }
  // The steps by which each of its sandboxes builds a root, for zygotes that make sandboxes.
  [[nodiscard]] const std::vector<MountStep>& ownRoot() const { return own_root_; }
  // A SOCK_SEQPACKET socket, not blocking once started.
  [[nodiscard]] int socket() const { return socket_.get(); }
  // Receives the first message: ready, or an error. kUnavailable: not yet received.
  Result<> ready();
  // Sends SIGKILL to the spawner, which ends all its sandboxes.
  void kill();
  // Calls kill() and treats the process as dead, even if the kernel does not end the process.
  // Always returns the error for callers: the spawner did not answer.
  Result<> giveUp();
  // Sends a request; kUnavailable when the socket is full.
  Result<> request(const SpawnRequest& request, std::span<const int> fds);
  // Reads the answer to the oldest request: the pidfd of the sandbox's first process. kUnavailable:
  // none is there yet.
  Result<Fd> answer();

 private:
  Fd socket_;
  Fd pidfd_;
  std::vector<MountStep> own_root_;
  bool alive_ = true;
  bool given_up_ = false;
};

}  // namespace cloister::runtime
