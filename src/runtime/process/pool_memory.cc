// SPDX-License-Identifier: Apache-2.0
// How a session's memory becomes an image, and how a sandbox is made of one.
#include <sys/socket.h>

#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "linux/message.h"
#include "linux/process.h"
#include "runtime/process/memory_image.h"
#include "runtime/process/pool.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

// What keeps it answers once, with the files.
Task<Result<MemoryImage>> awaitImage(const asio::any_io_executor& executor, Fd answer, Fd process,
                                     size_t files, std::chrono::milliseconds patience) {
  const int pidfd = process.get();
  asio::steady_timer late(executor, patience);
  late.async_wait([pidfd](const boost::system::error_code& error) {
    if (!error) std::ignore = linux::signalPidfd(pidfd, SIGKILL);
  });
  asio::posix::stream_descriptor socket(executor, answer.release());
  const auto [error] = co_await socket.async_wait(asio::posix::descriptor_base::wait_read,
                                                  asio::as_tuple(asio::use_awaitable));
  late.cancel();
  if (error) co_return fail(Code::kInternal, error.message());
  char text[kMaxAnswer];
  auto message = CO_TRY(linux::receiveMessage(socket.native_handle(), text));
  const std::string_view said(text, message.size);
  if (said.empty()) co_return fail(Code::kInternal, "it took too long, or its memory");
  if (said != kDone) co_return fail(Code::kInternal, std::string(said));
  if (message.fds.size() != files) co_return fail(Code::kInternal, "the image is not whole");
  co_return MemoryImage{std::move(message.fds)};
}

}  // namespace

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
  Fd process = CO_TRY(co_await spawner_->get()->spawn(request, fds));
  theirs.reset();
  auto image = co_await awaitImage(executor_, std::move(ours), std::move(process),
                                   guest_->imageFiles().size(), live->patience());
  if (!image) co_return fail(image.error().code, live->lost(image.error().message));
  image->lent = std::move(lent);
  co_return image;
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
