// SPDX-License-Identifier: Apache-2.0
// The registry of npm: /NAME, /NAME/VERSION, /NAME/-/FILE.tgz. A scoped name is /@scope%2fname or
// /@scope/name.
#include <algorithm>
#include <utility>

#include "egress/packages/gateway_parts.h"
#include "net/url.h"

namespace cloister::egress {
namespace {

constexpr auto kNpm = model::Ecosystem::kNpm;
constexpr std::string_view kShortType = "application/vnd.npm.install-v1+json";

// Takes the name of the package from the front of the segments; "" if there is none.
std::string takeName(std::vector<std::string>& segments) {
  if (segments.empty()) return {};
  std::string name = std::move(segments.front());
  segments.erase(segments.begin());
  if (name.starts_with('@') && name.find('/') == std::string::npos && !segments.empty()) {
    name += "/" + segments.front();
    segments.erase(segments.begin());
  }
  return model::isPackageName(kNpm, name) ? name : "";
}

const NpmOffer::Refused* refusedOf(const NpmOffer& offer, std::string_view version) {
  const auto found = std::ranges::find_if(
      offer.refused, [&](const auto& each) { return each.release->version == version; });
  return found == offer.refused.end() ? nullptr : &*found;
}

// The refusal that is told where no release remains: that of the release that npm would take.
const PackageRefusal& mainRefusal(const NpmPackage& package, const NpmOffer& offer) {
  const auto latest = package.tags.find("latest");
  const auto* refused = latest == package.tags.end() ? nullptr : refusedOf(offer, latest->second);
  return refused == nullptr ? offer.refused.back().refusal : refused->refusal;
}

GatewayAnswer json(std::string text, std::string_view type = "application/json") {
  GatewayAnswer answer;
  answer.type = type;
  answer.body = std::move(text);
  return answer;
}

}  // namespace

PackageGateway::Task<GatewayAnswer> PackageGateway::npm(Asked& asked) {
  std::vector<std::string> segments = asked.segments;
  if (segments.size() == 2 && segments[0] == "-" && segments[1] == "ping") co_return json("{}");
  const std::string name = takeName(segments);
  if (segments.size() == 1 && segments[0].empty()) segments.clear();
  if (!name.empty() && segments.size() <= 1) {
    co_return co_await npmIndex(asked, name, segments.empty() ? "" : segments[0]);
  }
  if (!name.empty() && segments.size() == 2 && segments[0] == "-") {
    co_return co_await npmFile(asked, name, segments[1]);
  }
  co_return sentence(kNpm, 404, "The package gateway has /NAME, /NAME/VERSION and tarballs alone.");
}

PackageGateway::Task<Result<std::shared_ptr<const NpmPackage>>> PackageGateway::npmPackage(
    Asked& /*asked*/, std::string name) {
  co_return co_await npm_.get(name, [this, name]() -> Task<Result<NpmPackage>> {
    const auto place = CO_TRY(co_await turn(indexes_, bounds_.at_once));
    const PackageOrigin& origin = origins_.at(kNpm);
    if (origin.folder) co_return origin.folder->npm(name);
    // The abbreviated document has no dates. "@" stays, as npm itself asks.
    std::string path = net::percentEncode(name);
    if (path.starts_with("%40")) path.replace(0, 3, "@");
    const auto document =
        CO_TRY(co_await origin.upstream->document("/" + path, "application/json"));
    const auto* json = std::get_if<base::json::value>(&document.content);
    if (json == nullptr) co_return fail(Code::kUnavailable, "the registry does not answer in JSON");
    co_return readPackument(*json, name, document.url);
  });
}

PackageGateway::Task<GatewayAnswer> PackageGateway::npmIndex(Asked& asked, std::string name,
                                                             std::string version) {
  const PackageJudge judge = asked.judge(name);
  if (const auto refusal = judge.name()) co_return refusedBy(kNpm, *refusal);
  const auto package = co_await npmPackage(asked, name);
  if (!package) co_return failedBy(kNpm, package.error());
  const NpmOffer offer = offerOf(**package, judge);
  if (offer.allowed.empty() && !offer.refused.empty()) {
    co_return refusedBy(kNpm, mainRefusal(**package, offer));
  }
  if (version.empty()) {
    const bool whole = asked.request.accept.find(kShortType) == std::string::npos;
    co_return json(packument(**package, offer, whole), whole ? "application/json" : kShortType);
  }
  const auto tag = offer.tags.find(version);
  const std::string& wanted = tag == offer.tags.end() ? version : tag->second;
  if (const auto* refused = refusedOf(offer, wanted)) co_return refusedBy(kNpm, refused->refusal);
  const NpmRelease* release = offer.find(wanted);
  if (release == nullptr) co_return sentence(kNpm, 404, "The registry does not have the version.");
  co_return json(manifestOf(**package, *release));
}

PackageGateway::Task<GatewayAnswer> PackageGateway::npmFile(Asked& asked, std::string name,
                                                            std::string filename) {
  const PackageJudge judge = asked.judge(name);
  if (const auto refusal = judge.name()) co_return refusedBy(kNpm, *refusal);
  const auto package = co_await npmPackage(asked, name);
  if (!package) co_return failedBy(kNpm, package.error());
  const std::string version = versionOfTarball(name, filename);
  const NpmRelease* release = version.empty() ? nullptr : (*package)->find(version);
  if (release == nullptr) co_return sentence(kNpm, 404, "The registry does not have the tarball.");
  if (const auto refusal = judge.judge(release->candidate())) co_return refusedBy(kNpm, *refusal);
  co_return co_await sendFile(asked, name, release->tarball,
                              {.file = tarballName(name, version),
                               .version = version,
                               .integrity = release->integrity,
                               .shasum = release->shasum,
                               .scan = !judge.scriptsAllowed()});
}

}  // namespace cloister::egress
