// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/kept_uploads.h"

#include <algorithm>
#include <utility>

namespace cloister::orchestrator {
namespace {

// For an interrupted request, which at most writes a piece or names an artifact.
constexpr Millis kEndPatience{10'000};

std::unexpected<Error> conflict(const UploadName& name, const std::string& why, std::string field) {
  return fail(Code::kConflict, "uploading: upload " + name.name + " " + why, std::move(field));
}

}  // namespace

KeptUploads::KeptUploads(boost::asio::any_io_executor executor, BlobKeeper& blobs,
                         KeptBounds bounds)
    : blobs_(blobs), bounds_(bounds), rested_(executor), age_(executor) {}

boost::asio::awaitable<Result<>> KeptUploads::interrupt(UploadName name) {
  const auto self = shared_from_this();
  const auto deadline = base::monotonicNow() + kEndPatience;
  const auto sent = [&] {
    const auto found = entries_.find(name);
    return found != entries_.end() && found->second.sent() ? &found->second : nullptr;
  };
  while (const Entry* entry = sent()) {
    if (base::monotonicNow() >= deadline) {
      co_return conflict(name, "is still being sent; ask again in a moment", "query.upload");
    }
    const auto stop = entry->stop;  // stop() may end the upload at once and remove the entry
    stop();
    if (sent() != nullptr) co_await rested_.wait(deadline);
  }
  co_return Result<>{};
}

Result<> KeptUploads::begin(const UploadName& name, std::shared_ptr<UploadContent> content,
                            std::function<void()> stop) {
  Entry& entry = entries_[name];
  if (entry.sent()) return conflict(name, "is being sent by another request", "query.upload");
  entry = Entry{.content = std::move(content), .path = {}, .artifact_id = {}, .stop = {}};
  entry.path = entry.content->path();
  entry.size = entry.content->size();
  entry.stop = stop ? std::move(stop) : [] {};
  changed(name.tenant);
  return {};
}

Result<std::shared_ptr<UploadContent>> KeptUploads::find(const UploadName& name,
                                                         const std::string& path,
                                                         uint64_t offset) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return fail(
        Code::kNotFound,
        "uploading: nothing is kept of upload " + name.name + "; begin again without offset",
        "query.upload");
  }
  const Entry& entry = found->second;
  if (entry.sent()) return conflict(name, "is being sent by another request", "query.upload");
  if (entry.path != path) return conflict(name, "has another path", "query.path");
  if (entry.size != offset) {
    return conflict(name, "ends at " + std::to_string(entry.size) + "; go on there",
                    "query.offset");
  }
  return entry.content;
}

void KeptUploads::grown(const UploadName& name, uint64_t size) {
  if (const auto found = entries_.find(name); found != entries_.end()) found->second.size = size;
}

void KeptUploads::rest(const UploadName& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  if (found->second.doomed) return drop(name);
  settle(name, found->second);
}

void KeptUploads::end(const UploadName& name, std::string artifact_id) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  if (found->second.doomed) return drop(name);
  found->second.content = nullptr;
  found->second.artifact_id = std::move(artifact_id);
  settle(name, found->second);
}

void KeptUploads::drop(const UploadName& name) {
  entries_.erase(name);
  changed(name.tenant);
  rested_.notify();
}

Result<UploadState> KeptUploads::get(const UploadName& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return stateOf(*found);
  return fail(Code::kNotFound, "there is no upload " + name.name);
}

std::vector<UploadState> KeptUploads::list(const model::Principal& who) const {
  std::vector<UploadState> states;
  for (const auto& row : entries_) {
    const auto& [tenant, agent, name] = row.first;
    if (tenant == who.tenant && who.sees(tenant, agent)) states.push_back(stateOf(row));
  }
  return states;
}

UploadName KeptUploads::meant(const model::Principal& who, const std::string& name) const {
  UploadName own{who.tenant, who.agent, name};
  if (entries_.contains(own)) return own;
  const auto found = std::ranges::find_if(entries_, [&](const Entries::value_type& row) {
    const UploadName& of = row.first;
    return of.name == name && of.tenant == who.tenant && who.sees(of.tenant, of.agent);
  });
  return found == entries_.end() ? own : found->first;
}

void KeptUploads::dropAll(const std::string& tenant) {
  std::erase_if(entries_, [&](const Entries::value_type& row) {
    return row.first.tenant == tenant && !row.second.sent();
  });
  std::vector<std::function<void()>> stops;
  for (auto& [name, entry] : entries_) {
    if (name.tenant != tenant) continue;
    entry.doomed = true;
    stops.push_back(entry.stop);
  }
  for (const auto& stop : stops)
    stop();
  changed(tenant);
}

