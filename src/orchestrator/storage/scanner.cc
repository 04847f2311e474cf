// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/scanner.h"

#include <algorithm>
#include <utility>

#include "async/awaiting.h"
#include "async/wait_for.h"
#include "base/json.h"
#include "base/log.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kPiece = size_t{64} << 10;
constexpr int kClean = 0;
constexpr int kRefused = 1;

}  // namespace

Scanner::Scanner(const boost::asio::any_io_executor& executor, std::string key, size_t slots,
                 Command command, std::function<void()> stop)
    : key_(std::move(key)),
      command_(std::move(command)),
      stop_(std::move(stop)),
      slots_(slots, Slot::kFree),
      changed_(executor),
      threads_(slots) {}

Scanner::~Scanner() {
  stopped_.request_stop();
  stop_();
  threads_.join();
}

boost::asio::awaitable<Result<>> Scanner::scan(std::shared_ptr<artifacts::BlobReader> content) {
  auto slot = std::ranges::find(slots_, Slot::kFree);
  while (slot == slots_.end() && std::ranges::find(slots_, Slot::kBusy) != slots_.end()) {
    co_await changed_.wait();
    slot = std::ranges::find(slots_, Slot::kFree);
  }
  if (slot == slots_.end()) {
    co_return fail(Code::kUnavailable, "scanning: the scanner's helpers are gone; start again");
  }
  *slot = Slot::kBusy;
  const auto number = static_cast<size_t>(slot - slots_.begin());
  const auto damaged = std::make_shared<bool>(false);
  const auto ended =
      co_await async::inBackground<Result<ScanEnd>>(threads_, [this, number, content, damaged] {
        uint64_t at = 0;
        return command_(number, [&]() -> Result<std::string> {
          auto piece =
              async::waitFor<std::string>(changed_.executor(), stopped_.get_token(),
                                          [content, at] { return content->read(at, kPiece); });
          if (piece) at += piece->size();
          *damaged = *damaged || !piece;
          return piece;
        });
      });
  slots_[number] = ended ? Slot::kFree : Slot::kLost;
  changed_.notify();
  if (ended && !*damaged && ended->status == kClean) co_return Result<>{};
  if (ended && !*damaged && ended->status == kRefused) {
    co_return fail(Code::kDenied, "the scan of artifacts refused it (" + key_ + ")");
  }
  const std::string why = ended ? "status " + std::to_string(ended->status) : ended.error().message;
  const std::string said = ended && base::isUtf8(ended->said) ? ended->said : "";
  base::log(base::Level::kError, "scan failed", {{"reason", why}, {"said", said}});
  co_return fail(Code::kUnavailable, "the scan of artifacts failed, so it was not kept; try again");
}

}  // namespace cloister::orchestrator
