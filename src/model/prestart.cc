// SPDX-License-Identifier: Apache-2.0
#include "model/prestart.h"

#include "base/crypto.h"
#include "base/json.h"

namespace cloister::model {

std::string prestartKey(const ExecSpec& spec) {
  if (spec.files.size() != 1 || !spec.compile.empty() || !spec.input.empty()) return {};
  const FileSpec& file = spec.files.front();
  const base::json::array known = {file.path, file.mode,
                                   base::json::array(spec.run.argv.begin(), spec.run.argv.end()),
                                   base::json::array(spec.env.begin(), spec.env.end())};
  return base::sha256Hex(base::toJson(known));
}

bool mayPrestart(const Language& language, std::string_view code) {
  if (!language.prestart) return false;
  if (language.prestart_unless.empty()) return true;
  const size_t first = code.find('\n');
  const size_t second = first == std::string_view::npos ? first : code.find('\n', first + 1);
  return !code.substr(0, second).contains(language.prestart_unless);
}

}  // namespace cloister::model
