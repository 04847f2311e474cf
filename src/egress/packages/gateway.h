// SPDX-License-Identifier: Apache-2.0
// PackageGateway: answers the requests of package tools in sandboxes for pypi.cloister.internal and
// npm.cloister.internal. It asks the operator's upstreams, removes from each index what the rules
// of the sandbox refuse, and judges each file again when the file is fetched: a lockfile passes no
// rule. docs/PACKAGES.md explains the rules and the answers.
//
//   sandbox ──HTTP──▶ service/gateway_relay ──▶ PackageGateway ──▶ IndexCache ──▶ PackageUpstream
//                                                     │                          or PackageFolder
//                                                     └── PackageJudge, ContentCheck
//
// Everything is bounded: requests to the upstreams at once, of a sandbox and in all; the size and
// time of an index; the memory of the cache, and of small files that are judged before their first
// byte leaves. One thread. The gateway outlives its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "egress/packages/file_body.h"
#include "egress/packages/folder.h"
#include "egress/packages/index_cache.h"
#include "egress/packages/judgement.h"
#include "egress/packages/upstream.h"
#include "model/advisory.h"
#include "model/packages.h"

namespace cloister::egress {

// The upstream of an ecosystem: one of both.
struct PackageOrigin {
  std::unique_ptr<PackageUpstream> upstream;
  std::shared_ptr<PackageFolder> folder;
};

struct GatewayBounds {
  Millis index_kept{60'000};
  size_t cache_bytes = size_t{128} << 20;  // of all kept indexes, about
  size_t at_once = 32;                     // requests for files, and as many for indexes
  size_t of_one = 8;                       // answers of a sandbox; further requests wait
  size_t of_tenant = 16;                   // the same of all sandboxes of a tenant
  Millis turn{30'000};                     // how long a request waits for its turn
  uint64_t held_file = uint64_t{4} << 20;  // a file up to this size is judged before it leaves
  uint64_t held = uint64_t{64} << 20;      // of all such files
  size_t refused_files = 1024;             // whose content is known to be refused
};

struct GatewayAnswer {
  int status = 200;
  std::string reason;  // phrase of the status line, printable ASCII; "": the usual
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string location = {};                   // of a redirect
  std::unique_ptr<FileBody> file = {};         // in place of `body`
  std::optional<PackageRefusal> refusal = {};  // for the record
  // The places of the answer among those of its sandbox and tenant. Whoever sends the answer keeps
  // it until the last byte is sent: slow readers take no other's memory and turns.
  std::vector<std::shared_ptr<void>> places = {};
};

// A sandbox's requests in flight, shared by its connections.
using GatewayUse = std::shared_ptr<size_t>;

class PackageGateway {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  struct Request {
    model::Ecosystem ecosystem = model::Ecosystem::kPypi;
    std::string method;
    std::string path;         // without the query, as spelled
    std::string accept;       // the header
    std::string tenant = {};  // of the sandbox
  };

  PackageGateway(boost::asio::any_io_executor executor,
                 std::map<model::Ecosystem, PackageOrigin> origins, GatewayBounds bounds,
                 std::shared_ptr<model::AdvisoryFolder> advisories = nullptr);

  [[nodiscard]] bool serves(model::Ecosystem ecosystem) const {
    return origins_.contains(ecosystem);
  }
  // The answer under the rules of a sandbox. Every failure is an answer.
  Task<GatewayAnswer> answer(Request request, std::shared_ptr<const model::PlanPackages> packages,
                             GatewayUse use);

 private:
  struct Asked;  // a request on its way
  Task<GatewayAnswer> pypi(Asked& asked);
  Task<GatewayAnswer> npm(Asked& asked);
  Task<GatewayAnswer> pypiIndex(Asked& asked, std::string name);
  Task<GatewayAnswer> pypiFile(Asked& asked, std::string name, std::string filename);
  Task<GatewayAnswer> pypiMetadata(Asked& asked, const PypiFile& file);
  Task<GatewayAnswer> npmIndex(Asked& asked, std::string name, std::string version);
  Task<GatewayAnswer> npmFile(Asked& asked, std::string name, std::string filename);
  Task<Result<std::shared_ptr<const PypiProject>>> pypiProject(Asked& asked, std::string name);
  Task<Result<std::shared_ptr<const NpmPackage>>> npmPackage(Asked& asked, std::string name);
  Task<GatewayAnswer> sendFile(Asked& asked, std::string name, UpstreamUrl url, Expected expected);
  Task<GatewayAnswer> held(Asked& asked, std::unique_ptr<FileBody> body);
  Task<Result<std::shared_ptr<void>>> turn(std::shared_ptr<size_t> counter, size_t most);
  std::shared_ptr<size_t> usedBy(const std::string& tenant);
  [[nodiscard]] const PackageRefusal* knownRefusal(const std::string& key);
  void remember(const std::string& key, const PackageRefusal& refusal);

  boost::asio::any_io_executor executor_;
  std::map<model::Ecosystem, PackageOrigin> origins_;
  GatewayBounds bounds_;
  std::shared_ptr<model::AdvisoryFolder> advisories_;  // null: none
  IndexCache<PypiProject> pypi_;
  IndexCache<NpmPackage> npm_;
  std::shared_ptr<size_t> indexes_;                       // in flight
  std::shared_ptr<size_t> files_;                         // the same
  std::map<std::string, std::weak_ptr<size_t>> tenants_;  // answers in flight
  async::Signal freed_;                                   // a turn
  uint64_t held_bytes_ = 0;
  // Files that were refused by their content, by ecosystem, name, file and the rules' digest.
  struct Known {
    PackageRefusal refusal;
    base::Monotonic until;
  };
  std::map<std::string, Known> refused_;
};

}  // namespace cloister::egress
