// SPDX-License-Identifier: Apache-2.0
// GET /v1/doctor: what `cloister doctor` reports, as far as the service can look.
#include <sys/statvfs.h>

#include <algorithm>
#include <array>

#include "api/rest/rest.h"
#include "api/rest/service_findings.h"
#include "model/offer_json.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kSecond = 1'000'000;  // in microseconds

// What the command finds out beyond the service.
constexpr const char* kOnlyCommand[] = {
    "a real boot of each guest: cloister doctor --boot",
    "a machine without a running service: cloister doctor",
    "a configuration that the service refuses: cloister serve --check",
};

// The result of reading the disk, for which the io thread does not wait.
struct Looked {
  Result<> ledger;
  uint64_t disk_bytes = 0;
  uint64_t disk_free = 0;
};

Looked lookAtDisk(RestParts& parts) {
  Looked found{.ledger = parts.store.health()};
  struct statvfs disk{};
  if (::statvfs(parts.state.c_str(), &disk) == 0) {
    found.disk_bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
    found.disk_free = uint64_t{disk.f_bavail} * disk.f_frsize;
  }
  return found;
}

ServiceFacts factsOf(RestParts& parts, Looked looked) {
  ServiceFacts facts{.now = base::wallMicros(),
                     .node_connected = parts.service.node().runtime != nullptr,
                     .egress_connected = parts.metrics.egressConnected(),
                     .ready = parts.service.ready(),
                     .ledger = std::move(looked.ledger),
                     .audit_losses = parts.audit_losses,
                     .disk_bytes = looked.disk_bytes,
                     .disk_free = looked.disk_free,
                     .pool = poolStats(parts)};
  if (const auto expires = parts.certificate_expires ? parts.certificate_expires() : std::nullopt) {
    facts.certificate_expires = *expires * kSecond;
  }
  return facts;
}

size_t countOf(const std::vector<model::Finding>& findings, model::Finding::State state) {
  return static_cast<size_t>(std::ranges::count(findings, state, &model::Finding::state));
}

json::object countsOf(const std::vector<model::Finding>& findings) {
  return {{"ok", countOf(findings, model::Finding::State::kOk)},
          {"reduced", countOf(findings, model::Finding::State::kReduced)},
          {"missing", countOf(findings, model::Finding::State::kMissing)}};
}

// The summary has nothing about the machine.
Task<Result<Response>> doctor(RestParts& parts, Request& request) {
  const auto looked = co_await async::inBackground<Looked>(parts.background,
                                                           [&parts] { return lookAtDisk(parts); });
  ServiceFacts facts = factsOf(parts, looked);
  if (parts.bucket) facts.bucket = co_await parts.bucket();
  model::NodeOffer offer = parts.service.node().offer;
  if (const auto image = parts.service.image()) offer.findings.push_back(model::findingOf(*image));
  std::ranges::move(serviceFindings(facts), std::back_inserter(offer.findings));
  const bool connected = parts.service.node().runtime != nullptr;
  const bool usable = connected && !offer.runtimes.empty();
  const bool all = request.principal.may(Permission::kPoolRead);
  json::object answer{
      {"detail", all ? "full" : "summary"},
      {"connected", connected},
      {"usable", usable},
      {"complete", usable && countOf(offer.findings, model::Finding::State::kMissing) == 0},
      {"counts", countsOf(offer.findings)},
      {"service_version", parts.version},
      {"only_command", json::array(std::begin(kOnlyCommand), std::end(kOnlyCommand))}};
  if (all) {
    for (auto& [name, value] : model::offerJson(offer))
      answer[name] = std::move(value);
  }
  co_return jsonResponse(200, answer);
}

}  // namespace

std::vector<Route> doctorRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/doctor",
           .access = needs(Permission::kServiceRead),
           .query = {},
           .handle = [&parts](Request& request) { return doctor(parts, request); }}};
}

}  // namespace cloister::api
