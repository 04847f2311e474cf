// SPDX-License-Identifier: Apache-2.0
// Makes an image of a session's memory, and a sandbox from an image.
#include <sys/socket.h>

#include <utility>

#include "linux/message.h"
#include "sandbox/box/memory_image.h"
#include "sandbox/host/handed_out.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {

Task<Result<MemoryImage>> Pool::keepMemory(std::shared_ptr<Live> live) {
  const auto self = shared_from_this();
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_SEQPACKET));
  std::vector<Fd> files = CO_TRY(guest_->filesToSave(live->pidfd()));
  SandboxSpec spec;
  spec.guest_memory_bytes = live->memoryBytes();
  const std::vector<int> groups = groupFds(live->group(), false, spec);
  SpawnRequest request = host_->requestFor(live->specWithin(live->limits()), guest_.get());
  request.what = guest_->saver();
  request.spec = spec;
  request.guest_fds = static_cast<uint32_t>(files.size());
  std::vector<int> fds = {theirs.get()};
  for (const Fd& file : files)
    fds.push_back(file.get());
  fds.insert(fds.end(), groups.begin(), groups.end());
  auto lent = CO_TRY(live->lendMemory());
  const auto queue = spawner_->get();
  Fd process = CO_TRY(co_await queue->spawn(request, fds));
  theirs.reset();
  auto image = co_await handedOut(executor_, std::move(ours), std::move(process),
                                  guest_->imageFiles().size(), live->patience());
  if (!image) co_return fail(image.error().code, live->lost(image.error().message));
  co_return MemoryImage{*std::move(image), std::move(lent)};
}

Task<Result<std::shared_ptr<Live>>> Pool::goOn(model::Limits limits, Alike alike,
                                               std::shared_ptr<const MemoryImage> image) {
  const auto self = shared_from_this();
  How how{.begins = Beginning::kImage, .image = std::move(image)};
  auto live = co_await make(limits, alike, how);
  while (!live && live.error().code == Code::kUnavailable && co_await makeRoom())
    live = co_await make(limits, alike, how);
  if (!live) co_return live;
  if (auto limited = (*live)->limit(limits); !limited) {
    std::ignore = co_await (*live)->bury();
    co_return std::unexpected(std::move(limited).error());
  }
  co_return live;
}

}  // namespace cloister::runtime
