// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/snapshot_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "artifacts/chunker.h"
#include "async/awaiting.h"
#include "async/together.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/core/reach.h"
#include "orchestrator/storage/snapshot_manifest.h"

namespace cloister::orchestrator {
namespace {

constexpr uint64_t kAlone = uint64_t{1} << 20;  // files from this size on share no chunk
constexpr size_t kManifestPiece = size_t{256} << 10;
constexpr size_t kOpenAtOnce = 64;
constexpr char kSnapshots[] = "snapshots taken or restored";

// The ledger keeps no fractions, and a name only for show.
model::AuditEvent eventOf(std::string action, const model::Principal& by,
                          const model::Snapshot& snapshot) {
  return {.action = std::move(action),
          .subject = snapshot.id,
          .principal = by,
          .details = {{"session", snapshot.session_id},
                      {"sha256", snapshot.sha256},
                      {"entries", snapshot.entries},
                      {"size", snapshot.bytes},
                      {"tenant", snapshot.tenant},
                      {"memory", snapshot.memory.has_value()}}};
}

Task<Result<>> isSame(std::shared_ptr<artifacts::BlobReader> there,
                      std::shared_ptr<const std::string> bytes) {
  if (there->size() != bytes->size()) co_return fail(Code::kInternal, "another size");
  if (CO_TRY(co_await there->read(0, bytes->size())) == *bytes) co_return Result<>{};
  co_return fail(Code::kInternal, "other bytes");
}

}  // namespace

// A snapshot under construction. Destruction releases its holds, and removes its files unless kept.
class SnapshotService::Taking {
 public:
  Taking(SnapshotService& service, model::Snapshot snapshot, uint64_t room,
         std::unique_ptr<artifacts::BlobWriter> manifest)
      : service_(service),
        snapshot_(std::move(snapshot)),
        room_(room),
        manifest_blob_(std::move(manifest)) {}
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
  ~Taking() {
    for (const model::BlobName& blob : held_)
      service_.blobs_.release(blob, kept_);
  }

  Task<Result<>> read(FileCall& call) {
    for (;;) {
      std::string piece = CO_TRY(co_await call.read());
      if (piece.empty()) break;
      archive_.feed(piece);
      while (auto part = CO_TRY(archive_.next())) {
        if (const auto* entry = std::get_if<wire::tar::Entry>(&*part)) {
          CO_TRY(co_await onEntry(*entry));
        } else if (const auto* content = std::get_if<wire::tar::Content>(&*part)) {
          CO_TRY(co_await onContent(content->bytes));
        }
      }
    }
    CO_TRY(co_await call.finish());
    if (!archive_.ended()) co_return fail(Code::kInternal, "the archive was cut short");
    if (!chunker_.empty()) CO_TRY(co_await keep(chunker_.take()));
    co_return Result<>{};
  }

  // Writes the manifest, and the record of the manifest and the chunks.
  Task<Result<model::Snapshot>> finish(model::Principal by) {
    for (const model::SnapshotChunk& chunk : chunks_)
      manifest_.add(chunk);
    manifest_.finish();
    CO_TRY(co_await writeManifest(0));
    snapshot_.sha256 = CO_TRY(co_await service_.blobs_.keep(snapshot_.tenant, *manifest_blob_));
    held_.push_back(snapshot_.manifest());
    snapshot_.entries = manifest_.entries();
    snapshot_.bytes = manifest_.bytes();
    snapshot_.chunks = manifest_.chunks();
    snapshot_.manifest_bytes = manifest_.size();
    model::AuditEvent event = eventOf("snapshot.created", by, snapshot_);
    std::ranges::sort(chunks_, {}, &model::SnapshotChunk::sha256);
    const auto twice = std::ranges::unique(chunks_, {}, &model::SnapshotChunk::sha256);
    chunks_.erase(twice.begin(), twice.end());
    auto kept =
        co_await service_.ledger_.write(store::addSnapshot, {snapshot_, std::move(chunks_)},
                                        service_.quotaOf(snapshot_.tenant), std::move(event));
    kept_ = kept.has_value();
    co_return kept;
  }

