// SPDX-License-Identifier: Apache-2.0
#include "sandbox/pool/template.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "linux/message.h"
#include "wire/frame.h"
#include "wire/guest.h"

namespace cloister::runtime {
namespace {

bool isSame(const std::weak_ptr<const Spawner>& a, const std::weak_ptr<const Spawner>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

bool fits(const Templates::Shape& kept, const Templates::Shape& asked) {
  return kept.guest == asked.guest && isSame(kept.root, asked.root) && kept.spec == asked.spec;
}

Result<std::string> wakeFrame() {
  std::array<char, wire::kHeaderBytes + wire::guest::kWakeBytes> frame;
  wire::encodeHeader(frame.data(), static_cast<uint16_t>(wire::guest::ToGuest::kWake), 0,
                     wire::guest::kWakeBytes);
  char* const entropy = frame.data() + wire::kHeaderBytes;
  if (::getrandom(entropy, wire::guest::kWakeEntropy, 0) !=
      static_cast<ssize_t>(wire::guest::kWakeEntropy)) {
    return failErrno("getrandom");
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  wire::Writer w(entropy + wire::guest::kWakeEntropy, 8 + 4);
  w.i64(seconds.count());
  w.u32(static_cast<uint32_t>(std::chrono::nanoseconds(now - seconds).count()));
  return std::string(frame.data(), frame.size());
}

}  // namespace

Result<std::shared_ptr<Template>> Template::make(uint64_t memory_bytes) {
  Fd memory = TRY(linux::memoryFile(memory_bytes));
  return std::make_shared<Template>(std::move(memory), TRY(linux::memoryFile(0)));
}

Result<> Template::seal() {
  TRY(linux::seal(memory_));
  return linux::seal(state_);
}

std::shared_ptr<const Template> Templates::find(const Shape& shape) {
  const auto found =
      std::ranges::find_if(kept_, [&](const Kept& each) { return fits(each.shape, shape); });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front().kept;
}

void Templates::keep(Shape shape, std::shared_ptr<const Template> kept) {
  kept_.remove_if(
      [&](const Kept& each) { return each.shape.root.expired() || fits(each.shape, shape); });
  kept_.push_front({std::move(shape), std::move(kept)});
  while (kept_.size() > most_)
    kept_.pop_back();
}

void Templates::forget(const Template& kept) {
  kept_.remove_if([&](const Kept& each) { return each.kept.get() == &kept; });
}

void Templates::forget(const Guest& guest) {
  kept_.remove_if([&](const Kept& each) { return each.shape.guest == &guest; });
}

Task<Result<>> wake(Live& live) {
  const std::string frame = CO_TRY(wakeFrame());
  CO_TRY(co_await live.channel().write(frame));
  const auto answer = co_await live.nextFrame();
  if (!answer) co_return fail(Code::kInternal, "it did not wake: " + answer.error().message);
  if (answer->type == wire::FromRunner::kStartFailed) co_return checkHello(*answer);
  const auto type = static_cast<wire::guest::FromGuest>(answer->type);
  if (type != wire::guest::FromGuest::kAwake || answer->channel != 0 || !answer->payload.empty()) {
    co_return fail(Code::kInternal, "it did not wake: it said something else");
  }
  co_return Result<>();
}

}  // namespace cloister::runtime
