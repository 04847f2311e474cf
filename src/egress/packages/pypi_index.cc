// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/pypi_index.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/clock.h"
#include "net/url.h"

namespace cloister::egress {
namespace {

namespace json = base::json;

constexpr size_t kMaxFileName = 256;
constexpr size_t kMaxText = 1024;  // of other members of a file
constexpr std::string_view kWheel = ".whl";
constexpr std::array<std::string_view, 5> kSdists = {".tar.gz", ".zip", ".tar.bz2", ".tgz",
                                                     ".tar.xz"};

bool isSha256(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Names end up in paths, headers and pages, so only plain ones are taken.
bool isPlainFileName(std::string_view name) {
  if (name.empty() || name.size() > kMaxFileName || name.front() == '.') return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '+' || c == '!';
  });
}

std::string bounded(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxText))
    out += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
  return out;
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? bounded(value->get_string()) : std::string();
}

std::string sha256In(const json::value* hashes) {
  if (hashes == nullptr || !hashes->is_object()) return {};
  std::string hash = textOf(hashes->get_object(), "sha256");
  std::ranges::transform(hash, hash.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
  });
  return isSha256(hash) ? hash : "";
}

// "name#sha256=…" of an HTML page.
std::string sha256Behind(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view hash = text.substr(at + mark.size());
  hash = hash.substr(0, hash.find('&'));
  return isSha256(hash) ? std::string(hash) : "";
}

// The common part of both forms: name and URL. nullopt: the file is not offered.
std::optional<PypiFile> fileOf(std::string_view filename, std::string_view reference,
                               std::string_view name, const UpstreamUrl& base) {
  const auto read = readPypiFileName(filename, name);
  auto url = resolveUrl(base, reference);
  if (!read || !url) return std::nullopt;
  PypiFile file;
  file.filename = filename;
  file.url = *std::move(url);
  file.version = read->version;
  file.sdist = read->sdist;
  return file;
}

void readMetadata(const json::object& object, PypiFile& file) {
  for (const std::string_view member : {"core-metadata", "dist-info-metadata"}) {
    const json::value* value = object.if_contains(member);
    if (value == nullptr) continue;
    file.has_metadata = value->is_object() || (value->is_bool() && value->get_bool());
    file.metadata_sha256 = sha256In(value);
    return;
  }
}

std::optional<PypiFile> readJsonFile(const json::object& object, std::string_view name,
                                     const UpstreamUrl& base) {
  const json::value* url = object.if_contains("url");
  if (url == nullptr || !url->is_string()) return std::nullopt;
  auto file = fileOf(textOf(object, "filename"), url->get_string(), name, base);
  if (!file) return std::nullopt;
  file->sha256 = sha256In(object.if_contains("hashes"));
  file->requires_python = textOf(object, "requires-python");
  readMetadata(object, *file);
  if (const json::value* yanked = object.if_contains("yanked")) {
    if (yanked->is_string()) file->yanked = textOf(object, "yanked");
    if (yanked->is_bool() && yanked->get_bool()) file->yanked = "";
  }
  const json::value* size = object.if_contains("size");
  if (size != nullptr && size->is_int64() && size->get_int64() >= 0) {
    file->size = static_cast<uint64_t>(size->get_int64());
  }
  file->published = base::parseTime(textOf(object, "upload-time"));
  return file;
}

size_t memoryOf(const PypiFile& file) {
  return sizeof file + file.filename.size() + file.url.target.size() + file.url.host.size() +
         file.requires_python.size() + file.sha256.size() + file.metadata_sha256.size();
}

Result<> add(PypiProject& project, std::optional<PypiFile> file) {
  if (!file) return {};
  if (project.files.size() >= kMostPypiFiles) {
    return fail(Code::kTooLarge, "the index names too many files of " + project.name);
  }
  project.bytes += memoryOf(*file);
  project.files.push_back(*std::move(file));
  return {};
}

// --- HTML

constexpr std::array<std::pair<std::string_view, char>, 6> kEntities = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"#39", '\''}, {"#x27", '\''}}};