void KeptUploads::settle(const UploadName& name, Entry& entry) {
  constexpr int64_t kMicrosPerMilli = 1000;
  entry.stop = nullptr;
  entry.until = base::monotonicNow() + bounds_.ttl;
  entry.expires_at = base::wallMicros() + bounds_.ttl.count() * kMicrosPerMilli;
  const UploadName last = name;  // a copy: `name` may go with its entry
  trim(last);
  changed(last.tenant);
  rested_.notify();
}

// The tenant's agent with the most kept; on a tie, the agent of `last`.
std::string KeptUploads::largestOf(const UploadName& last, Measure of) const {
  std::map<std::string, uint64_t> kept = {{last.agent, 0}};
  for (const auto& [name, entry] : entries_) {
    if (name.tenant == last.tenant && !entry.sent()) kept[name.agent] += of(entry);
  }
  std::string largest = last.agent;
  for (const auto& [agent, much] : kept) {
    if (much > kept.at(largest)) largest = agent;
  }
  return largest;
}

// Trims to the tenant's bounds, and then to the bounds for all. The tenant's agent with the most
// kept loses an upload: so no other agent is affected.
void KeptUploads::trim(const UploadName& last) {
  const std::string& tenant = last.tenant;
  const auto count = [&](bool all) {
    return std::ranges::count_if(entries_, [&](const Entries::value_type& row) {
      return !row.second.sent() && (all || row.first.tenant == tenant);
    });
  };
  const auto drop = [&](Measure of) {
    const std::string agent = largestOf(last, of);
    return dropOldest([&](const Entries::value_type& row) {
      return row.first.tenant == tenant && row.first.agent == agent && of(row.second) > 0;
    });
  };
  const Measure bytes = [](const Entry& entry) { return entry.bytes(); };
  const Measure one = [](const Entry&) { return uint64_t{1}; };
  while (keptOf(tenant).bytes > bounds_.bytes_per_tenant && drop(bytes)) {
  }
  while (std::cmp_greater(count(false), bounds_.per_tenant) && drop(one)) {
  }
  while (std::cmp_greater(count(true), bounds_.all) &&
         dropOldest([](const auto&) { return true; })) {
  }
}

bool KeptUploads::dropOldest(const std::function<bool(const Entries::value_type&)>& which) {
  auto oldest = entries_.end();
  for (auto row = entries_.begin(); row != entries_.end(); ++row) {
    if (row->second.sent() || !which(*row)) continue;
    if (oldest == entries_.end() || row->second.until < oldest->second.until) oldest = row;
  }
  if (oldest == entries_.end()) return false;
  const std::string tenant = oldest->first.tenant;
  entries_.erase(oldest);
  changed(tenant);
  return true;
}

model::ArtifactQuota KeptUploads::keptOf(const std::string& tenant) const {
  model::ArtifactQuota kept;
  for (const auto& [name, entry] : entries_) {
    if (name.tenant != tenant || entry.sent() || !entry.content) continue;
    kept.artifacts++;
    kept.bytes += entry.size;
  }
  return kept;
}

void KeptUploads::changed(const std::string& tenant) {
  blobs_.countUnnamed(tenant, keptOf(tenant));
  waitForAge();
}

// Waits for the expiry of the oldest.
void KeptUploads::waitForAge() {
  auto next = base::Monotonic::max();
  for (const auto& [name, entry] : entries_) {
    if (!entry.sent()) next = std::min(next, entry.until);
  }
  if (next == std::exchange(next_age_, next)) return;
  age_.expires_at(next);  // cancels an earlier wait
  if (next == base::Monotonic::max()) return;
  age_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    const auto now = base::monotonicNow();
    // A timer that had already fired when set anew reports no error.
    if (error || !self || self->next_age_ > now) return;
    self->next_age_ = base::Monotonic::max();
    while (self->dropOldest([&](const auto& row) { return row.second.until <= now; })) {
    }
    self->waitForAge();
  });
}

UploadState KeptUploads::stateOf(const Entries::value_type& row) {
  return {.name = row.first.name,
          .path = row.second.path,
          .size = row.second.size,
          .expires_at = row.second.sent() ? 0 : row.second.expires_at,
          .artifact_id = row.second.artifact_id};
}

}  // namespace cloister::orchestrator
