// SPDX-License-Identifier: Apache-2.0
#include "node/languages.h"

#include <fcntl.h>

#include <algorithm>

#include "base/fd.h"
#include "linux/paths.h"

namespace cloister::node {

std::string lackingPath(const model::Language& language, const std::string& image_root) {
  const std::string path = image_root.empty() ? "/" : image_root;
  const Fd root(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const std::string& choice : language.requires_paths) {
    bool found = false;
    for (size_t at = 0; root && at <= choice.size() && !found;) {  // `a|b`: either
      const size_t bar = std::min(choice.find('|', at), choice.size());
      found = static_cast<bool>(linux::findInRoot(root.get(), choice.substr(at, bar - at)));
      at = bar + 1;
    }
    if (!found) return choice;
  }
  return {};
}

std::vector<std::string> languagesIn(const model::LanguageSet& languages,
                                     const std::string& image_root) {
  std::vector<std::string> names;
  for (const model::Language& language : languages.all()) {
    if (lackingPath(language, image_root).empty()) names.push_back(language.name);
  }
  return names;
}

}  // namespace cloister::node
