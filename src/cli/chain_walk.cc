// SPDX-License-Identifier: Apache-2.0
#include "cli/chain_walk.h"

#include "base/json.h"
#include "model/audit_entry.h"

namespace cloister::cli {
namespace {

constexpr size_t kMaxLine = size_t{16} << 20;
constexpr std::string_view kHash = ",\"hash\":\"";
constexpr std::string_view kPosition = ",\"position\":";
constexpr std::string_view kSealed = ",\"sealed\":";
constexpr size_t kDigits = 64;

std::string entryName(uint64_t position) {
  return "entry " + std::to_string(position);
}

constexpr std::string_view kOfOneTenant =
    "this export is one tenant's, or begins later: entry 1 has no position, and an entry stands "
    "before it; export as an administrator from the start";

std::unexpected<Error> broken(std::string why) {
  return fail(Code::kInvalid, std::move(why));
}

// Checks the sealed texts of an entry against their seals.
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

// The line without its last member, if the member is `sealed`; the unchanged line if only some text
// looks like `sealed`.
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

// The line without its `position`; exports for readers of all tenants have the position after the
// hash. The hash does not cover the position, which only names a missing line early.
Result<std::string> withoutPosition(std::string line, uint64_t expected) {
  const size_t at = line.rfind(kPosition);
  constexpr std::string_view kDecimal = "0123456789";
  if (at == std::string::npos ||
      line.find_first_not_of(kDecimal, at + kPosition.size()) != line.size() - 1) {
    return line;
  }
  if (line.substr(at + kPosition.size()) != std::to_string(expected) + "}") {
    return broken(entryName(expected) + " is missing");
  }
  return line.substr(0, at) + "}";
}

std::string memberText(const base::json::object& entry, std::string_view name) {
  const base::json::value* found = entry.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

// The members for the numbers of a log (model/numbering.h).
Result<model::AuditEntry> numbered(const base::json::object& object, const std::string& name) {
  const base::json::value* seq = object.if_contains("seq");
  const base::json::value* details = object.if_contains("details");
  if (seq == nullptr || !seq->is_int64() || seq->get_int64() < 1 || details == nullptr ||
      !details->is_object()) {
    return broken(name + ": is not a line of the log");
  }
  model::AuditEntry entry;
  entry.seq = static_cast<uint64_t>(seq->get_int64());
  entry.event.action = memberText(object, "action");
  entry.event.principal.tenant = memberText(object, "tenant");
  entry.event.details = details->get_object();
  return entry;
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

// The entry's canonical form is the line without `hash` and without all later members.
Result<> ChainWalk::line(std::string_view whole) {
  const std::string next = entryName(last_ + 1);
  std::string line(whole);
  if (whole.contains(kSealed)) line = TRY(withoutSealed(whole, next));
  const size_t positioned = line.size();
  line = TRY(withoutPosition(std::move(line), last_ + 1));
  const bool has_position = line.size() != positioned;
  const size_t tail = kHash.size() + kDigits + 2;  // "}
  if (line.size() < tail || line.compare(line.size() - tail, kHash.size(), kHash) != 0) {
    return broken(next + ": is not a line of the log");
  }
  const std::string hash = line.substr(line.size() - kDigits - 2, kDigits);
  const std::string form = line.substr(0, line.size() - tail) + "}";
  const auto value = base::parseJson(form, {.max_bytes = kMaxLine});
  if (!value || !value->is_object()) return broken(next + ": is not a line of the log");
  if (base::sha256Hex(form) != hash) return broken(next + ": its bytes do not match its hash");
  if (memberText(value->get_object(), "prev") != head_) {
    if (has_position) return broken(next + ": it does not follow " + entryName(last_));
    if (last_ == 0) return fail(Code::kUnsupported, std::string(kOfOneTenant));
    return broken(next + ": it does not follow " + entryName(last_) +
                  "; an export without positions may be one tenant's: export as an administrator");
  }
  const model::AuditEntry entry = TRY(numbered(value->get_object(), next));
  if (const std::string wrong = numbering_.check(last_ + 1, entry); !wrong.empty()) {
    return broken(next + ": " + wrong);
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
