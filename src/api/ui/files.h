// SPDX-License-Identifier: Apache-2.0
// The files of the web interface, read into memory once: no request opens a path. Immutable.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::api::ui {

struct File {
  std::string bytes;
  std::string gzip;  // compressed, from NAME.gz; "": there is none
  std::string type;  // of media
  std::string etag;  // quoted
};

class Files {
 public:
  static constexpr size_t kMaxBytes = size_t{16} << 20;  // all together
  static constexpr size_t kMaxFiles = 512;

  // The regular files below `folder`; none without the folder. Links and hidden names are left out.
  // kTooLarge above the bounds.
  static Result<Files> read(const std::string& folder);

  // By its path below the folder, "assets/index-1a2b.js"; nullptr: there is none.
  [[nodiscard]] const File* find(std::string_view path) const;
  // Whether the interface is installed.
  [[nodiscard]] bool installed() const { return find("index.html") != nullptr; }
  // index.html with the true path of the service, "" or "/prefix", in its <base>.
  [[nodiscard]] std::string index(std::string_view prefix) const;

 private:
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace cloister::api::ui
