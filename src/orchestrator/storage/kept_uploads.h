// SPDX-License-Identifier: Apache-2.0
// KeptUploads: uploads that their clients have named, so that one which breaks off can be gone on
// with. Each is being sent, or kept for a while, or has ended, which is remembered for a client
// that did not hear of it. Bounded for each tenant and in all: what has waited longest gives way.
// Within a tenant that is of the agent which keeps the most. They are in memory; a restart forgets
// them, and BlobKeeper::open() what they had written. One executor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/principal.h"
#include "orchestrator/storage/blob_keeper.h"
#include "orchestrator/storage/upload_content.h"

namespace cloister::orchestrator {

// Of those that nobody sends now.
struct KeptBounds {
  uint32_t all = 128;
  uint32_t per_tenant = 16;  // 0: none is kept
  uint64_t bytes_per_tenant = uint64_t{4} << 30;
  Millis ttl{86'400'000};
};

struct UploadName {
  std::string tenant;
  std::string agent;  // each has names of its own
  std::string name;

  friend auto operator<=>(const UploadName&, const UploadName&) = default;
};

// One of them, for whoever asks.
struct UploadState {
  std::string name;
  std::string path;
  uint64_t size = 0;        // bytes that are there
  int64_t expires_at = 0;   // wall-clock microseconds; 0 while it is being sent
  std::string artifact_id;  // of one that has ended
};

class KeptUploads : public std::enable_shared_from_this<KeptUploads> {
 public:
  KeptUploads(boost::asio::any_io_executor executor, BlobKeeper& blobs, KeptBounds bounds);

  // Ends the request that sends it now, if there is one: a client that comes back is here before
  // the end of its earlier connection is. kConflict where that takes long.
  boost::asio::awaitable<Result<>> interrupt(UploadName name);

  // It is being sent from here on, by a request that `stop` ends, in the place of what had that
  // name. kConflict while another sends it.
  Result<> begin(const UploadName& name, std::shared_ptr<UploadContent> content,
                 std::function<void()> stop);
  // What is kept of it, if it is of `path` and ends at `offset`: kConflict otherwise, kNotFound
  // where nothing is. Null for one that has ended; its artifact is in get().
  Result<std::shared_ptr<UploadContent>> find(const UploadName& name, const std::string& path,
                                              uint64_t offset) const;
  // So much is there.
  void grown(const UploadName& name, uint64_t size);
  // Nobody sends it any more, and: it is kept; it has become an artifact; it is of no use.
  void rest(const UploadName& name);
  void end(const UploadName& name, std::string artifact_id);
  void drop(const UploadName& name);

  // kNotFound for what is not there.
  [[nodiscard]] Result<UploadState> get(const UploadName& name) const;
  // Those that `who` sees.
  [[nodiscard]] std::vector<UploadState> list(const model::Principal& who) const;
  // The one that `who` means by `name`: its own, or else the first of that name that it sees. Its
  // own name where there is none.
  [[nodiscard]] UploadName meant(const model::Principal& who, const std::string& name) const;
  // All of a tenant, those being sent too.
  void dropAll(const std::string& tenant);

 private:
  struct Entry {
    std::shared_ptr<UploadContent> content;  // null once it has ended
    std::string path;
    uint64_t size = 0;
    std::string artifact_id;
    std::function<void()> stop;  // set while it is being sent
    bool doomed = false;         // not to be kept
    base::Monotonic until{};     // it goes then
    int64_t expires_at = 0;

    [[nodiscard]] bool sent() const { return stop != nullptr; }
    [[nodiscard]] uint64_t bytes() const { return content ? size : 0; }
  };
  using Entries = std::map<UploadName, Entry>;

  void settle(const UploadName& name, Entry& entry);
  using Measure = uint64_t (*)(const Entry&);
  [[nodiscard]] std::string largestOf(const UploadName& last, Measure of) const;
  void trim(const UploadName& last);
  bool dropOldest(const std::function<bool(const Entries::value_type&)>& which);
  [[nodiscard]] model::ArtifactQuota keptOf(const std::string& tenant) const;
  void changed(const std::string& tenant);
  void waitForAge();
  [[nodiscard]] static UploadState stateOf(const Entries::value_type& row);

  BlobKeeper& blobs_;
  KeptBounds bounds_;
  Entries entries_;
  async::Signal rested_;
  boost::asio::steady_timer age_;
  base::Monotonic next_age_ = base::Monotonic::max();  // that it waits for
};

}  // namespace cloister::orchestrator
