// SPDX-License-Identifier: Apache-2.0
#include "egress/service/record.h"

#include <string_view>
#include <utility>

namespace cloister::egress {
namespace {

using wire::egress::Attempts;

constexpr size_t kMostReason = 512;  // bytes: a full batch stays far below a frame's bound

std::string aggregateKey(const Attempts& attempts) {
  const std::string port = std::to_string(attempts.port);
  const std::string_view parts[] = {attempts.permit,
                                    attempts.plan_sha256,
                                    attempts.host,
                                    attempts.address,
                                    port,
                                    attempts.transport,
                                    attempts.rule,
                                    attempts.allowed ? "1" : "0"};
  std::string key;
  for (const std::string_view part : parts) {
    key += part;
    key += '\0';
  }
  return key;
}

// Cuts between characters of UTF-8.
void shorten(std::string& text) {
  if (text.size() <= kMostReason) return;
  size_t end = kMostReason;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;
  text.resize(end);
}

}  // namespace

void Record::add(const Attempts& attempts) {
  const std::string key = aggregateKey(attempts);
  if (const auto known = places_.find(key); known != places_.end()) {
    Attempts& same = open_.attempts[known->second];
    same.count += attempts.count;
    same.bytes_in += attempts.bytes_in;
    same.bytes_out += attempts.bytes_out;
    return;
  }
  if (open_.attempts.size() >= wire::egress::kMaxBatch) close();
  if (!attempts.allowed) {
    size_t& refused = of_permits_[attempts.permit];
    if (attempts_ >= most_ || refused >= kMostOfPermit) return leaveOut(attempts.count);
    ++refused;
  }
  ++attempts_;
  places_.emplace(key, open_.attempts.size());
  open_.attempts.push_back(attempts);
  shorten(open_.attempts.back().reason);
}

bool Record::close() {
  const bool only_counted = open_.attempts.empty();
  if (only_counted && (open_.left_out == 0 || !kept_.empty())) return false;
  open_.number = ++last_;
  kept_.push_back(std::exchange(open_, {}));
  places_.clear();
  of_permits_.clear();
  return true;
}

void Record::taken(uint64_t number) {
  while (!kept_.empty() && kept_.front().number <= number) {
    attempts_ -= kept_.front().attempts.size();
    kept_.pop_front();
  }
}

}  // namespace cloister::egress
