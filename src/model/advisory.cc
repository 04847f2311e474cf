// SPDX-License-Identifier: Apache-2.0
#include "model/advisory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "model/debian_version.h"
#include "model/package_selector.h"
#include "model/package_version.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using Event = AffectedPackage::Event;

constexpr size_t kMostFile = size_t{4} << 20;
constexpr size_t kMostFiles = 100'000;
constexpr size_t kMostId = 128;
constexpr size_t kMostAliases = 32;
constexpr size_t kMostSummary = 200;
constexpr base::JsonLimits kOsvJson{.max_bytes = kMostFile, .max_depth = 32, .max_values = 400'000};

std::unexpected<Error> malformed(std::string_view why) {
  return fail(Code::kInvalid, "not a record of OSV: " + std::string(why));
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

// Null for a member that is not there; an error for one that is no list.
Result<const json::array*> listOf(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr || found->is_null()) return nullptr;
  if (!found->is_array()) return malformed("\"" + std::string(name) + "\" is no list");
  return &found->get_array();
}

std::string printable(std::string text, size_t most) {
  if (text.size() > most) text.resize(most);
  for (char& c : text) {
    if (c < ' ' || c >= 0x7f) c = '?';
  }
  return text;
}

// "PyPI", "npm" and "Debian", also with a suffix, as "PyPI:URL" of an index and "Debian:12".
std::optional<AdvisoryEcosystem> ecosystemOfOsv(std::string_view name) {
  name = name.substr(0, name.find(':'));
  if (name == "PyPI") return AdvisoryEcosystem::kPypi;
  if (name == "npm") return AdvisoryEcosystem::kNpm;
  if (name == "Debian") return AdvisoryEcosystem::kDebian;
  return std::nullopt;
}

std::string releaseOfOsv(const std::string& name) {
  const size_t colon = name.find(':');
  return name.starts_with("Debian:") ? name.substr(colon + 1) : "";
}

void raise(std::optional<Severity>& severity, std::optional<Severity> other) {
  if (other && (!severity || *other > *severity)) severity = other;
}

// What the record, or one of its packages, says: scores, and words of the database.
Result<> readSeverity(const json::object& object, std::optional<Severity>& severity) {
  if (const json::array* scores = TRY(listOf(object, "severity"))) {
    for (const json::value& each : *scores) {
      if (!each.is_object()) return malformed("a severity is no object");
      raise(severity, severityFromCvss(textOf(each.get_object(), "score")));
    }
  }
  for (const auto& [name, member] :
       {std::pair<std::string_view, std::string_view>{"database_specific", "severity"},
        {"ecosystem_specific", "severity"},
        {"ecosystem_specific", "urgency"}}) {
    const json::value* specific = object.if_contains(name);
    if (specific == nullptr || !specific->is_object()) continue;
    raise(severity, severityFromWord(textOf(specific->get_object(), member)));
  }
  return {};
}

Result<std::vector<Event>> eventsOf(const json::object& range) {
  constexpr std::pair<std::string_view, Event::Kind> kKinds[] = {
      {"introduced", Event::Kind::kIntroduced},
      {"fixed", Event::Kind::kFixed},
      {"last_affected", Event::Kind::kLastAffected}};
  std::vector<Event> events;
  const json::array* list = TRY(listOf(range, "events"));
  if (list == nullptr) return malformed("a range has no events");
  for (const json::value& each : *list) {
    if (!each.is_object()) return malformed("an event is no object");
    for (const auto& [name, kind] : kKinds) {
      std::string version = textOf(each.get_object(), name);
      if (!version.empty()) events.push_back({kind, std::move(version)});
    }
  }
  return events;
}

std::string nameIn(AdvisoryEcosystem ecosystem, std::string_view name) {
  return ecosystem == AdvisoryEcosystem::kPypi ? normalName(name) : std::string(name);
}

Result<std::optional<AffectedPackage>> affectedOf(const json::value& value) {
  if (!value.is_object()) return malformed("an item of \"affected\" is no object");
  const json::object& object = value.get_object();
  const json::value* package = object.if_contains("package");
  if (package == nullptr || !package->is_object()) return std::nullopt;  // commits alone
  const std::string of = textOf(package->get_object(), "ecosystem");
  const auto ecosystem = ecosystemOfOsv(of);
  if (!ecosystem) return std::nullopt;
  const std::string name = textOf(package->get_object(), "name");
  if (name.empty()) return malformed("a package has no name");
  AffectedPackage affected{.ecosystem = *ecosystem,
                           .name = nameIn(*ecosystem, name),
                           .release = releaseOfOsv(of),
                           .versions = {},
                           .ranges = {}};
  if (const json::array* versions = TRY(listOf(object, "versions"))) {
    for (const json::value& each : *versions) {
      if (!each.is_string()) return malformed("a version is no text");
      affected.versions.emplace_back(each.get_string());
    }
  }
  if (const json::array* ranges = TRY(listOf(object, "ranges"))) {
    for (const json::value& each : *ranges) {
      if (!each.is_object()) return malformed("a range is no object");
      if (textOf(each.get_object(), "type") == "GIT") continue;
      affected.ranges.push_back(TRY(eventsOf(each.get_object())));
    }
  }
  return affected;
}

// Nullopt: one of them is malformed.
std::optional<std::strong_ordering> compare(AdvisoryEcosystem ecosystem, std::string_view a,
                                            std::string_view b) {
  if (ecosystem == AdvisoryEcosystem::kDebian) {
    const auto first = DebianVersion::parse(a);
    const auto second = DebianVersion::parse(b);
    return first && second ? std::optional(*first <=> *second) : std::nullopt;
  }
  if (ecosystem == AdvisoryEcosystem::kPypi) {
    const auto first = PypiVersion::parse(a);
    const auto second = PypiVersion::parse(b);
    return first && second ? std::optional(*first <=> *second) : std::nullopt;
  }
  const auto first = NpmVersion::parsePartial(a);
  const auto second = NpmVersion::parsePartial(b);
  return first && second ? std::optional(*first <=> *second) : std::nullopt;
}

// OSV, "Evaluation". "0" stands for the time before every version.
bool isWithin(const std::vector<Event>& events, AdvisoryEcosystem ecosystem,
              std::string_view version) {
  const auto place = [&](const Event& event) -> std::optional<std::strong_ordering> {
    if (event.version == "0") return std::strong_ordering::greater;
    return compare(ecosystem, version, event.version);
  };
  std::vector<Event> sorted = events;
  for (const Event& each : events) {
    if (!place(each)) return true;
  }
  std::ranges::sort(sorted, [&](const Event& a, const Event& b) {
    if (a.version == "0" || b.version == "0") return a.version == "0" && b.version != "0";
    const auto order = compare(ecosystem, a.version, b.version);
    if (order == std::strong_ordering::equal) return a.kind < b.kind;
    return order == std::strong_ordering::less;
  });
  bool affected = false;
  for (const Event& each : sorted) {
    const auto order = *place(each);
    if (each.kind == Event::Kind::kIntroduced && order >= 0) affected = true;
    if (each.kind == Event::Kind::kFixed && order >= 0) affected = false;
    if (each.kind == Event::Kind::kLastAffected && order > 0) affected = false;
  }
  return affected;
}

bool isAffected(const AffectedPackage& package, std::string_view version) {
  if (package.versions.empty() && package.ranges.empty()) return true;
  const auto same = [&](const std::string& each) {
    return each == version ||
           compare(package.ecosystem, each, version) == std::strong_ordering::equal;
  };
  if (std::ranges::any_of(package.versions, same)) return true;
  return std::ranges::any_of(package.ranges, [&](const std::vector<Event>& events) {
    return isWithin(events, package.ecosystem, version);
  });
}

std::string fixOf(const AffectedPackage& package, std::string_view version) {
  std::string lowest;
  for (const std::vector<Event>& events : package.ranges) {
    for (const Event& each : events) {
      if (each.kind != Event::Kind::kFixed || isAffected(package, each.version)) continue;
      if (compare(package.ecosystem, each.version, version) != std::strong_ordering::greater)
        continue;
      if (lowest.empty() ||
          compare(package.ecosystem, each.version, lowest) == std::strong_ordering::less)
        lowest = each.version;
    }
  }
  return printable(std::move(lowest), kMaxVersion);
}

}  // namespace

