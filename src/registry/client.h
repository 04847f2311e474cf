// SPDX-License-Identifier: Apache-2.0
// Client: HTTP of one registry or mirror (OCI distribution specification 1.1, with the tokens of
// Docker's). Each request is retried a bounded number of times, and all end at one deadline. A
// redirect is followed at most three times, without credentials. The credentials go to the registry
// and to its token service alone. One thread; blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "net/blocking_client.h"
#include "net/url.h"
#include "registry/credentials.h"

namespace cloister::registry {

struct ClientOptions {
  net::Url base;        // scheme, host and port; its path is a prefix of repositories
  std::string name;     // of the registry in messages, and in the credentials
  std::string ca_file;  // PEM of accepted authorities; "": the system's
  std::optional<Login> login;
  base::Monotonic deadline;  // of everything
  Millis stall{60'000};      // without a byte
  uint32_t attempts = 5;     // of each request
};

// A body as received; of a manifest the type too.
struct Document {
  std::string bytes;
  std::string type;  // Content-Type without parameters
};

// Takes the bytes of a blob, in order. restart(): they begin again.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Result<> write(std::string_view bytes) = 0;
  virtual Result<> restart() = 0;
};

class Client {
 public:
  explicit Client(ClientOptions options);

  // GET of /v2/REPOSITORY/REST, of at most `most` bytes. kNotFound, kDenied, kTooLarge;
  // kUnavailable after the last attempt.
  Result<Document> document(const std::string& repository, const std::string& rest,
                            std::string_view accept, size_t most);
  // The blob `digest` of exactly `size` bytes, resumed where an answer broke off. kInvalid: other
  // content.
  Result<> blob(const std::string& repository, const std::string& digest, uint64_t size,
                Sink& sink);

  [[nodiscard]] const std::string& name() const { return options_.name; }

 private:
  struct Answer {
    net::BlockingClient* at;
    net::HttpHead head;
  };
  struct Progress {
    uint64_t got = 0;
    base::Sha256 hash;
  };

  template <class T>
  Result<T> retried(const auto& attempt);
  Result<Document> documentOnce(const std::string& target, std::string_view accept, size_t most);
  Result<> blobOnce(const std::string& target, uint64_t size, Progress& progress, Sink& sink);
  Result<Answer> get(const std::string& target, std::string_view accept, uint64_t from);
  Result<Answer> follow(const std::string& target, net::HttpHead head, net::HttpRequest request);
  Result<> authenticate(const std::string& header);
  Result<std::string> fetchToken(const std::string& realm, const std::string& service,
                                 const std::string& scope);
  [[nodiscard]] Result<> checkStatus(const net::HttpHead& head) const;
  Result<net::BlockingClient::Piece> read(Answer& answer, std::string& piece);
  [[nodiscard]] Result<Millis> patience() const;
  [[nodiscard]] std::string target(const std::string& repository, const std::string& rest) const;
  [[nodiscard]] net::BlockingClient connectionTo(net::Url url) const;
  [[nodiscard]] std::unexpected<Error> error(Code code, const std::string& what) const;

  ClientOptions options_;
  net::BlockingClient registry_;
  std::optional<net::BlockingClient> storage_;  // of the last redirect
  std::string authorization_;                   // the value of the header
};

}  // namespace cloister::registry
