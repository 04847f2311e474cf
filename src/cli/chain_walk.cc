// SPDX-License-Identifier: Apache-2.0
#include "cli/chain_walk.h"

#include "base/json.h"
#include "model/audit_entry.h"

namespace cloister::cli {
namespace {

constexpr size_t kMaxLine = size_t{16} << 20;
constexpr std::string_view kHash = ",\"hash\":\"";
constexpr std::string_view kSealed = ",\"sealed\":";
constexpr size_t kDigits = 64;

std::string entryName(uint64_t seq) {
  return "entry " + std::to_string(seq);
}

std::unexpected<Error> broken(std::string why) {
  return fail(Code::kInvalid, std::move(why));
}

// What is sealed in an entry has to be what it was sealed as.
Result<> checkSealed(const base::json::object& entry, const base::json::object& sealed,
                     const std::string& name) {
  const base::json::value* details = entry.if_contains("details");
  for (const auto& [member, given] : sealed) {
    const base::json::object* object = given.if_object();
    const base::json::value* salt = object == nullptr ? nullptr : object->if_contains("salt");
    const base::json::value* value = object == nullptr ? nullptr : object->if_contains("value");
    const base::json::value* recorded = details != nullptr && details->is_object()
                                            ? details->get_object().if_contains(member)
                                            : nullptr;
    const bool known = salt != nullptr && salt->is_string() && value != nullptr &&
                       recorded != nullptr &&
                       model::sealIn(*recorded) ==
                           model::sealOf({member, std::string(salt->get_string()), *value});
    if (!known) return broken(name + ": its sealed \"" + std::string(member) + "\" is another");
  }
  return {};
}

// The line without its last member, where that is `sealed`; the line itself where only some text in
// it looks like that.
Result<std::string> withoutSealed(std::string_view line, const std::string& name) {
  const auto parsed = base::parseJson(line, {.max_bytes = kMaxLine});
  const base::json::object* entry = parsed ? parsed->if_object() : nullptr;
  const base::json::value* sealed = entry == nullptr ? nullptr : entry->if_contains("sealed");
  if (sealed == nullptr) return std::string(line);
  if (!sealed->is_object()) return broken(name + ": is not a line of the log");
  const std::string tail = std::string(kSealed) + model::canonicalJson(*sealed) + "}";
  if (!line.ends_with(tail)) return broken(name + ": is not a line of the log");
  TRY(checkSealed(*entry, sealed->get_object(), name));
  return std::string(line.substr(0, line.size() - tail.size())) + "}";
}

}  // namespace

Result<ChainWalk> ChainWalk::against(const std::vector<model::Checkpoint>& published,
                                     const base::VerifyKey& key) {
  ChainWalk walk;
  for (const model::Checkpoint& each : published) {
    const std::string name = "the published checkpoint of " + entryName(each.seq);
    TRY(model::verifySignature(each, key, name));
    const auto [at, fresh] = walk.published_.emplace(each.seq, each.hash);
    if (!fresh && at->second != each.hash) return broken(name + " was published with two hashes");
  }
  if (walk.published_.empty()) return broken("the file has no checkpoint");
  return walk;
}

Result<> ChainWalk::feed(std::string_view bytes) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;
       bytes.remove_prefix(end + 1)) {
    pending_ += bytes.substr(0, end);
    TRY(line(pending_));
    pending_.clear();
  }
  pending_ += bytes;
  if (pending_.size() > kMaxLine) return broken("a line of the log is too long");
  return {};
}

// The entry's canonical form is the line without `hash`, its last member but for what is sealed.
Result<> ChainWalk::line(std::string_view whole) {
  const std::string next = entryName(last_ + 1);
  std::string unsealed;
  std::string_view line = whole;
  if (whole.contains(kSealed)) {
    unsealed = TRY(withoutSealed(whole, next));
    line = unsealed;
  }
  const size_t tail = kHash.size() + kDigits + 2;  // "}
  if (line.size() < tail || line.substr(line.size() - tail, kHash.size()) != kHash) {
    return broken(next + ": is not a line of the log");
  }
  const std::string hash(line.substr(line.size() - kDigits - 2, kDigits));
  const std::string form = std::string(line.substr(0, line.size() - tail)) + "}";
  const auto value = base::parseJson(form, {.max_bytes = kMaxLine});
  if (!value || !value->is_object()) return broken(next + ": is not a line of the log");
  const base::json::value* seq = value->get_object().if_contains("seq");
  const base::json::value* prev = value->get_object().if_contains("prev");
  if (seq == nullptr || !seq->is_int64() || static_cast<uint64_t>(seq->get_int64()) != last_ + 1) {
    return broken(next + " is missing");
  }
  if (base::sha256Hex(form) != hash) return broken(next + ": its bytes do not match its hash");
  if (prev == nullptr || !prev->is_string() || prev->get_string() != head_) {
    return broken(next + ": it does not follow " + entryName(last_));
  }
  if (const auto at = published_.find(last_ + 1); at != published_.end()) {
    if (at->second != hash) return broken(next + ": was published with another hash");
    ++held_;
  }
  ++last_;
  head_ = hash;
  return {};
}

Result<> ChainWalk::finish() {
  if (!pending_.empty()) return broken(entryName(last_ + 1) + ": its line has no end");
  const uint64_t newest = published_.rbegin()->first;
  if (newest <= last_) return {};
  return broken(entryName(last_ + 1) + " is missing: " + entryName(newest) + " was published");
}

}  // namespace cloister::cli
