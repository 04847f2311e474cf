// SPDX-License-Identifier: Apache-2.0
#include "model/numbering.h"

namespace cloister::model {
namespace {

constexpr std::string_view kThrough = "through";

std::string wrongNumber(const AuditEntry& entry, uint64_t last) {
  const std::string number = "number " + std::to_string(entry.seq);
  const std::string tenant = " of tenant " + entry.event.principal.tenant;
  if (entry.seq == last) return number + tenant + " is there twice";
  if (entry.seq < last) return number + tenant + " stands behind number " + std::to_string(last);
  return "number " + std::to_string(last + 1) + tenant + " is missing: " + number + " is the next";
}

}  // namespace

AuditEvent renumbered(uint64_t through) {
  return {
      .action = std::string(kRenumbered),
      .subject = "ledger",
      .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
      .details = {{kThrough, static_cast<int64_t>(through)}}};
}

std::string Numbering::check(uint64_t position, const AuditEntry& entry) {
  if (entry.event.action == kRenumbered) {
    std::string wrong = renumber(position, entry);
    if (!wrong.empty()) return wrong;
  }
  uint64_t& last = last_[entry.event.principal.tenant];
  const bool as_position = positions_ && entry.seq == position;
  const bool as_own = own_ && entry.seq == last + 1;
  if (!as_position && !as_own) {
    if (own_) return wrongNumber(entry, last);
    return "its number is " + std::to_string(entry.seq) + ", though no entry " +
           std::string(kRenumbered) + " stands before it";
  }
  positions_ = as_position;
  own_ = as_own;
  last = entry.seq;
  return {};
}

// From this entry on only a tenant's own numbers are valid.
std::string Numbering::renumber(uint64_t position, const AuditEntry& entry) {
  if (!positions_) return "numbers of the whole log ended before it, or never were";
  const base::json::value* through = entry.event.details.if_contains(kThrough);
  if (through == nullptr || !through->is_int64() ||
      static_cast<uint64_t>(through->get_int64()) != position - 1) {
    return "it does not end the numbers of the " + std::to_string(position - 1) +
           " entries before it";
  }
  positions_ = false;
  own_ = true;
  return {};
}

}  // namespace cloister::model