std::string unescaped(std::string_view text) {
  constexpr size_t kLongest = 8;
  std::string out;
  while (!text.empty()) {
    const size_t end = text.starts_with('&') ? text.substr(0, kLongest).find(';') : 0;
    const auto* entity = end == 0 || end == std::string_view::npos
                             ? kEntities.end()
                             : std::ranges::find(kEntities, text.substr(1, end - 1),
                                                 &std::pair<std::string_view, char>::first);
    if (entity == kEntities.end()) {
      out += text.front();
      text.remove_prefix(1);
    } else {
      out += entity->second;
      text.remove_prefix(end + 1);
    }
  }
  return out;
}

bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && isSpace(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isSpace(text.back()))
    text.remove_suffix(1);
  return text;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

using Attributes = std::map<std::string, std::string>;

// Takes the attributes of a start tag from the front, and its ">".
Attributes takeAttributes(std::string_view& text) {
  constexpr size_t kMost = 32;
  Attributes attributes;
  while (!text.empty() && text.front() != '>') {
    if (isSpace(text.front()) || text.front() == '/') {
      text.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \t\r\n\f=>/"), text.size());
    // "=" where a name should be is part of a name in HTML; here it is skipped.
    const std::string name = lowered(text.substr(0, end));
    text.remove_prefix(std::max<size_t>(end, name.empty() ? 1 : 0));
    while (!text.empty() && isSpace(text.front()))
      text.remove_prefix(1);
    std::string_view value;
    if (text.starts_with('=')) {
      text.remove_prefix(1);
      while (!text.empty() && isSpace(text.front()))
        text.remove_prefix(1);
      const char quote = text.empty() ? '\0' : text.front();
      if (quote == '"' || quote == '\'') {
        text.remove_prefix(1);
        const size_t close = std::min(text.find(quote), text.size());
        value = text.substr(0, close);
        text.remove_prefix(std::min(close + 1, text.size()));
      } else {
        const size_t close = std::min(text.find_first_of(" \t\r\n\f>"), text.size());
        value = text.substr(0, close);
        text.remove_prefix(close);
      }
    }
    if (!name.empty() && attributes.size() < kMost) attributes.emplace(name, unescaped(value));
  }
  text.remove_prefix(text.empty() ? 0 : 1);
  return attributes;
}

std::optional<PypiFile> readAnchor(const Attributes& attributes, std::string_view text,
                                   std::string_view name, const UpstreamUrl& base) {
  const auto of = [&](const char* attribute) {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? std::string() : bounded(found->second);
  };
  const auto href = attributes.find("href");
  if (href == attributes.end()) return std::nullopt;
  auto file = fileOf(trimmed(text), href->second, name, base);
  if (!file) return std::nullopt;
  file->sha256 = sha256Behind(href->second, "#sha256=");
  file->requires_python = of("data-requires-python");
  for (const char* member : {"data-core-metadata", "data-dist-info-metadata"}) {
    if (file->has_metadata || !attributes.contains(member)) continue;
    file->has_metadata = of(member) != "false";
    file->metadata_sha256 = sha256Behind(of(member), "sha256=");
  }
  if (attributes.contains("data-yanked")) file->yanked = of("data-yanked");
  return file;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto* entity =
        std::ranges::find(kEntities, c, &std::pair<std::string_view, char>::second);
    if (entity == kEntities.end()) {
      out += c;
    } else {
      out += "&" + std::string(entity->first) + ";";
    }
  }
  return out;
}

// --- written

std::string pathOf(std::string_view name, std::string_view filename) {
  return "/files/" + std::string(name) + "/" + net::percentEncode(filename);
}

// A wheel for every Python and every machine.
std::string madeUpWheel(std::string_view name, std::string_view version) {
  std::string distribution(name);
  std::ranges::replace(distribution, '-', '_');
  return distribution + "-" + std::string(version) + "-py3-none-any.whl";
}

// A refused version beside others is for an exact request alone.
bool isYanked(const PypiOffer& offer) {
  return !offer.allowed.empty();
}

}  // namespace

