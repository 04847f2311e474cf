// SPDX-License-Identifier: Apache-2.0
#include "registry/sbom.h"

#include <algorithm>
#include <utility>

#include "base/glob.h"
#include "model/shown_text.h"

namespace cloister::registry {
namespace {

namespace json = base::json;

constexpr size_t kMostText = 4096;
constexpr size_t kMostShown = 200;
constexpr int kMostDepth = 16;

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Code::kInvalid, what);
}

// "" if absent, or no text.
std::string textOf(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || !found->is_string()) return {};
  const json::string& text = found->get_string();
  return std::string(text.data(), std::min(text.size(), kMostText));
}

// nullptr if absent; an error for a member that is no list.
Result<const json::array*> listOf(const json::object& object, const std::string& name) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || found->is_null()) return nullptr;
  if (found->is_array()) return &found->get_array();
  return invalid(name + ": must be a list");
}

int hexOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? hexOf(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hexOf(text[i + 2]) : -1;
    if (high < 0 || low < 0) return invalid("a package URL has a malformed escape");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  return out;
}

class Reader {
 public:
  Result<std::vector<SbomPackage>> read(const json::value& bill) {
    if (!bill.is_object()) return invalid("must be an object");
    const json::object& object = bill.get_object();
    if (textOf(object, "bomFormat") == "CycloneDX") {
      TRY(components(object, 0));
    } else if (textOf(object, "spdxVersion").starts_with("SPDX-2.")) {
      TRY(spdxPackages(object));
    } else {
      return invalid("is neither CycloneDX nor SPDX 2 in JSON");
    }
    if (out_.empty()) return invalid("names no package");
    return std::move(out_);
  }

 private:
  Result<> add(std::string purl, std::string name, std::string version) {
    if (out_.size() == kMostPackages) {
      return fail(Code::kTooLarge,
                  "names more than " + std::to_string(kMostPackages) + " packages");
    }
    SbomPackage package;
    package.name = std::move(name);
    if (!purl.empty()) package = TRY(parsePurl(purl));
    if (package.version.empty()) package.version = std::move(version);
    if (package.name.empty()) return invalid("has a package without a name");
    out_.push_back(std::move(package));
    return {};
  }

  Result<> components(const json::object& of, int depth) {
    const json::array* list = TRY(listOf(of, "components"));
    if (list == nullptr) return {};
    if (depth == kMostDepth) return invalid("has components too deep within each other");
    for (const json::value& item : *list) {
      if (!item.is_object()) return invalid("components: must be objects");
      const json::object& component = item.get_object();
      std::string purl = textOf(component, "purl");
      const std::string type = textOf(component, "type");
      // Syft lists each file too.
      if (!purl.empty() || type != "file") {
        TRY(add(std::move(purl), textOf(component, "name"), textOf(component, "version")));
      }
      TRY(components(component, depth + 1));
    }
    return {};
  }

  Result<> spdxPackages(const json::object& of) {
    const json::array* list = TRY(listOf(of, "packages"));
    if (list == nullptr) return {};
    for (const json::value& item : *list) {
      if (!item.is_object()) return invalid("packages: must be objects");
      const json::object& package = item.get_object();
      std::string purl;
      const json::array* references = TRY(listOf(package, "externalRefs"));
      for (const json::value& each : references == nullptr ? json::array() : *references) {
        if (!each.is_object()) return invalid("externalRefs: must be objects");
        if (textOf(each.get_object(), "referenceType") == "purl") {
          purl = textOf(each.get_object(), "referenceLocator");
        }
      }
      TRY(add(std::move(purl), textOf(package, "name"), textOf(package, "versionInfo")));
    }
    return {};
  }

  std::vector<SbomPackage> out_;
};

}  // namespace

std::string SbomPackage::fullName() const {
  return space.empty() ? name : space + "/" + name;
}

std::string SbomPackage::text() const {
  return model::safeText(type + "/" + fullName() + (version.empty() ? "" : " " + version),
                         kMostShown);
}

Result<SbomPackage> parsePurl(std::string_view text) {
  if (text.size() > kMostText) return invalid("a package URL is too long");
  const auto malformed = [&] {
    return invalid("a package URL is malformed: " + model::safeText(text, kMostShown));
  };
  constexpr std::string_view kScheme = "pkg:";
  if (!text.starts_with(kScheme)) return malformed();
  std::string_view rest = text.substr(kScheme.size());
  rest = rest.substr(0, rest.find('#'));
  while (rest.starts_with('/'))
    rest.remove_prefix(1);
  std::string_view qualifiers;
  if (const size_t mark = rest.find('?'); mark != std::string_view::npos) {
    qualifiers = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  SbomPackage out;
  // A version has no "/"; a scope of npm may have a plain "@".
  const size_t at = rest.rfind('@');
  if (at != std::string_view::npos && at > 0 && rest[at - 1] != '/' &&
      !rest.substr(at).contains('/')) {
    out.version = TRY(decoded(rest.substr(at + 1)));
    rest = rest.substr(0, at);
  }
  const size_t first = rest.find('/');
  const size_t last = rest.rfind('/');
  if (first == std::string_view::npos || first == 0 || last + 1 == rest.size()) return malformed();
  out.type = lower(rest.substr(0, first));
  out.name = TRY(decoded(rest.substr(last + 1)));
  if (last > first) out.space = TRY(decoded(rest.substr(first + 1, last - first - 1)));
  while (!qualifiers.empty()) {
    const std::string_view each = qualifiers.substr(0, qualifiers.find('&'));
    qualifiers.remove_prefix(std::min(each.size() + 1, qualifiers.size()));
    const size_t equals = std::min(each.find('='), each.size());
    const std::string name = lower(each.substr(0, equals));
    if (name != "distro" && name != "upstream") continue;
    std::string value = TRY(decoded(each.substr(std::min(equals + 1, each.size()))));
    (name == "distro" ? out.distro : out.upstream) = std::move(value);
  }
  return out;
}

bool isSbomType(std::string_view media_type) {
  const std::string type = lower(media_type);
  if (type == "application/vnd.cyclonedx") return true;
  return (type.contains("cyclonedx") || type.contains("spdx")) && type.ends_with("json");
}

bool isSbomPredicate(std::string_view type) {
  return type.starts_with("https://cyclonedx.org/bom") ||
         type.starts_with("https://spdx.dev/Document");
}

Result<std::vector<SbomPackage>> parseSbom(const json::value& bill) {
  return Reader().read(bill);
}

bool denies(std::string_view item, const SbomPackage& package) {
  if (item.starts_with("pkg:")) item.remove_prefix(4);
  const std::string full = package.fullName();
  // In these the namespace is the distribution, which most lists leave out.
  const bool distribution = package.type == "deb" || package.type == "rpm" || package.type == "apk";
  for (const std::string& name : {full, distribution ? package.name : full}) {
    if (base::globMatches(item, name) || base::globMatches(item, package.type + "/" + name)) {
      return true;
    }
  }
  return false;
}

}  // namespace cloister::registry