Result<std::optional<Advisory>> parseAdvisory(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, kOsvJson));
  if (!value.is_object()) return malformed("no object");
  const json::object& object = value.get_object();
  Advisory advisory{.id = printable(textOf(object, "id"), kMostId),
                    .summary = printable(textOf(object, "summary"), kMostSummary),
                    .affected = {}};
  if (advisory.id.empty()) return malformed("it has no id");
  if (!textOf(object, "withdrawn").empty()) return std::nullopt;
  TRY(readSeverity(object, advisory.severity));
  if (const json::array* aliases = TRY(listOf(object, "aliases"))) {
    for (const json::value& each : *aliases) {
      if (!each.is_string() || advisory.aliases.size() == kMostAliases) break;
      advisory.aliases.push_back(printable(std::string(each.get_string()), kMostId));
    }
  }
  if (const json::array* all = TRY(listOf(object, "affected"))) {
    for (const json::value& each : *all) {
      if (each.is_object()) TRY(readSeverity(each.get_object(), advisory.severity));
      if (auto affected = TRY(affectedOf(each))) advisory.affected.push_back(*std::move(affected));
    }
  }
  return advisory;
}

Advisories::Advisories(std::vector<std::shared_ptr<const Advisory>> all) : all_(std::move(all)) {
  for (const auto& each : all_) {
    for (const AffectedPackage& package : each->affected)
      by_package_[{package.ecosystem, package.name}].emplace_back(each.get(), &package);
  }
}

