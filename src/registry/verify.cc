// SPDX-License-Identifier: Apache-2.0
#include "registry/verify.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/glob.h"
#include "model/advisory.h"
#include "registry/public_key.h"
#include "registry/sbom.h"
#include "registry/sbom_search.h"
#include "registry/signatures.h"

namespace cloister::registry {
namespace {

constexpr size_t kMostNamed = 10;  // faults in a message

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts)
    out += (out.empty() ? "" : "; ") + text;
  return out;
}

std::optional<model::AdvisoryEcosystem> ecosystemOf(const SbomPackage& package) {
  using model::AdvisoryEcosystem;
  if (package.type == "pypi") return AdvisoryEcosystem::kPypi;
  if (package.type == "npm") return AdvisoryEcosystem::kNpm;
  if (package.type == "deb" && (package.space.empty() || package.space == "debian")) {
    return AdvisoryEcosystem::kDebian;
  }
  return std::nullopt;
}

// Advisories of Debian are of source packages. A version of the source is given if it differs.
struct Source {
  std::string name;
  std::string version;
  std::string release;
};
Source sourceOf(const SbomPackage& package) {
  Source out{package.fullName(), package.version, {}};
  if (package.type != "deb") return out;
  out.name = package.name;
  constexpr std::string_view kDebian = "debian-";
  if (package.distro.starts_with(kDebian)) {
    const std::string release = package.distro.substr(kDebian.size());
    out.release = release.substr(0, release.find('.'));  // "12" of "debian-12.4"
  }
  if (package.upstream.empty()) return out;
  const size_t at = std::min(package.upstream.find('@'), package.upstream.size());
  out.name = package.upstream.substr(0, at);
  if (at < package.upstream.size()) out.version = package.upstream.substr(at + 1);
  return out;
}

class Verification {
 public:
  Verification(Sources& sources, const Reference& reference, const std::string& manifest,
               const model::ImageSettings& settings, Pulled& out)
      : sources_(sources),
        reference_(reference),
        manifest_(manifest),
        settings_(settings),
        out_(out) {}

  Result<> run() {
    keys_ = TRY(loadKeys(settings_.keys));
    const std::string name = reference_.registry + "/" + reference_.repository;
    const bool exempt =
        std::ranges::any_of(settings_.unsigned_images,
                            [&](const std::string& glob) { return base::globMatches(glob, name); });
    TRY(checkSignature(exempt));
    const bool wanted =
        settings_.require_sbom || !settings_.deny.empty() || !settings_.advisories.empty();
    return wanted ? checkSbom(exempt) : Result<>();
  }

 private:
  Result<> checkSignature(bool exempt) {
    if (keys_.empty()) return {};
    const SignatureSearch found = TRY(findSignature(sources_, reference_.digest, keys_));
    out_.verified.key = found.key;
    if (!found.key.empty()) return {};
    const std::string why = found.reasons.empty() ? "it is not signed" : joined(found.reasons);
    if (settings_.require_signature && !exempt) {
      return fail(Code::kDenied, "images.require_signature refuses the image: " + why,
                  "images.require_signature");
    }
    out_.notes.push_back("no signature of the image counts: " + why);
    return {};
  }

  Result<> checkSbom(bool exempt) {
    constexpr uint32_t kMiBShift = 20;
    const std::vector<PublicKey> none;
    const std::set<std::string> images = {manifest_, reference_.digest};
    const SbomSearch found = TRY(
        findSbom(sources_, images, exempt ? none : keys_, size_t{settings_.sbom_mb} << kMiBShift));
    if (found.digest.empty()) {
      const char* setting = settings_.require_sbom   ? "images.require_sbom"
                            : settings_.deny.empty() ? "images.advisories"
                                                     : "images.deny";
      return fail(
          Code::kDenied,
          std::string(setting) + " refuses the image: " +
              (found.reasons.empty() ? "it has no bill of materials" : joined(found.reasons)),
          setting);
    }
    out_.verified.sbom = found.digest;
    TRY(checkDenied(found.packages));
    return checkAdvisories(found.packages);
  }

  [[nodiscard]] Result<> checkDenied(const std::vector<SbomPackage>& packages) const {
    std::vector<std::string> faults;
    for (const SbomPackage& package : packages) {
      for (const std::string& item : settings_.deny) {
        if (faults.size() == kMostNamed || !denies(item, package)) continue;
        faults.push_back(package.text() + " (" + item + ")");
        break;
      }
    }
    if (faults.empty()) return {};
    return fail(Code::kDenied, "images.deny refuses the image: it has " + joined(faults),
                "images.deny");
  }

  Result<> checkAdvisories(const std::vector<SbomPackage>& packages) {
    if (settings_.advisories.empty()) return {};
    model::AdvisoryFolder folder(settings_.advisories, Millis(0), "images.advisories");
    const auto advisories = TRY(folder.now());
    const auto least = model::severityFromWord(settings_.severity);
    std::set<std::string> faults;
    size_t others = 0;
    for (const SbomPackage& package : packages) {
      const auto ecosystem = ecosystemOf(package);
      if (!ecosystem) {
        ++others;
        continue;
      }
      const Source source = sourceOf(package);
      for (const model::AdvisoryHit& hit : advisories->findAll({.ecosystem = *ecosystem,
                                                                .name = source.name,
                                                                .version = source.version,
                                                                .release = source.release})) {
        if (accepted(hit) || (hit.severity && least && *hit.severity < *least)) continue;
        faults.insert(
            package.text() + ": " + hit.id + " (" +
            std::string(hit.severity ? model::severityName(*hit.severity) : "of unknown severity") +
            (hit.fixed.empty() ? ")" : ", fixed in " + hit.fixed + ")"));
      }
    }
    if (others > 0) {
      out_.notes.push_back(std::to_string(others) +
                           " packages are of kinds that images.advisories is not compared with: "
                           "only Debian's, PyPI's and npm's are");
    }
    if (faults.empty()) return {};
    std::vector<std::string> shown(faults.begin(), faults.end());
    const size_t left_out = shown.size() - std::min(shown.size(), kMostNamed);
    shown.resize(std::min(shown.size(), kMostNamed));
    if (left_out > 0) shown.push_back("and " + std::to_string(left_out) + " more");
    return fail(Code::kDenied,
                "images.advisories refuses the image: " + joined(shown) +
                    "; pull a newer image, or list an advisory in images.accepted_advisories",
                "images.advisories");
  }

  [[nodiscard]] bool accepted(const model::AdvisoryHit& hit) const {
    const auto& ids = settings_.accepted_advisories;
    const auto listed = [&](const std::string& id) {
      return std::ranges::find(ids, id) != ids.end();
    };
    return listed(hit.id) || std::ranges::any_of(hit.aliases, listed);
  }

  Sources& sources_;
  const Reference& reference_;
  const std::string& manifest_;
  const model::ImageSettings& settings_;
  Pulled& out_;
  std::vector<PublicKey> keys_;
};

}  // namespace

Result<> verify(Sources& sources, const Reference& reference, const std::string& manifest,
                const model::ImageSettings& settings, Pulled& out) {
  return Verification(sources, reference, manifest, settings, out).run();
}

}  // namespace cloister::registry
