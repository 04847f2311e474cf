// SPDX-License-Identifier: Apache-2.0
// Pages of package indexes, and packed packages: every byte is of a foreign server. The first byte
// chooses the reader.
#include "egress/packages/npm_packument.h"
#include "egress/packages/pypi_index.h"
#include "egress/packages/tarball_scan.h"

#include "require.h"

namespace {

using namespace cloister;
using namespace cloister::egress;

const UpstreamUrl kBase = {
    .tls = true, .host = "index.test", .port = 443, .target = "/simple/demo/"};
const model::PlanPackages kRules = {
    .ecosystems = {model::Ecosystem::kPypi, model::Ecosystem::kNpm},
    .rules = {.undated_allowed = true, .allow = {}, .deny = {"demo>=2"}, .pins = {}},
    .cutoff = ""};
constexpr int64_t kNow = int64_t{1} << 50;

bool isOneLine(std::string_view text) {
  return text.find_first_of("\r\n") == std::string_view::npos;
}

// A page for a sandbox names allowed files alone, and is read again as the same files.
void checkProject(const PypiProject& project) {
  const PackageJudge judge(kRules, model::Ecosystem::kPypi, "demo", kNow);
  const PypiOffer offer = offerOf(project, judge);
  for (const PypiFile* file : offer.allowed) {
    REQUIRE(readPypiFileName(file->filename, "demo"));
    REQUIRE(!model::meets(*model::PypiVersion::parse(file->version), {">=", "2"}));
    REQUIRE(parseUpstreamUrl(file->url.text()));
  }
  for (const auto& refused : offer.refused)
    REQUIRE(isOneLine(refused.text) && model::PypiVersion::parse(refused.version));
  const auto again = readPypiHtml(pypiHtml("demo", offer), "demo", kBase);
  REQUIRE(again && again->files.size() == offer.allowed.size() + offer.refused.size());
  const auto json = base::parseJson(pypiJson("demo", offer));
  REQUIRE(!json || readPypiJson(*json, "demo", kBase)->files.size() == again->files.size());
}

void checkPackage(const NpmPackage& package) {
  const PackageJudge judge(kRules, model::Ecosystem::kNpm, "demo", kNow);
  const NpmOffer offer = offerOf(package, judge);
  for (const NpmRelease* release : offer.allowed) {
    REQUIRE(!model::meets(*model::NpmVersion::parse(release->version), {">=", "2"}));
    REQUIRE(versionOfTarball("demo", tarballName("demo", release->version)) == release->version);
  }
  for (const auto& [tag, version] : offer.tags)
    REQUIRE(offer.allowed.empty() || offer.find(version) != nullptr);
  REQUIRE(!packument(package, offer, true).empty());
}

void scan(std::string_view bytes) {
  TarballScan whole;
  Result<> good = whole.feed(bytes);
  if (good) good = whole.end();
  TarballScan pieces;
  Result<> same;
  for (size_t at = 0; at < bytes.size() && same; at += 3)
    same = pieces.feed(bytes.substr(at, 3));
  if (same) same = pieces.end();
  REQUIRE(!same || good);  // in pieces a bomb is noticed earlier
  REQUIRE(!same || whole.scripts() == pieces.scripts());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      if (const auto project = readPypiHtml(bytes, "demo", kBase)) checkProject(*project);
      break;
    case 1:
      if (const auto json = base::parseJson(bytes)) {
        if (const auto project = readPypiJson(*json, "demo", kBase)) checkProject(*project);
      }
      break;
    case 2:
      if (const auto json = base::parseJson(bytes)) {
        if (const auto package = readPackument(*json, "demo", kBase)) checkPackage(*package);
      }
      break;
    default:
      scan(bytes);
  }
  return 0;
}
