// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/guard/approval_difference.h"

#include <algorithm>
#include <array>
#include <set>

#include "model/audit_entry.h"
#include "model/shown_text.h"
#include "model/tool.h"
#include "orchestrator/core/stored_request.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;

constexpr size_t kShownDifference = 200;
// Readers of the record may not be readers of these.
constexpr std::array<std::string_view, 5> kHidden = {"code", "env", "files", "input", "secrets"};

std::string shownValue(const json::value* value) {
  if (value == nullptr) return "none";
  return model::markedText(base::toJson(*value), kShownDifference);
}

bool isSame(const json::value* one, const json::value* other) {
  if (one == nullptr || other == nullptr) return one == other;
  return model::canonicalJson(*one) == model::canonicalJson(*other);
}

std::set<std::string> namesIn(const json::object& one, const json::object& other) {
  std::set<std::string> names;
  for (const json::object* each : {&one, &other}) {
    for (const auto& member : *each)
      names.emplace(member.key());
  }
  return names;
}

// The first file, by its path, that differs.
std::string fileDifference(const json::array& approved, const json::array& now) {
  const auto byPath = [](const json::array& files) {
    json::object by_path;
    for (const json::value& file : files) {
      if (!file.is_object()) continue;
      const json::value* path = file.get_object().if_contains("path");
      if (path != nullptr && path->is_string()) by_path[path->get_string()] = file;
    }
    return by_path;
  };
  const json::object before = byPath(approved);
  const json::object after = byPath(now);
  for (const std::string& path : namesIn(before, after)) {
    const json::value* one = before.if_contains(path);
    const json::value* other = after.if_contains(path);
    if (isSame(one, other)) continue;
    const std::string name = "the file " + model::markedText(path, kShownDifference);
    if (one == nullptr) return name + " was not approved";
    return name + (other == nullptr ? " is missing now" : " differs");
  }
  return "files differs: their order";
}

std::string difference(const std::string& name, const json::value* approved,
                       const json::value* now) {
  const auto both = [&](auto is) { return approved && now && is(*approved) && is(*now); };
  if (name == "files" && both([](const json::value& value) { return value.is_array(); })) {
    return fileDifference(approved->get_array(), now->get_array());
  }
  const bool hidden = std::ranges::find(kHidden, name) != kHidden.end();
  if (both([](const json::value& value) { return value.is_object(); })) {
    const json::object& before = approved->get_object();
    const json::object& after = now->get_object();
    for (const std::string& member : namesIn(before, after)) {
      const json::value* one = before.if_contains(member);
      const json::value* other = after.if_contains(member);
      if (isSame(one, other)) continue;
      const std::string path = name + "." + model::markedText(member, kShownDifference);
      if (hidden) return path + " differs";
      return path + " differs: approved " + shownValue(one) + ", now " + shownValue(other);
    }
  }
  if (hidden) return name + " differs";
  return name + " differs: approved " + shownValue(approved) + ", now " + shownValue(now);
}

// The members that no digest has: the approval's name, the limits that were named, and the
// service's own metadata.
json::object boundPart(json::object request) {
  for (const char* name : {"approval", "named_limits"})
    request.erase(name);
  json::value* metadata = request.if_contains("metadata");
  if (metadata == nullptr || !metadata->is_object()) return request;
  json::object rest;
  for (const auto& member : metadata->get_object()) {
    if (!std::string_view(member.key()).starts_with(model::kReservedMetadata))
      rest[member.key()] = member.value();
  }
  *metadata = std::move(rest);
  return request;
}

// The image of the display, its last line; "" if the display was cut before it.
std::string approvedImage(const std::string& display) {
  constexpr std::string_view kLine = "\nimage: ";
  const size_t at = display.rfind(kLine);
  return at == std::string::npos ? "" : display.substr(at + kLine.size());
}

std::string reasonOf(store::Store& store, const model::Escalation& e, const Bound& bound,
                     const std::string& image, const std::string& request_json) {
  const auto stored = store.escalations().request(e);
  const auto approved = stored ? parseStored(*stored) : std::unexpected(stored.error());
  const auto now = parseStored(request_json);
  if (approved && now) {
    if (std::string found = firstDifference(*approved, *now); !found.empty()) return found;
  }
  const std::string was = approvedImage(e.display);
  if (!was.empty() && was != image && digestOf(bound, was) == e.digest) {
    return "the image differs: approved " + was + ", now " + image;
  }
  if (!request_json.empty() && !(approved && now)) return "";
  return "the request is the same, but its image, a secret or the definition of its language has "
         "changed";
}

}  // namespace

std::string firstDifference(const json::object& approved, const json::object& now) {
  const json::object before = boundPart(approved);
  const json::object after = boundPart(now);
  for (const std::string& name : namesIn(before, after)) {
    const json::value* one = before.if_contains(name);
    const json::value* other = after.if_contains(name);
    if (!isSame(one, other)) return difference(name, one, other);
  }
  return "";
}

Error withDifference(store::Store& store, const model::Escalation& e, Error refusal,
                     const policy::Use& use, const Bound& bound, const std::string& image,
                     const std::string& request_json) {
  if (refusal.field != policy::approval::kMismatch || !policy::isOtherProgram(e, use)) {
    return refusal;
  }
  const std::string why = reasonOf(store, e, bound, image, request_json);
  if (!why.empty()) refusal.message = policy::otherProgram(e, why);
  return refusal;
}

}  // namespace cloister::orchestrator
