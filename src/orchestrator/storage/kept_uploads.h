// SPDX-License-Identifier: Apache-2.0
// KeptUploads: named uploads, which clients can resume after a break. Each upload is being sent, or
// kept for a while, or has ended; the end is remembered for clients that missed the answer. Bounded
// for each tenant and in all: the longest waiting upload gives way; within a tenant, an upload of
// the agent with the most kept. The uploads are in memory; a restart forgets them, and
// BlobKeeper::open() removes their bytes. One executor.
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

// Bounds of uploads that no request sends now.
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

// The state of an upload, for queries.
struct UploadState {
  std::string name;
  std::string path;
  uint64_t size = 0;        // received bytes
  int64_t expires_at = 0;   // wall-clock microseconds; 0 during sending
  std::string artifact_id;  // of an ended upload
};

class KeptUploads : public std::enable_shared_from_this<KeptUploads> {
 public:
  KeptUploads(boost::asio::any_io_executor executor, BlobKeeper& blobs, KeptBounds bounds);

  // Ends the request that sends the upload now, if any: a client may come back before the server
  // notices the end of its earlier connection. kConflict if the end takes long.
  boost::asio::awaitable<Result<>> interrupt(UploadName name);

  // The request behind `stop` sends the upload from now on, and replaces an earlier upload with the
  // same name. kConflict while another request sends the upload.
  Result<> begin(const UploadName& name, std::shared_ptr<UploadContent> content,
                 std::function<void()> stop);
  // The kept content, if the upload is for `path` and ends at `offset`: kConflict otherwise,
  // kNotFound if nothing is kept. Null for an ended upload; get() has its artifact.
  Result<std::shared_ptr<UploadContent>> find(const UploadName& name, const std::string& path,
                                              uint64_t offset) const;
  // So much is there.
  void grown(const UploadName& name, uint64_t size);
  // No request sends the upload any more: the upload is kept; became an artifact; or is of no use.
  void rest(const UploadName& name);
  void end(const UploadName& name, std::string artifact_id);
  void drop(const UploadName& name);

  // kNotFound for an unknown upload.
  [[nodiscard]] Result<UploadState> get(const UploadName& name) const;
  // The uploads visible to `who`.
  [[nodiscard]] std::vector<UploadState> list(const model::Principal& who) const;
  // The upload that `who` means by `name`: its own, or else the first visible upload with the name.
  // Its own name if there is no such upload.
  [[nodiscard]] UploadName meant(const model::Principal& who, const std::string& name) const;
  // Drops all uploads of a tenant, including those being sent.
  void dropAll(const std::string& tenant);

 private:
  struct Entry {
    std::shared_ptr<UploadContent> content;  // null after the end
    std::string path;
    uint64_t size = 0;
    std::string artifact_id;
    std::function<void()> stop;  // set while a request sends
    bool doomed = false;         // not to be kept
    base::Monotonic until{};     // expiry
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
  base::Monotonic next_age_ = base::Monotonic::max();  // the time of the pending wait
};

}  // namespace cloister::orchestrator