 private:
  Task<Result<>> onEntry(const wire::tar::Entry& entry) {
    const SnapshotConfig& config = service_.config_;
    if (manifest_.entries() >= config.max_entries) {
      co_return fail(Code::kTooLarge, "at most " + std::to_string(config.max_entries) +
                                          " files, directories and links are taken "
                                          "(snapshots.max_entries)");
    }
    const uint64_t names = manifest_.size() + entry.path.size() + entry.target.size();
    if (entry.size > config.max_bytes || manifest_.bytes() > config.max_bytes - entry.size ||
        names > config.max_bytes - entry.size - manifest_.bytes()) {
      co_return fail(Code::kTooLarge, "at most " + std::to_string(config.max_bytes >> 20) +
                                          " MiB are taken (snapshots.max_mb)");
    }
    manifest_.add(entry);
    CO_TRY(co_await writeManifest(kManifestPiece));
    file_left_ = entry.size;
    alone_ = entry.size >= kAlone;
    if (alone_ && !chunker_.empty()) co_return co_await keep(chunker_.take());
    co_return Result<>{};
  }

  Task<Result<>> onContent(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t taken = chunker_.feed(bytes);
      bytes.remove_prefix(taken);
      file_left_ -= taken;
      const bool cut = chunker_.whole() || (alone_ && file_left_ == 0);
      if (cut) CO_TRY(co_await keep(chunker_.take()));
    }
    co_return Result<>{};
  }

  // Writes a chunk, unless the tenant has the whole chunk already.
  Task<Result<>> keep(std::string chunk) {
    const auto bytes = std::make_shared<const std::string>(std::move(chunk));
    std::string digest = co_await async::inBackground<std::string>(
        service_.background_, [bytes] { return base::sha256Hex(*bytes); });
    chunks_.push_back({digest, bytes->size()});
    if (!seen_.insert(digest).second) co_return Result<>{};
    const model::BlobName name{snapshot_.tenant, std::move(digest)};
    // From here on nobody removes the chunk.
    co_await service_.blobs_.hold(name);
    held_.push_back(name);
    artifacts::Blobs& blobs = service_.blobs_.blobs();
    if (auto there = co_await blobs.open(name); there) {
      const auto same = co_await isSame(*std::move(there), bytes);
      if (same) co_return Result<>{};
    }
    if (bytes->size() > room_) co_return noRoom();
    room_ -= bytes->size();
    CO_TRY(co_await service_.ledger_.write(store::noteBlob, name));
    const std::shared_ptr<artifacts::BlobWriter> writer(CO_TRY(blobs.create(snapshot_.tenant)));
    CO_TRY(co_await async::inBackground<Result<>>(
        service_.background_, [writer, bytes] { return writer->write(*bytes); }));
    CO_TRY(co_await writer->finish());
    co_return Result<>{};
  }

  Task<Result<>> writeManifest(size_t at_least) {
    if (manifest_.waiting() <= at_least) co_return Result<>{};
    const auto text = std::make_shared<const std::string>(manifest_.take());
    if (text->size() > room_) co_return noRoom();
    room_ -= text->size();
    co_return co_await async::inBackground<Result<>>(
        service_.background_, [writer = manifest_blob_, text] { return writer->write(*text); });
  }

  static std::unexpected<Error> noRoom() {
    return fail(Code::kQuota,
                "the tenant's room for artifacts and snapshots is used up; delete some, or raise "
                "artifacts.quota_mb");
  }

  SnapshotService& service_;
  model::Snapshot snapshot_;
  uint64_t room_;
  std::shared_ptr<artifacts::BlobWriter> manifest_blob_;
  ManifestWriter manifest_;
  wire::tar::Reader archive_;
  artifacts::Chunker chunker_;
  uint64_t file_left_ = 0;
  bool alone_ = false;
  std::vector<model::SnapshotChunk> chunks_;  // in order, possibly repeated
  std::set<std::string> seen_;
  std::vector<model::BlobName> held_;
  bool kept_ = false;
};

