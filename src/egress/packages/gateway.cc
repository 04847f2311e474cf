// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/gateway.h"

#include <utility>

#include "base/crypto.h"
#include "base/json.h"
#include "egress/packages/gateway_parts.h"

namespace cloister::egress {
namespace {

constexpr Millis kRemembered{600'000};

// A place among `counter`, which is free again with the last copy.
std::shared_ptr<void> placeIn(std::shared_ptr<size_t> counter, async::Signal& freed) {
  ++*counter;
  return {nullptr, [counter = std::move(counter), &freed](void* /*nothing*/) {
            --*counter;
            freed.notify();
          }};
}

}  // namespace

PackageGateway::PackageGateway(boost::asio::any_io_executor executor,
                               std::map<model::Ecosystem, PackageOrigin> origins,
                               GatewayBounds bounds,
                               std::shared_ptr<model::AdvisoryFolder> advisories)
    : executor_(executor),
      origins_(std::move(origins)),
      bounds_(bounds),
      advisories_(std::move(advisories)),
      pypi_(executor, bounds.index_kept, bounds.cache_bytes / 2),
      npm_(executor, bounds.index_kept, bounds.cache_bytes / 2),
      indexes_(std::make_shared<size_t>(0)),
      files_(std::make_shared<size_t>(0)),
      freed_(executor) {}

PackageGateway::Task<GatewayAnswer> PackageGateway::answer(
    Request request, std::shared_ptr<const model::PlanPackages> packages, GatewayUse use) {
  const model::Ecosystem ecosystem = request.ecosystem;
  if (!serves(ecosystem)) {
    co_return sentence(ecosystem, 404,
                       "This service has no index of packages for " +
                           std::string(model::ecosystemName(ecosystem)) + ".");
  }
  if (request.method != "GET" && request.method != "HEAD") {
    co_return sentence(ecosystem, 405, "The package gateway only reads: GET and HEAD.");
  }
  auto segments = segmentsOf(request.path);
  if (!segments) co_return failedBy(ecosystem, segments.error());
  auto place = co_await turn(use, bounds_.of_one);
  if (!place) co_return failedBy(ecosystem, place.error());
  auto of_tenant = co_await turn(usedBy(request.tenant), bounds_.of_tenant);
  if (!of_tenant) co_return failedBy(ecosystem, of_tenant.error());
  Asked asked{.request = std::move(request),
              .packages = std::move(packages),
              .use = use,
              .segments = *std::move(segments),
              .now = base::wallMicros()};
  if (advisories_) asked.advisories = advisories_->now();
  GatewayAnswer answer =
      ecosystem == model::Ecosystem::kPypi ? co_await pypi(asked) : co_await npm(asked);
  answer.places = {*std::move(place), *std::move(of_tenant)};
  co_return answer;
}

std::shared_ptr<size_t> PackageGateway::usedBy(const std::string& tenant) {
  std::erase_if(tenants_, [](const auto& each) { return each.second.expired(); });
  auto use = tenants_[tenant].lock();
  if (!use) tenants_[tenant] = use = std::make_shared<size_t>(0);
  return use;
}

// Waits for a place among `counter`, for a bounded time.
PackageGateway::Task<Result<std::shared_ptr<void>>> PackageGateway::turn(
    std::shared_ptr<size_t> counter, size_t most) {
  const base::Monotonic deadline = base::monotonicNow() + bounds_.turn;
  while (*counter >= most) {
    if (base::monotonicNow() >= deadline) {
      co_return fail(Code::kQuota, "Too many packages are fetched at once; try again later.");
    }
    co_await freed_.wait(deadline);
  }
  co_return placeIn(std::move(counter), freed_);
}

const PackageRefusal* PackageGateway::knownRefusal(const std::string& key) {
  const auto found = refused_.find(key);
  if (found == refused_.end() || base::monotonicNow() >= found->second.until) return nullptr;
  return &found->second.refusal;
}

// A tool that retries a file whose bytes were refused on their way sees the rule.
void PackageGateway::remember(const std::string& key, const PackageRefusal& refusal) {
  if (refused_.size() >= bounds_.refused_files) {
    std::erase_if(refused_, [now = base::monotonicNow()](const auto& each) {
      return now >= each.second.until;
    });
  }
  if (refused_.size() >= bounds_.refused_files) refused_.clear();
  refused_[key] = {refusal, base::monotonicNow() + kRemembered};
}

PackageGateway::Task<GatewayAnswer> PackageGateway::sendFile(Asked& asked, std::string name,
                                                             UpstreamUrl url, Expected expected) {
  const model::Ecosystem ecosystem = asked.request.ecosystem;
  const std::string key = std::string(model::ecosystemName(ecosystem)) + "/" + name + "/" +
                          expected.file + "/" +
                          base::sha256Hex(base::toJson(model::toJsonObject(*asked.packages)));
  if (const PackageRefusal* known = knownRefusal(key)) co_return refusedBy(ecosystem, *known);
  auto judge = std::make_unique<PackageJudge>(asked.judge(name));
  auto place = co_await turn(files_, bounds_.at_once);
  if (!place) co_return failedBy(ecosystem, place.error());
  PackageOrigin& origin = origins_.at(ecosystem);
  std::optional<FileBody::Source> source;
  if (origin.folder) {
    auto file = origin.folder->file(url.target.substr(1));
    if (!file) co_return failedBy(ecosystem, file.error());
    source.emplace(*std::move(file));
  } else {
    auto body = co_await origin.upstream->file(url);
    if (!body) co_return failedBy(ecosystem, body.error());
    source.emplace(FileBody::Remote{origin.upstream.get(), *std::move(body)});
  }
  const std::string file = expected.file;
  const uint64_t most = judge->maxBytes();
  const PackageRefusal too_large = judge->tooLarge(file);
  auto body = std::make_unique<FileBody>(
      *std::move(source), asked.packages, std::move(judge), std::move(expected), *std::move(place),
      [this, key](const PackageRefusal& refusal) { remember(key, refusal); });
  if (body->length().value_or(0) > most) co_return refusedBy(ecosystem, too_large);
  co_return co_await held(asked, std::move(body));
}

// A small file is judged before its first byte leaves, so that its refusal is an answer.
PackageGateway::Task<GatewayAnswer> PackageGateway::held(Asked& asked,
                                                         std::unique_ptr<FileBody> body) {
  GatewayAnswer answer;
  answer.type = "application/octet-stream";
  const uint64_t length = body->length().value_or(UINT64_MAX);
  const bool small = length <= bounds_.held_file && held_bytes_ + length <= bounds_.held;
  if (!small || asked.request.method == "HEAD") {
    answer.file = std::move(body);
    co_return answer;
  }
  struct Holding {
    uint64_t& all;
    uint64_t own;
    Holding(uint64_t& held, uint64_t bytes) : all(held), own(bytes) { all += own; }
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
    ~Holding() { all -= own; }
  } const holding(held_bytes_, length);
  while (true) {
    const auto piece = co_await body->next();
    if (body->refusal()) co_return refusedBy(asked.request.ecosystem, *body->refusal());
    if (!piece) co_return failedBy(asked.request.ecosystem, piece.error());
    if (piece->empty()) co_return answer;
    answer.body += *piece;
  }
}

}  // namespace cloister::egress
