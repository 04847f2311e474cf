// SPDX-License-Identifier: Apache-2.0
#include "wire/egress.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/json.h"
#include "model/shown_text.h"
#include "wire/archive.h"

namespace cloister::wire::egress {
namespace {

constexpr size_t kName = 256;       // ids, hosts, rules
constexpr size_t kAddress = 64;     // of the longest text of an address
constexpr size_t kSentence = 1024;  // reasons
constexpr size_t kWord = 16;        // transports, protocols
constexpr size_t kDigest = 64;      // hex of a SHA-256
constexpr size_t kSignature = 64;   // Ed25519

constexpr std::array<std::string_view, 5> kTransports = {"tcp", "udp", "dns", "icmp", "other"};

// The largest batch fits into a frame.
constexpr size_t kMostOfAttempts = 3 * kName + kDigest + kAddress + kSentence + kWord + 128;
static_assert(kMaxBatch * kMostOfAttempts < kMaxPayload);

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::SignedPlan>
void describe(A& a, T& v) {
  a.text(v.encoded, model::kMaxPlanBytes);
  a.text(v.signature, kSignature);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Attempts>
void describe(A& a, T& v) {
  a.text(v.permit, kName);
  a.text(v.plan_sha256, kDigest);
  a.text(v.host, kName);
  a.text(v.address, kAddress);
  a.number(v.port, UINT16_MAX);
  a.text(v.transport, kWord);
  a.flag(v.allowed);
  a.text(v.rule, kName);
  a.text(v.reason, kSentence);
  a.number(v.at);
  a.number(v.count);
  a.number(v.bytes_in);
  a.number(v.bytes_out);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Batch>
void describe(A& a, T& v) {
  a.number(v.number);
  a.list(v.attempts, kMaxBatch, [&](auto& each) { describe(a, each); });
  a.number(v.left_out);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Wanted>
void describe(A& a, T& v) {
  a.text(v.permit, kName);
  a.text(v.host, kName);
  a.number(v.port, UINT16_MAX);
  a.text(v.protocol, kWord);
  a.text(v.rule, kName);
  a.text(v.program, kName);
  a.flag(v.waits);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Door>
void describe(A& a, T& v) {
  a.number(v.id);
  a.text(v.permit, kName);
  a.text(v.plan_sha256, kDigest);
  a.flag(v.transparent);
  a.number(v.listeners, uint32_t{kMaxDoorListeners});
  a.flag(v.has_dns);
  a.flag(v.has_log);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Secrets>
void describe(A& a, T& v) {
  a.text(v.permit, kName);
  a.list(v.values, model::kMaxSecretUses, [&](auto& each) {
    a.text(each.id, kName);
    a.text(each.value, model::kMaxSecretBytes);
  });
}

bool isDigest(std::string_view text) {
  return text.size() == kDigest &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool areUtf8(std::initializer_list<std::string_view> texts) {
  return std::ranges::all_of(texts, base::isUtf8);
}

// The checks besides bounds. The receiver puts these texts into JSON, so all are UTF-8.
bool isSound(const model::SignedPlan& plan) {
  return plan.signature.size() == kSignature;
}

bool isSound(const Attempts& attempts) {
  const bool digest = attempts.plan_sha256.empty() || isDigest(attempts.plan_sha256);
  const bool transport = std::ranges::find(kTransports, attempts.transport) != kTransports.end();
  const bool some = attempts.count != 0 || attempts.bytes_in != 0 || attempts.bytes_out != 0;
  return digest && transport && !attempts.permit.empty() && some &&
         areUtf8(
             {attempts.permit, attempts.host, attempts.address, attempts.rule, attempts.reason});
}

bool isSound(const Batch& batch) {
  return std::ranges::all_of(batch.attempts, [](const Attempts& each) { return isSound(each); });
}

bool isSound(const Wanted& wanted) {
  return !wanted.permit.empty() && model::protocolFromName(wanted.protocol) &&
         areUtf8({wanted.permit, wanted.host, wanted.rule, wanted.program});
}

bool isSound(const Secrets& secrets) {
  return !secrets.permit.empty() && base::isUtf8(secrets.permit) &&
         std::ranges::all_of(secrets.values, [](const auto& each) {
           return !each.id.empty() && !each.value.empty();
         });
}

bool isSound(const Door& door) {
  return !door.permit.empty() && base::isUtf8(door.permit) && isDigest(door.plan_sha256) &&
         door.listeners != 0;
}

template <class T>
std::string encode(const T& value) {
  Encoder encoder;
  describe(encoder, value);
  return encoder.take();
}

template <class T>
Result<T> decode(std::string_view bytes, const char* what) {
  Decoder decoder(bytes);
  T value;
  describe(decoder, value);
  if (!decoder.done() || !isSound(value)) {
    return fail(Code::kInvalid, std::string("decoding ") + what + ": malformed");
  }
  return value;
}

// A text of a program's, as the receiver accepts it: its beginning, in UTF-8.
std::string acceptable(const std::string& text, size_t most) {
  if (!base::isUtf8(text)) {
    const std::string safe = model::safeText(text, most / 8);  // an escape has up to 8 bytes
    return std::string(base::withoutCutCharacter(std::string_view(safe).substr(0, most)));
  }
  return std::string(base::withoutCutCharacter(std::string_view(text).substr(0, most)));
}

}  // namespace

std::string encodeSignedPlan(const model::SignedPlan& plan) {
  return encode(plan);
}

Result<model::SignedPlan> decodeSignedPlan(std::string_view bytes) {
  return decode<model::SignedPlan>(bytes, "signed plan");
}

std::string encodeSecrets(const Secrets& secrets) {
  return encode(secrets);
}

Result<Secrets> decodeSecrets(std::string_view bytes) {
  return decode<Secrets>(bytes, "secrets");
}

std::string encodeBatch(const Batch& batch) {
  Batch cut = batch;
  for (Attempts& each : cut.attempts) {
    each.host = acceptable(each.host, kName);
    each.address = acceptable(each.address, kAddress);
    each.rule = acceptable(each.rule, kName);
    each.reason = acceptable(each.reason, kSentence);
  }
  return encode(cut);
}

Result<Batch> decodeBatch(std::string_view bytes) {
  return decode<Batch>(bytes, "batch of attempts");
}

std::string encodeWanted(const Wanted& wanted) {
  Wanted cut = wanted;
  cut.host = acceptable(wanted.host, kName);
  cut.rule = acceptable(wanted.rule, kName);
  cut.program = acceptable(wanted.program, kName);
  return encode(cut);
}

Result<Wanted> decodeWanted(std::string_view bytes) {
  return decode<Wanted>(bytes, "wanted destination");
}

std::string encodeDoor(const Door& door) {
  return encode(door);
}

Result<Door> decodeDoor(std::string_view bytes) {
  return decode<Door>(bytes, "door");
}

}  // namespace cloister::wire::egress