const PypiFile* PypiProject::find(std::string_view filename) const {
  const auto found = std::ranges::find(files, filename, &PypiFile::filename);
  return found == files.end() ? nullptr : &*found;
}

std::optional<PypiFileName> readPypiFileName(std::string_view filename, std::string_view name) {
  if (!isPlainFileName(filename)) return std::nullopt;
  const auto versionOf = [](std::string_view text) {
    const auto version = model::PypiVersion::parse(text);
    return version ? version->text() : std::string();
  };
  if (filename.ends_with(kWheel)) {
    // NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl
    const std::string_view stem = filename.substr(0, filename.size() - kWheel.size());
    const auto dashes = std::ranges::count(stem, '-');
    const size_t first = stem.find('-');
    if ((dashes != 4 && dashes != 5) || model::normalName(stem.substr(0, first)) != name) {
      return std::nullopt;
    }
    const std::string_view rest = stem.substr(first + 1);
    std::string version = versionOf(rest.substr(0, rest.find('-')));
    if (version.empty()) return std::nullopt;
    return PypiFileName{std::move(version), false};
  }
  for (const std::string_view suffix : kSdists) {
    if (!filename.ends_with(suffix)) continue;
    const std::string_view stem = filename.substr(0, filename.size() - suffix.size());
    for (size_t dash = stem.find('-'); dash != std::string_view::npos;
         dash = stem.find('-', dash + 1)) {
      if (model::normalName(stem.substr(0, dash)) != name) continue;
      std::string version = versionOf(stem.substr(dash + 1));
      if (!version.empty()) return PypiFileName{std::move(version), true};
    }
  }
  return std::nullopt;
}

Result<PypiProject> readPypiJson(const json::value& page, std::string_view name,
                                 const UpstreamUrl& base) {
  const json::object* object = page.if_object();
  const json::value* files = object == nullptr ? nullptr : object->if_contains("files");
  if (files == nullptr || !files->is_array()) {
    return fail(Code::kInvalid, "the index's answer is no page of PyPI's simple API");
  }
  PypiProject project{.name = std::string(name), .files = {}, .bytes = sizeof(PypiProject)};
  for (const json::value& value : files->get_array()) {
    if (const json::object* file = value.if_object()) {
      TRY(add(project, readJsonFile(*file, name, base)));
    }
  }
  return project;
}

Result<PypiProject> readPypiHtml(std::string_view page, std::string_view name,
                                 const UpstreamUrl& base) {
  PypiProject project{.name = std::string(name), .files = {}, .bytes = sizeof(PypiProject)};
  UpstreamUrl at = base;
  while (true) {
    const size_t tag = page.find('<');
    if (tag == std::string_view::npos) return project;
    page.remove_prefix(tag + 1);
    if (page.starts_with("!--")) {
      const size_t end = page.find("-->");
      page.remove_prefix(end == std::string_view::npos ? page.size() : end + 3);
      continue;
    }
    const size_t end = std::min(page.find_first_of(" \t\r\n\f>/"), page.size());
    const std::string element = lowered(page.substr(0, std::min<size_t>(end, 8)));
    page.remove_prefix(end);
    const Attributes attributes = takeAttributes(page);
    if (element == "base" && attributes.contains("href")) {
      at = TRY(resolveUrl(base, attributes.at("href")));
    }
    if (element != "a") continue;
    const std::string text = unescaped(page.substr(0, std::min(page.find('<'), kMaxFileName)));
    TRY(add(project, readAnchor(attributes, text, name, at)));
  }
}

PypiOffer offerOf(const PypiProject& project, const PackageJudge& judge) {
  PypiOffer offer;
  std::map<std::string, std::string> refused;  // by version: the first refusal
  std::map<std::string, bool> has;
  for (const PypiFile& file : project.files) {
    if (const auto refusal = judge.judge(file.candidate())) {
      refused.emplace(file.version, refusal->text());
    } else {
      offer.allowed.push_back(&file);
      has[file.version] = true;
    }
  }
  for (auto& [version, text] : refused) {
    if (!has.contains(version)) offer.refused.push_back({version, std::move(text)});
  }
  // A tool that finds no version for a range lists the versions that it knows.
  if (offer.refused.empty() || offer.allowed.empty()) return offer;
  const std::string rule = offer.refused.back().text.substr(0, offer.refused.back().text.find(':'));
  std::string local = rule;
  std::ranges::replace(local, '_', '.');
  offer.refused.push_back({"0+refused.by." + local, offer.refused.back().text});
  return offer;
}

