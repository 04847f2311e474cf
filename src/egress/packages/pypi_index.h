// SPDX-License-Identifier: Apache-2.0
// PypiProject: a page of PyPI's simple API (PEP 503 as HTML, PEP 691 and 700 as JSON), read from an
// index and written for a sandbox. The bytes of an index are hostile: only the understood members
// are kept, and files whose name does not belong to the project are dropped. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "egress/packages/judgement.h"
#include "egress/packages/upstream_url.h"

namespace cloister::egress {

struct PypiFile {
  std::string filename;
  UpstreamUrl url;      // of the file at the index; unused for a folder
  std::string version;  // of the file's name, normalised
  bool sdist = false;
  std::string sha256;  // 64 hex digits; "": the index has none
  std::string requires_python = {};
  std::optional<std::string> yanked = {};  // the reason, which may be empty
  bool has_metadata = false;               // PEP 658
  std::string metadata_sha256 = {};        // "": the index has none
  std::optional<uint64_t> size = {};
  std::optional<int64_t> published = {};  // wall-clock microseconds

  [[nodiscard]] Candidate candidate() const {
    return {.version = version,
            .published = published,
            .sdist = sdist,
            .scripts = false,
            .size = size,
            .sha256 = sha256};
  }
};

struct PypiProject {
  std::string name;  // normalised
  std::vector<PypiFile> files;
  size_t bytes = 0;  // about, of memory

  [[nodiscard]] const PypiFile* find(std::string_view filename) const;
};

inline constexpr size_t kMostPypiFiles = 50'000;  // of a project

// The version of a wheel or a source distribution of the project, by the file's name; nullopt for a
// name of another project or form. `name`: normalised.
struct PypiFileName {
  std::string version;  // normalised
  bool sdist = false;
};
std::optional<PypiFileName> readPypiFileName(std::string_view filename, std::string_view name);

// kInvalid: no page of the simple API.
Result<PypiProject> readPypiJson(const base::json::value& page, std::string_view name,
                                 const UpstreamUrl& base);
Result<PypiProject> readPypiHtml(std::string_view page, std::string_view name,
                                 const UpstreamUrl& base);

// A page as a sandbox gets it. A refused version stays as one made-up wheel whose request is
// refused, because pip tells its user about files alone. Where allowed files remain, the made-up
// wheels are yanked (PEP 592), so a tool takes one only for an exact version.
struct PypiOffer {
  std::vector<const PypiFile*> allowed;
  struct Refused {
    std::string version;
    std::string text;  // of the refusal
  };
  std::vector<Refused> refused;  // one for each version without an allowed file
};
PypiOffer offerOf(const PypiProject& project, const PackageJudge& judge);
// The offer of a name that is refused before it is looked up.
PypiOffer refusedOffer(const PackageRefusal& refusal);

std::string pypiJson(std::string_view name, const PypiOffer& offer);
std::string pypiHtml(std::string_view name, const PypiOffer& offer);

}  // namespace cloister::egress
