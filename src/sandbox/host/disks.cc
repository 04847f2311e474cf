// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/disks.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/clock.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
constexpr auto kPatience = std::chrono::seconds(20);     // timeout for making a disk
constexpr auto kRoomPatience = std::chrono::seconds(3);  // timeout for ending disks whose space is
                                                         // needed
constexpr auto kPause = std::chrono::milliseconds(10);
constexpr size_t kMostFormats = 8;  // number of empty file systems kept

asio::posix::stream_descriptor watched(const asio::any_io_executor& executor, int fd) {
  return {executor, ::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

Task<void> endOf(std::shared_ptr<Disk> disk, asio::any_io_executor executor) {
  co_await disk->end(std::move(executor));
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Task<Result<Fd>> Disk::begin(asio::any_io_executor executor) {
  const auto socket =
      std::make_shared<asio::posix::stream_descriptor>(watched(executor, keeper_.socket()));
  asio::steady_timer late(executor, kPatience);
  late.async_wait([socket](const boost::system::error_code& error) {
    if (!error) socket->cancel();
  });
  const auto [error] = co_await socket->async_wait(asio::posix::descriptor_base::wait_read, kUse);
  if (error) co_return fail(Code::kInternal, "its keeper says nothing");
  DiskKeeper::Made made = CO_TRY(keeper_.answer());
  mount_ = std::move(made.mount);
  co_return std::move(made.format);
}

void Disk::expectEnd() {
  if (!std::exchange(ending_, true)) disks_->ending_++;
}

Task<void> Disk::end(asio::any_io_executor executor) {
  expectEnd();
  mount_.reset();
  keeper_.dismiss();
  auto process = watched(executor, keeper_.process());
  const auto [error] = co_await process.async_wait(asio::posix::descriptor_base::wait_read, kUse);
  if (error) co_return;  // the node ends
  keeper_.reap();
  disks_->in_use_ -= bytes_;
  disks_->ending_--;
}

std::shared_ptr<Disks> Disks::open(DiskConfig config) {
  const std::shared_ptr<Disks> disks(new Disks(std::move(config)));
  const DiskConfig& of = disks->config_;
  disks->finding_ = {.area = "isolation",
                     .name = model::kDiskFinding,
                     .state = model::Finding::State::kMissing,
                     .detail = {},
                     .remedy = {}};
  if (of.directory.empty() || of.max_bytes == 0) {
    disks->finding_.detail = "turned off";
    disks->finding_.remedy = "set workspace.disk.max_mb";
    return disks;
  }
  const linux::DiskLack lack = linux::encryptedDiskLack(of.directory);
  disks->finding_.detail = lack.what;
  disks->finding_.remedy = lack.remedy;
  if (!lack.what.empty()) return disks;
  disks->directory_.reset(::open(of.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  disks->finding_.state = model::Finding::State::kOk;
  disks->finding_.detail = "encrypted, up to " + mebibytes(of.max_bytes) + " in " + of.directory;
  return disks;
}

Result<> Disks::hasRoom(uint64_t bytes) const {
  if (finding_.state != model::Finding::State::kOk) {
    return fail(Code::kUnsupported, finding_.detail + "; " + finding_.remedy);
  }
  if (bytes > config_.max_bytes - std::min(in_use_, config_.max_bytes)) {
    return fail(Code::kQuota, mebibytes(in_use_) + " of " + mebibytes(config_.max_bytes) +
                                  " are in use (workspace.disk.max_mb)");
  }
  return {};
}

Task<Result<>> Disks::admit(asio::any_io_executor executor, uint64_t bytes) const {
  const auto until = base::monotonicNow() + kRoomPatience;
  asio::steady_timer pause(executor);
  auto room = hasRoom(bytes);
  while (!room && room.error().code == Code::kQuota && ending_ > 0 &&
         base::monotonicNow() < until) {
    pause.expires_after(kPause);
    co_await pause.async_wait(kUse);
    room = hasRoom(bytes);
  }
  co_return room;
}

Task<Result<std::shared_ptr<Disk>>> Disks::make(asio::any_io_executor executor,
                                                linux::DiskShape shape,
                                                linux::DiskOptions options) {
  const auto self = shared_from_this();
  CO_TRY(co_await admit(executor, shape.bytes));
  options.keep_free = config_.keep_free_bytes;
  DiskKeeper keeper = CO_TRY(DiskKeeper::start({.shape = shape,
                                                .options = options,
                                                .directory = directory_.get(),
                                                .format = formatOf(shape)}));
  in_use_ += shape.bytes;
  const auto disk = std::make_shared<Disk>(self, std::move(keeper), shape.bytes);
  auto format = co_await disk->begin(executor);
  if (!format) {
    async::spawn(executor, endOf(disk, executor));
    co_return std::unexpected(std::move(format).error());
  }
  if (*format) learn(shape, *std::move(format));
  co_return disk;
}

int Disks::formatOf(const linux::DiskShape& shape) {
  const auto known = std::ranges::find(formats_, shape, &std::pair<linux::DiskShape, Fd>::first);
  if (known == formats_.end()) return -1;
  formats_.splice(formats_.begin(), formats_, known);
  return known->second.get();
}

void Disks::learn(const linux::DiskShape& shape, Fd format) {
  if (formatOf(shape) >= 0) return;  // of another, made at the same time
  formats_.emplace_front(shape, std::move(format));
  if (formats_.size() > kMostFormats) formats_.pop_back();
}

}  // namespace cloister::runtime
