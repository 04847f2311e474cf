// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/answers.h"

#include <algorithm>

#include "base/big_endian.h"

namespace cloister::egress {
namespace {

constexpr int kPartial = 206;
constexpr int kImUsed = 226;  // RFC 3229: a difference to an earlier answer

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lowered, lowered);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

// Whether every element of the list is "identity".
bool isIdentity(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view one = trimmed(list.substr(0, comma));
    if (!one.empty() && !same(one, "identity")) return false;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return true;
}

bool isOfType(const Fields& fields, std::string_view type) {
  return std::ranges::any_of(fields, [&](const auto& field) {
    return same(field.first, "content-type") &&
           same(trimmed(field.second).substr(0, type.size()), type);
  });
}

}  // namespace

std::string unreadable(int status, const Fields& fields) {
  if (status == kPartial || status == kImUsed) return "answers with a part of its content";
  for (const auto& [name, value] : fields) {
    const bool coding = same(name, "content-encoding") || same(name, "grpc-encoding");
    if (coding && !isIdentity(value)) return "compresses its answer, though it was asked not to";
    if (same(name, "sec-websocket-extensions") && !trimmed(value).empty()) {
      return "uses a WebSocket extension that it was not asked for";
    }
  }
  return "";
}

void redactFields(Fields& fields, const redact::Patterns& values) {
  if (values.empty()) return;
  std::erase_if(fields, [&](const auto& field) { return !values.find(field.first).empty(); });
  for (auto& [name, value] : fields) {
    if (!values.find(value).empty()) value = values.redacted(value);
  }
}

CleanBody::CleanBody(std::shared_ptr<const redact::Patterns> values, const Fields& fields)
    : values_(std::move(values)) {
  if (isOfType(fields, "application/grpc")) kind_ = Kind::kGrpc;
  if (isOfType(fields, "text/event-stream")) kind_ = Kind::kEvents;
  stream_.emplace(values_);
}

Result<std::string> CleanBody::feed(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto [size, whole] = TRY(measure(bytes));
    out += stream_->feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (!whole) continue;
    out += stream_->finish();
    TRY(check());
    stream_.emplace(values_);
  }
  TRY(check());
  return out;
}

Result<std::string> CleanBody::finish() {
  std::string out = stream_->finish();
  TRY(check());
  return out;
}

Result<> CleanBody::check() const {
  if (kind_ != Kind::kGrpc || stream_->hits() == 0) return {};
  return fail(Code::kDenied,
              "A message of the answer repeats the secret " + stream_->firstName() + ".");
}

Result<std::pair<size_t, bool>> CleanBody::measure(std::string_view bytes) {
  if (kind_ == Kind::kGrpc) return measureMessage(bytes);
  if (kind_ == Kind::kEvents) return measureEvent(bytes);
  return std::pair(bytes.size(), false);
}

// Messages of gRPC: a byte of flags, four of length, and the message.
Result<std::pair<size_t, bool>> CleanBody::measureMessage(std::string_view bytes) {
  constexpr size_t kPrefix = 5;
  constexpr uint8_t kCompressed = 1;
  size_t used = 0;
  if (left_ == 0) {
    used = std::min(kPrefix - prefix_.size(), bytes.size());
    prefix_ += bytes.substr(0, used);
    if (prefix_.size() < kPrefix) return std::pair(used, false);
    base::BigEndianReader reader(prefix_);
    const uint8_t flags = reader.u8();
    left_ = reader.u32();
    prefix_.clear();
    if ((flags & kCompressed) != 0) {
      return fail(Code::kDenied, "A message of the answer is compressed, so it cannot be read.");
    }
  }
  const size_t count = std::min<uint64_t>(left_, bytes.size() - used);
  left_ -= count;
  return std::pair(used + count, left_ == 0);
}

std::pair<size_t, bool> CleanBody::measureEvent(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] == '\r') continue;
    const bool boundary = bytes[at] == '\n' && empty_line_;
    empty_line_ = bytes[at] == '\n';
    if (boundary) return {at + 1, true};
  }
  return {bytes.size(), false};
}

}  // namespace cloister::egress