SnapshotService::SnapshotService(boost::asio::any_io_executor executor,
                                 boost::asio::thread_pool& background, store::Store& store,
                                 BlobKeeper& blobs, Sessions& sessions, SnapshotConfig config)
    : executor_(executor),
      background_(background),
      store_(store),
      blobs_(blobs),
      sessions_(sessions),
      config_(config),
      ledger_(store),
      at_once_({.all = config.at_once,
                .per_tenant = config.at_once_per_tenant,
                .key = "snapshots.at_once"}) {
  sessions_.onFill([this](model::Principal who, std::string id) -> Task<Result<SessionFill>> {
    co_return co_await fillFrom(CO_TRY(ownSnapshot(who, id)));
  });
}

model::SnapshotQuota SnapshotService::quotaOf(const std::string& tenant) const {
  model::SnapshotQuota quota = config_.quota;
  if (config_.quotas != nullptr) quota.all = config_.quotas->storageOf(tenant, quota.all);
  quota.all = blobs_.without(tenant, quota.all);
  return quota;
}

// The ledger's later check, before anything is read.
Result<uint64_t> SnapshotService::roomFor(const std::string& tenant) {
  if (TRY(store_.snapshotCount(tenant)) >= config_.quota.snapshots) {
    return fail(Code::kQuota, "taking a snapshot: the tenant may keep " +
                                  std::to_string(config_.quota.snapshots) +
                                  "; delete some, or raise snapshots.per_tenant");
  }
  const model::ArtifactQuota used = TRY(store_.artifactUsage(tenant));
  const model::ArtifactQuota all = quotaOf(tenant).all;
  if (used.artifacts < all.artifacts) return all.bytes - std::min(all.bytes, used.bytes);
  return fail(Code::kQuota, "taking a snapshot: the tenant may keep " +
                                std::to_string(all.artifacts) +
                                " artifacts and snapshots; delete some, or raise "
                                "artifacts.quota_count");
}

Task<Result<model::Snapshot>> SnapshotService::take(model::Principal principal, std::string session,
                                                    model::SnapshotRequest request) {
  const model::Session of = CO_TRY(sessions_.get(principal, session));
  const auto one = CO_TRY(at_once_.enter(of.principal.tenant, "taking a snapshot", kSnapshots));
  const uint64_t room = CO_TRY(roomFor(of.principal.tenant));
  model::Snapshot made;
  made.id = base::newId(model::kSnapshotPrefix);
  made.tenant = of.principal.tenant;
  made.agent = of.principal.agent;  // the session's agent, whoever takes the snapshot
  made.session_id = of.id;
  made.name = std::move(request.name);
  made.metadata = std::move(request.metadata);
  made.created_at = base::wallMicros();
  int64_t ttl = config_.ttl_us;
  if (request.ttl_us > 0) ttl = ttl == 0 ? request.ttl_us : std::min(ttl, request.ttl_us);
  if (ttl > 0) made.expires_at = made.created_at + ttl;
  if (request.memory) {
    made.memory = {of.provenance.runtime, of.provenance.image, of.limits};
  }
  const auto call = CO_TRY(co_await sessions_.save(principal, of.id, request.memory));
  // Under the tenant's present key: if the key is destroyed meanwhile, the last step fails.
  auto manifest = CO_TRY(blobs_.blobs().create(made.tenant));
  Taking taking(*this, std::move(made), room, std::move(manifest));
  if (auto read = co_await taking.read(*call); !read) {
    co_return std::unexpected(std::move(read).error().within("taking a snapshot"));
  }
  co_return co_await taking.finish(std::move(principal));
}

Result<model::Snapshot> SnapshotService::get(const model::Principal& principal,
                                             const std::string& id) {
  return store_.snapshot(store::Scope::of(principal), id);
}

Result<std::vector<model::Snapshot>> SnapshotService::list(const model::Principal& principal,
                                                           const store::ArtifactQuery& query) {
  return store_.snapshots(store::Scope::of(principal), query);
}

Task<Result<>> SnapshotService::remove(model::Principal principal, std::string id) {
  const model::Snapshot snapshot = CO_TRY(get(principal, id));
  CO_TRY(mustReach(principal, makerOf(snapshot.tenant, snapshot.agent), "deleting a snapshot"));
  const auto freed = co_await ledger_.write(store::removeSnapshot, store::Scope::of(principal), id,
                                            eventOf("snapshot.deleted", principal, snapshot));
  co_await blobs_.remove(CO_TRY(freed));
  co_return Result<>{};
}

