// SPDX-License-Identifier: Apache-2.0
#include "store/sql/chain.h"

#include <algorithm>

#include "base/clock.h"
#include "base/id.h"
#include "model/numbering.h"
#include "store/records/clean.h"

namespace cloister::store {
namespace {

constexpr char kInsert[] =
    "INSERT INTO audit(seq, at, action, subject, tenant, app, agent, user, key_id, details, prev,"
    " hash, number) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)";
// The tenant's newest number, in the order of the index audit_by_number.
constexpr char kLastNumber[] =
    "SELECT ifnull(number, seq) FROM audit WHERE tenant=? ORDER BY ifnull(number, seq) DESC"
    " LIMIT 1";
constexpr char kKeep[] =
    "INSERT INTO audit_sealed(seq, name, salt, value, encrypted)"
    " SELECT ?1, ?2, encrypt(tenant, 'salt ' || ?1 || ' ' || ?2, ?3),"
    " encrypt(tenant, 'sealed ' || ?1 || ' ' || ?2, ?4), encrypts()"
    " FROM audit WHERE seq=?1";
constexpr char kSeal[] = "INSERT OR REPLACE INTO audit_head VALUES (1,?,?,?,?,?)";
constexpr char kReadHead[] = "SELECT seq, hash, at, key_id, signature FROM audit_head";
constexpr char kLast[] =
    "SELECT seq, at, action, subject, tenant, app, agent, user, key_id, details, prev, hash,"
    " ifnull(number, seq), number IS NULL FROM audit ORDER BY seq DESC LIMIT 1";

// Moves texts that the log must not hold out of the details, and leaves the seal of each text
// there.
std::vector<model::SealedMember> sealText(model::AuditEvent& event) {
  constexpr size_t kSaltBytes = 16;
  std::vector<model::SealedMember> sealed;
  for (auto& member : event.details) {
    if (!model::isSealable(event.action, member.key())) continue;
    sealed.push_back(
        {std::string(member.key()), base::randomHex(kSaltBytes), std::move(member.value())});
    member.value() = base::json::object{{"sealed", sealOf(sealed.back())}};
  }
  return sealed;
}

model::AuditEvent cleanEvent(const model::AuditEvent& event) {
  const model::Principal& who = event.principal;
  return {.action = cleanText(event.action),
          .subject = cleanText(event.subject),
          .principal = {.tenant = cleanText(who.tenant),
                        .app = cleanText(who.app),
                        .agent = cleanText(who.agent),
                        .user = cleanText(who.user),
                        .roles = who.roles,
                        .key_id = cleanText(who.key_id),
                        .request = who.request,
                        .trace = who.trace},
          .details = cleanObject(event.details)};
}

Result<uint64_t> nextNumber(Database& db, const std::string& tenant) {
  Statement last = TRY(db.use(kLastNumber));
  return TRY(last.bind(tenant).step()) ? last.natural(0) + 1 : uint64_t{1};
}

}  // namespace

Chain::Chain(std::shared_ptr<const base::SigningKey> key) : key_(std::move(key)) {
  if (key_) key_id_ = key_->verifyKey().id();
}

Result<std::string> Chain::load(Database& db) {
  Statement last = TRY(db.use(kLast));
  const bool any = TRY(last.step());
  if (any) head_ = {last.natural(0), last.integer(1), last.text(11), last.integer(13) != 0};
  sealed_seq_ = head_.seq;
  if (any) {
    const auto entry = readEntry(last);
    if (!entry || base::sha256Hex(canonicalForm(*entry)) != head_.hash) {
      return "entry " + std::to_string(head_.seq) + ", the last, does not match its hash";
    }
  }
  return compareWithHead(TRY(readHead(db)));
}

// "" if the signed head is the last entry's.
std::string Chain::compareWithHead(const std::optional<Checkpoint>& sealed) const {
  if (!sealed) return head_.seq > 0 && key_ ? "the signed head is missing" : "";
  if (sealed->seq != head_.seq || sealed->hash != head_.hash) {
    return "the log ends at entry " + std::to_string(head_.seq) + " (" + head_.hash +
           "), its signed head is entry " + std::to_string(sealed->seq) + " (" + sealed->hash + ")";
  }
  const auto signature = base::fromBase64(sealed->signature);
  const bool valid =
      !key_ || (signature && key_->verifyKey().verify(checkpointText(*sealed), *signature));
  return valid ? "" : "the signature of the head is not valid";
}

Result<uint64_t> Chain::append(Database& db, const model::AuditEvent& event) {
  TRY(renumber(db));
  return add(db, event);
}

Result<void> Chain::renumber(Database& db) {
  if (!head_.old_numbers) return {};
  TRY(add(db, model::renumbered(head_.seq)));
  return {};
}

Result<uint64_t> Chain::add(Database& db, const model::AuditEvent& event) {
  // Time never runs backwards along the chain, whatever the clock does.
  model::AuditEntry entry{.position = head_.seq + 1,
                          .seq = 0,
                          .at = std::max(base::wallMicros(), head_.at),
                          .event = cleanEvent(event),
                          .prev = head_.hash,
                          .hash = {}};
  entry.seq = TRY(nextNumber(db, entry.event.principal.tenant));
  entry.sealed = sealText(entry.event);
  entry.hash = base::sha256Hex(canonicalForm(entry));
  const model::Principal& who = entry.event.principal;
  const std::string details = model::canonicalJson(entry.event.details);
  Statement insert = TRY(db.use(kInsert));
  insert.bind(entry.position, entry.at, entry.event.action, entry.event.subject, who.tenant,
              who.app, who.agent, who.user, who.key_id, details, entry.prev, entry.hash, entry.seq);
  TRY(insert.run());
  for (const model::SealedMember& member : entry.sealed) {
    Statement keep = TRY(db.use(kKeep));
    TRY(keep.bind(entry.position, member.name, member.salt, model::canonicalJson(member.value))
            .run());
  }
  to_log_.emplace_back(entry);
  head_ = {entry.position, entry.at, std::move(entry.hash)};
  return head_.seq;
}

void Chain::committed() {
  sealed_seq_ = head_.seq;
  for (const ChangeLine& each : to_log_)
    each.write();
  to_log_.clear();
}

void Chain::restore(Head head) {
  head_ = std::move(head);
  std::erase_if(to_log_, [&](const ChangeLine& each) { return each.position() > head_.seq; });
}

Result<std::optional<Checkpoint>> Chain::seal(Database& db) {
  if (!key_ || head_.seq == sealed_seq_) return std::nullopt;
  Checkpoint sealed{
      .seq = head_.seq, .hash = head_.hash, .at = head_.at, .key_id = key_id_, .signature = {}};
  sealed.signature = base::toBase64(key_->sign(checkpointText(sealed)));
  Statement seal = TRY(db.use(kSeal));
  TRY(seal.bind(sealed.seq, sealed.hash, sealed.at, sealed.key_id, sealed.signature).run());
  return sealed;
}

Result<model::AuditEntry> readEntry(const Statement& row) {
  model::AuditEntry entry{.position = row.natural(0),
                          .seq = row.natural(12),
                          .at = row.integer(1),
                          .event = {.action = row.text(2),
                                    .subject = row.text(3),
                                    .principal = {.tenant = row.text(4),
                                                  .app = row.text(5),
                                                  .agent = row.text(6),
                                                  .user = row.text(7),
                                                  .roles = model::Role::kAgent,
                                                  .key_id = row.text(8)},
                                    .details = {}},
                          .prev = row.text(10),
                          .hash = row.text(11)};
  const std::string details = row.text(9);
  auto parsed = base::parseJson(details, {.max_bytes = size_t{1} << 30});
  if (!parsed || !parsed->is_object() || model::canonicalJson(*parsed) != details) {
    return fail(Code::kInternal,
                "entry " + std::to_string(entry.position) + ": its details are not canonical JSON");
  }
  entry.event.details = std::move(parsed->get_object());
  return entry;
}

Result<std::optional<Checkpoint>> readHead(Database& db) {
  Statement row = TRY(db.use(kReadHead));
  if (!TRY(row.step())) return std::nullopt;
  return Checkpoint{.seq = row.natural(0),
                    .hash = row.text(1),
                    .at = row.integer(2),
                    .key_id = row.text(3),
                    .signature = row.text(4)};
}

}  // namespace cloister::store
