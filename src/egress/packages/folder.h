// SPDX-License-Identifier: Apache-2.0
// PackageFolder: a folder of wheels, source distributions or packages of npm in place of an index,
// for sites without a network. The day of a file's last change counts as its date of publication:
// the day when the operator put it there.
//
// The folder is opened once, and each file below it without following links. Reads are of a local
// disk and short. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "egress/packages/npm_packument.h"
#include "egress/packages/pypi_index.h"

namespace cloister::egress {

class PackageFolder {
 public:
  // kNotFound and others name the path.
  static Result<std::shared_ptr<PackageFolder>> open(const std::string& path);
  explicit PackageFolder(Fd folder) : folder_(std::move(folder)) {}

  static constexpr size_t kMostFiles = 100'000;

  // kNotFound: the folder has no file of the name.
  Result<PypiProject> pypi(std::string_view name) const;
  // Reads the package.json of each tarball of the name.
  Result<NpmPackage> npm(std::string_view name) const;

  struct File {
    Fd fd;
    uint64_t size = 0;
    int64_t changed = 0;  // wall-clock microseconds
  };
  // A regular file directly in the folder.
  Result<File> file(const std::string& name) const;
  // The next bytes of an open file, at most 64 KiB; "" at its end.
  static Result<std::string> read(const Fd& fd);

 private:
  Result<std::vector<std::string>> names() const;

  Fd folder_;
};

}  // namespace cloister::egress