std::optional<AdvisoryHit> Advisories::find(Ecosystem ecosystem, std::string_view name,
                                            std::string_view version) const {
  auto all = findAll({.ecosystem = ecosystem == Ecosystem::kPypi ? AdvisoryEcosystem::kPypi
                                                                 : AdvisoryEcosystem::kNpm,
                      .name = name,
                      .version = version},
                     1);
  if (all.empty()) return std::nullopt;
  return std::move(all.front());
}

std::vector<AdvisoryHit> Advisories::findAll(const PackageQuery& query, size_t most) const {
  std::vector<AdvisoryHit> out;
  const auto found = by_package_.find({query.ecosystem, nameIn(query.ecosystem, query.name)});
  if (found == by_package_.end()) return out;
  for (const auto& [advisory, package] : found->second) {
    const bool elsewhere =
        !package->release.empty() && !query.release.empty() && package->release != query.release;
    if (out.size() == most) break;
    if (elsewhere || !isAffected(*package, query.version)) continue;
    out.push_back({advisory->id, advisory->summary, fixOf(*package, query.version),
                   advisory->severity, advisory->aliases});
  }
  return out;
}

std::shared_ptr<AdvisoryFolder> advisoriesOf(const std::string& folder, uint32_t seconds) {
  if (folder.empty()) return nullptr;
  return std::make_shared<AdvisoryFolder>(folder, std::chrono::seconds(seconds));
}

AdvisoryFolder::AdvisoryFolder(std::string folder, Millis every, std::string key)
    : folder_(std::move(folder)), every_(every), key_(std::move(key)) {}

Result<std::shared_ptr<const Advisories>> AdvisoryFolder::now() {
  const auto time = base::monotonicNow();
  if (!ever_ || time - looked_ >= every_) {
    ever_ = true;
    looked_ = time;
    state_ = look();
    if (!state_) state_.error() = std::move(state_.error()).within(key_);
  }
  if (!state_) return std::unexpected(state_.error());
  return advisories_;
}

// Reads what changed.
Result<> AdvisoryFolder::look() {
  std::map<std::string, File> files;
  const std::vector<std::string> names = TRY(base::listDir(folder_));
  if (names.size() > kMostFiles) {
    return fail(Code::kTooLarge, folder_ + " has more than " + std::to_string(kMostFiles) +
                                     " files; keep the advisories of PyPI and npm alone");
  }
  for (const std::string& name : names) {
    if (name.ends_with(".json")) TRY(take(name, files));
  }
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.stamp == b.second.stamp;
  };
  const bool changed = !std::ranges::equal(files, files_, same);
  files_ = std::move(files);
  if (!changed && advisories_) return {};
  std::vector<std::shared_ptr<const Advisory>> all;
  for (const auto& [name, file] : files_) {
    if (file.record) all.push_back(file.record);
  }
  advisories_ = std::make_shared<const Advisories>(std::move(all));
  return {};
}

Result<> AdvisoryFolder::take(const std::string& name, std::map<std::string, File>& files) {
  const std::string path = folder_ + "/" + name;
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};  // removed meanwhile
    return failErrno("reading " + path);
  }
  File file{.stamp = std::to_string(status.st_ino) + " " + std::to_string(status.st_size) + " " +
                     std::to_string(status.st_mtim.tv_sec) + "." +
                     std::to_string(status.st_mtim.tv_nsec) + " " +
                     std::to_string(status.st_ctim.tv_sec) + "." +
                     std::to_string(status.st_ctim.tv_nsec),
            .record = nullptr};
  if (const auto known = files_.find(name);
      known != files_.end() && known->second.stamp == file.stamp) {
    files.emplace(name, known->second);
    return {};
  }
  auto record = parseAdvisory(TRY(base::readFile(path, kMostFile)));
  if (!record) {
    return fail(Code::kInvalid, path + ": " + record.error().message + "; correct or remove it");
  }
  if (*record) file.record = std::make_shared<const Advisory>(**std::move(record));
  files.emplace(name, std::move(file));
  return {};
}

}  // namespace cloister::model
