// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/zygote_files.h"

#include "base/file.h"
#include "base/json.h"

namespace cloister::runtime {
namespace {

constexpr size_t kMaxLibrary = size_t{8} << 20;

}  // namespace

Result<std::vector<ZygotePlan::File>> zygoteFiles(const ZygoteConfig& config) {
  const base::json::array imports(config.imports.begin(), config.imports.end());
  std::vector<ZygotePlan::File> files;
  files.push_back({"cloister_zygote.so", TRY(base::readFile(config.library, kMaxLibrary))});
  files.push_back({"usercustomize.py", "IMPORTS = " + base::toJson(imports) + "\n" +
                                           TRY(base::readFile(config.preparation))});
  return files;
}

}  // namespace cloister::runtime