Task<Result<std::shared_ptr<artifacts::BlobReader>>> SnapshotService::open(model::BlobName name,
                                                                           std::string what) {
  auto reader = co_await blobs_.blobs().open(name);
  if (reader) co_return std::shared_ptr<artifacts::BlobReader>(*std::move(reader));
  Error& error = reader.error();
  if (error.code == Code::kUnavailable) co_return std::unexpected(std::move(error));
  const bool missing = error.code == Code::kNotFound;
  co_return fail(Code::kInternal, what + " " + name.sha256 + " " +
                                      (missing ? "is missing" : "is damaged: " + error.message));
}

// Side by side, because each may be a wait for another machine.
Task<Result<>> SnapshotService::openAll(std::string tenant,
                                        std::vector<model::SnapshotChunk> chunks) {
  Result<> outcome;
  async::Tasks opening;
  for (const model::SnapshotChunk& chunk : chunks) {
    opening.emplace_back([&]() -> Task<void> {
      auto opened = co_await open({tenant, chunk.sha256}, "chunk");
      if (!opened && outcome) outcome = std::unexpected(std::move(opened).error());
    });
  }
  co_await async::together(std::move(opening), kOpenAtOnce);
  co_return outcome;
}

// Checks that all chunks exist. Their content is checked at the read.
Task<Result<>> SnapshotService::check(model::Snapshot snapshot) {
  const auto blob = CO_TRY(co_await open(snapshot.manifest(), "manifest"));
  auto manifest = CO_TRY(co_await ManifestReader::open(blob, snapshot.sha256));
  for (;;) {
    std::vector<model::SnapshotChunk> some;
    while (some.size() < kOpenAtOnce) {
      auto chunk = CO_TRY(co_await manifest.chunk());
      if (!chunk) break;
      some.push_back(*std::move(chunk));
    }
    if (some.empty()) co_return Result<>{};
    CO_TRY(co_await openAll(snapshot.tenant, std::move(some)));
  }
}

Task<Result<>> SnapshotService::fill(model::Snapshot snapshot, FileCall& call) {
  const auto blob = CO_TRY(co_await open(snapshot.manifest(), "manifest"));
  SnapshotArchive archive(CO_TRY(co_await ManifestReader::open(blob, snapshot.sha256)),
                          background_);
  for (bool more = true; more;) {
    SnapshotArchive::Step step = CO_TRY(co_await archive.next());
    if (const auto* chunk = std::get_if<model::SnapshotChunk>(&step)) {
      archive.give(CO_TRY(co_await open({snapshot.tenant, chunk->sha256}, "chunk")));
    } else if (auto* bytes = std::get_if<std::string>(&step)) {
      CO_TRY(co_await call.send(std::move(*bytes)));
    } else {
      more = false;
    }
  }
  CO_TRY(co_await call.send(""));
  uint64_t left_out = 0;
  while (const auto part = CO_TRY(co_await call.next())) {
    const auto* end = std::get_if<wire::files::EndOfEntries>(&*part);
    if (end != nullptr) left_out += end->left_out;
  }
  CO_TRY(co_await call.finish());
  if (left_out > 0) co_return fail(Code::kInternal, "its sandbox left some of it out");
  co_return Result<>{};
}

namespace {

// For the client: the snapshot is damaged, and stays damaged.
Error unusable(Error error, const std::string& id) {
  Error told = std::move(error).within("restoring snapshot " + id);
  if (told.code == Code::kInternal) told.code = Code::kConflict;
  return told;
}

// `on_disk`: beside the memory.
Result<> checkFits(const model::Snapshot& snapshot, const model::Limits& limits, bool on_disk) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const uint64_t in_memory = on_disk ? 0 : snapshot.bytes / 3 * 4;
  struct Row {
    const char* field;
    uint64_t needed;
    uint64_t has;
    uint64_t unit;
  };
  for (const Row& row : {Row{"disk_mb", snapshot.bytes, limits.disk_bytes, kMiB},
                         Row{"memory_mb", in_memory, limits.memory_bytes, kMiB},
                         Row{"inodes", snapshot.entries, limits.inodes, 1}}) {
    if (row.needed < row.has) continue;
    return fail(Code::kInvalid,
                std::string(row.field) + ": the files of snapshot " + snapshot.id +
                    " need more than " + std::to_string(row.needed / row.unit) + "; ask for more",
                row.field);
  }
  return {};
}

