// SPDX-License-Identifier: Apache-2.0
// Dependency layers of claimed sandboxes.
#include <sys/socket.h>

#include <tuple>
#include <utility>

#include "linux/message.h"
#include "sandbox/host/handed_out.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {

// The root's spawner has the store of layers; a zygote has not.
Task<Result<>> Pool::attachLayers(std::shared_ptr<Live> live, LayerOrder order) {
  const auto self = shared_from_this();
  if (live->guest() != nullptr) {
    co_return fail(Code::kUnsupported, "attaching layers: not for " + live->guest()->name());
  }
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_SEQPACKET));
  SpawnRequest request;
  request.what = SpawnRequest::What::kLayers;
  request.guest_fds = 1;
  request.layers = order;
  const int fds[] = {theirs.get(), live->pidfd()};
  const auto queue = spawner_->get();
  Fd process = CO_TRY(co_await queue->spawn(request, fds));
  theirs.reset();
  auto done =
      co_await handedOut(executor_, std::move(ours), std::move(process), 0, live->patience());
  if (!done) co_return std::unexpected(std::move(done).error().within("attaching layers"));
  co_return Result<>{};
}

}  // namespace cloister::runtime
