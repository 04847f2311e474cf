// SPDX-License-Identifier: Apache-2.0
// Doors: the sockets through which a sandbox's programs reach the network.
#include <sys/socket.h>

#include <utility>

#include "confine/become_door.h"
#include "linux/message.h"
#include "sandbox/host/handed_out.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {

// The root's spawner opens the door of each sandbox, also of one that a zygote made: only the
// spawner has CAP_NET_BIND_SERVICE over every network below.
Task<Result<DoorSockets>> Pool::openDoor(std::shared_ptr<Live> live, DoorOrder order) {
  const auto self = shared_from_this();
  const Guest* const guest = live->guest();
  if (guest != nullptr && !guest->noNetwork().empty()) {
    co_return fail(Code::kUnsupported, "opening a door: " + guest->noNetwork());
  }
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_SEQPACKET));
  SpawnRequest request;
  request.what = SpawnRequest::What::kDoor;
  request.guest_fds = 1;
  request.door = order;
  request.door.linked = guest != nullptr && guest->linked();
  const int fds[] = {theirs.get(), live->pidfd()};
  const auto queue = spawner_->get();
  Fd process = CO_TRY(co_await queue->spawn(request, fds));
  theirs.reset();
  HandedOut got =
      CO_TRY(co_await answerFrom(executor_, std::move(ours), std::move(process), live->patience()));
  auto door = doorOf(got.said, std::move(got.fds));
  if (!door) co_return std::unexpected(std::move(door).error().within("opening a door"));
  co_return door;
}

}  // namespace cloister::runtime