// A restored sandbox has its earlier settings, including settings absent from the request.
Result<> goOnAs(const model::SnapshotMemory& memory, const std::string& id,
                model::RunRequest& request) {
  const auto differs = [&](const char* field, const std::string& was) {
    return fail(Code::kInvalid,
                std::string(field) + ": snapshot " + id + " has memory, and goes on with " + was +
                    " alone; leave it out, or restore a snapshot of the workspace",
                field);
  };
  if (!request.runtime.empty() && request.runtime != memory.runtime) {
    return differs("runtime", memory.runtime);
  }
  if (!request.image.empty() && request.image != memory.image) {
    return differs("image", memory.image);
  }
  request.runtime = memory.runtime;
  request.image = memory.image;
  static const model::Limits kUnasked;
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  model::Limits& limits = request.limits;
  const auto settle = [&](const char* field, auto model::Limits::* limit,
                          uint64_t unit) -> Result<> {
    const auto was = memory.limits.*limit;
    if (limits.*limit != kUnasked.*limit && limits.*limit != was) {
      return differs(field, std::to_string(was / unit));
    }
    limits.*limit = was;
    return {};
  };
  TRY(settle("memory_mb", &model::Limits::memory_bytes, kMiB));
  TRY(settle("disk_mb", &model::Limits::disk_bytes, kMiB));
  TRY(settle("inodes", &model::Limits::inodes, 1));
  TRY(settle("file_size_mb", &model::Limits::file_bytes, kMiB));
  TRY(settle("open_files", &model::Limits::open_files, 1));
  return settle("pids", &model::Limits::pids, 1);
}

}  // namespace

Result<model::Snapshot> SnapshotService::ownSnapshot(const model::Principal& principal,
                                                     const std::string& id) {
  model::Snapshot snapshot = TRY(get(principal, id));
  if (snapshot.tenant == principal.tenant) return snapshot;
  return fail(Code::kNotFound, "there is no snapshot " + id);
}

Task<Result<SessionFill>> SnapshotService::fillFrom(model::Snapshot snapshot) {
  const auto one = CO_TRY(at_once_.enter(snapshot.tenant, "restoring a snapshot", kSnapshots));
  if (const auto whole = co_await check(snapshot); !whole) {
    co_return std::unexpected(unusable(whole.error(), snapshot.id));
  }
  SessionFill fill;
  fill.memory = snapshot.memory.has_value();
  fill.write = [this, snapshot, one](FileCall& call) -> Task<Result<>> {
    auto filled = co_await this->fill(snapshot, call);
    if (!filled) co_return std::unexpected(unusable(std::move(filled).error(), snapshot.id));
    co_return filled;
  };
  co_return fill;
}

Task<Result<model::Session>> SnapshotService::restore(model::Principal principal,
                                                      model::SessionRequest request,
                                                      std::string idempotency_key) {
  // A retry is answered as the first was, whatever is left of the snapshot.
  auto earlier = CO_TRY(co_await sessions_.earlier(principal, request, idempotency_key));
  if (earlier) co_return *std::move(earlier);
  const model::Snapshot snapshot = CO_TRY(ownSnapshot(principal, request.from_snapshot));
  model::Limits& limits = request.settings.limits;
  model::settle(limits);
  if (snapshot.memory) {
    CO_TRY(goOnAs(*snapshot.memory, snapshot.id, request.settings));
  } else {
    CO_TRY(checkFits(snapshot, limits, model::needsDisk(limits, config_.disk_over_bytes)));
  }
  SessionFill fill = CO_TRY(co_await fillFrom(snapshot));
  co_return co_await sessions_.create(std::move(principal), std::move(request),
                                      std::move(idempotency_key), std::move(fill));
}

}  // namespace cloister::orchestrator
