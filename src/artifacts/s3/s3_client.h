// SPDX-License-Identifier: Apache-2.0
// S3Client: the few operations of the S3 API that blobs need, over net::BlockingClient, with
// path-style addresses and signed bodies. Source: Amazon S3 API Reference, version 2006-03-01.
//
// Every call blocks, for at most `attempts` times `timeout` and the pauses between; a body may take
// ten times `timeout`. Answers are hostile: bounded in size, and no redirect is followed. Failures
// of the network and answers 408, 429 and 5xx are tried again; every operation may be repeated.
// Errors are kUnavailable, except kNotFound for a missing object; they name the status and the code
// of S3 and never an address, a key of an object, a credential or a signature. Thread-safe: each
// call has a connection of its own, and as many idle connections are kept as there were calls at
// once.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "artifacts/s3/sigv4.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "net/blocking_client.h"

namespace cloister::artifacts {

struct S3Options {
  net::Endpoint endpoint;  // without a key
  std::string bucket;
  std::string region;
  S3Credentials credentials;
  Millis timeout{30'000};  // for the connection, and for each wait on it
  uint32_t attempts = 4;
  Millis pause{100};  // before the second attempt; doubles up to kMostPause
};

// A part of a file, as the body of a request.
struct FilePart {
  int fd = -1;
  uint64_t offset = 0;
  uint64_t size = 0;
};

class S3Client {
 public:
  static constexpr Millis kMostPause{5'000};
  static constexpr size_t kMostListed = 1000;

  explicit S3Client(S3Options options);
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  // Ends calls that wait, and refuses later ones. Any thread.
  void stop();

  Result<> put(const std::string& key, const FilePart& body);
  struct Range {
    uint64_t offset = 0;
    std::string bytes;
    uint64_t total = 0;  // of the whole object
  };
  // `size` bytes from `offset`, which the object has. kUnavailable for another number of bytes.
  Result<Range> get(const std::string& key, uint64_t offset, size_t size);
  // The last bytes, at most `size`.
  Result<Range> tail(const std::string& key, size_t size);
  // A missing object is no error.
  Result<> remove(const std::string& key);

  // An upload in parts: begin() gives its id, put() the tag of each part, complete() makes the
  // object. abort() drops all; an upload that is gone is no error.
  Result<std::string> begin(const std::string& key);
  Result<std::string> put(const std::string& key, const std::string& upload, uint32_t number,
                          const FilePart& body);
  Result<> complete(const std::string& key, const std::string& upload,
                    const std::vector<std::string>& tags);
  Result<> abort(const std::string& key, const std::string& upload);

  // Some keys that begin with `prefix`, at most kMostListed.
  Result<std::vector<std::string>> list(const std::string& prefix);
  struct Upload {
    std::string key;
    std::string id;
    int64_t began_at = 0;  // wall-clock microseconds
  };
  // Uploads under way whose keys begin with `prefix`, at most kMostListed.
  Result<std::vector<Upload>> uploads(const std::string& prefix);

  // Whether the bucket can be listed: once, without further attempts. kInvalid if the server
  // refuses: the setting must be corrected; kUnavailable if it does not answer.
  Result<> check(const std::string& prefix);

 private:
  struct Call {
    std::string_view method;
    std::string key = {};  // "": the bucket
    std::map<std::string, std::string> query = {};
    std::string range = {};
    std::string text = {};              // the body
    std::optional<FilePart> file = {};  // the body, in place of `text`
    std::string doing;
    size_t most = size_t{64} << 10;  // bytes of the answer
  };
  struct Answer {
    net::HttpHead head;
    std::string body;
    bool repeated = false;  // an earlier attempt may have had its effect
  };

  Result<Answer> make(const Call& call);
  Result<Answer> attempt(const Call& call);
  Result<Answer> exchange(net::BlockingClient& client, const Call& call);
  Result<net::HttpRequest> requestOf(const Call& call) const;
  [[nodiscard]] std::string pathOf(const std::string& key) const;
  Result<Range> rangeOf(const Call& call, const Answer& answer) const;
  net::BlockingClient take();
  void give(net::BlockingClient client);
  bool waitBefore(uint32_t attempt);
  [[nodiscard]] std::unexpected<Error> refused(const Call& call, const Answer& answer) const;

  S3Options options_;
  Fd stopped_;  // an eventfd
  std::mutex mutex_;
  std::vector<net::BlockingClient> idle_;  // guarded by mutex_
};

}  // namespace cloister::artifacts