PypiOffer refusedOffer(const PackageRefusal& refusal) {
  std::string local(packageRuleName(refusal.rule));
  std::ranges::replace(local, '_', '.');
  PypiOffer offer;
  offer.refused.push_back({"0+refused.by." + local, refusal.text()});
  return offer;
}

std::string pypiJson(std::string_view name, const PypiOffer& offer) {
  json::array files;
  json::array versions;
  std::map<std::string, bool> seen;
  const auto note = [&](const std::string& version) {
    if (seen.emplace(version, true).second) versions.emplace_back(version);
  };
  for (const PypiFile* file : offer.allowed) {
    json::object object = {{"filename", file->filename}, {"url", pathOf(name, file->filename)}};
    json::object hashes;
    if (!file->sha256.empty()) hashes["sha256"] = file->sha256;
    object["hashes"] = std::move(hashes);
    if (!file->requires_python.empty()) object["requires-python"] = file->requires_python;
    if (file->yanked && file->yanked->empty()) object["yanked"] = true;
    if (file->yanked && !file->yanked->empty()) object["yanked"] = *file->yanked;
    if (file->size) object["size"] = *file->size;
    if (file->published) object["upload-time"] = base::formatTime(*file->published);
    if (file->has_metadata) {
      json::value metadata = true;
      if (!file->metadata_sha256.empty()) {
        metadata = json::object{{"sha256", file->metadata_sha256}};
      }
      object["core-metadata"] = std::move(metadata);  // alone: PEP 714
    }
    files.push_back(std::move(object));
    note(file->version);
  }
  for (const auto& [version, text] : offer.refused) {
    const std::string wheel = madeUpWheel(name, version);
    json::object object = {
        {"filename", wheel}, {"url", pathOf(name, wheel)}, {"hashes", json::object()}};
    if (isYanked(offer)) object["yanked"] = text;
    object["size"] = 0;
    files.push_back(std::move(object));
    note(version);
  }
  return base::toJson(json::object{{"meta", json::object{{"api-version", "1.1"}}},
                                   {"name", name},
                                   {"versions", std::move(versions)},
                                   {"files", std::move(files)}});
}

std::string pypiHtml(std::string_view name, const PypiOffer& offer) {
  std::string page =
      "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" "
      "content=\"1.1\"><title>Links for " +
      std::string(name) + "</title></head><body>\n";
  for (const PypiFile* file : offer.allowed) {
    page += "<a href=\"" + pathOf(name, file->filename);
    if (!file->sha256.empty()) page += "#sha256=" + file->sha256;
    page += '"';
    if (!file->requires_python.empty()) {
      page += " data-requires-python=\"" + escaped(file->requires_python) + "\"";
    }
    if (file->yanked) page += " data-yanked=\"" + escaped(*file->yanked) + "\"";
    if (file->has_metadata) {
      const std::string value =
          file->metadata_sha256.empty() ? "true" : "sha256=" + file->metadata_sha256;
      page += " data-core-metadata=\"" + value + "\" data-dist-info-metadata=\"" + value + "\"";
    }
    page += ">" + escaped(file->filename) + "</a><br>\n";
  }
  for (const auto& [version, text] : offer.refused) {
    const std::string wheel = madeUpWheel(name, version);
    page += "<a href=\"" + pathOf(name, wheel) + "\"";
    if (isYanked(offer)) page += " data-yanked=\"" + escaped(text) + "\"";
    page += ">" + escaped(wheel) + "</a><br>\n";
  }
  return page + "</body></html>\n";
}

}  // namespace cloister::egress
