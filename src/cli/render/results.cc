// SPDX-License-Identifier: Apache-2.0
#include "cli/render/results.h"

#include <string_view>

#include "base/crypto.h"
#include "base/file.h"
#include "cli/api.h"
#include "model/execution.h"

namespace cloister::cli {
namespace {

namespace json = base::json;

struct ImageType {
  std::string_view mime;
  std::string_view suffix;
  bool is_text;
};
constexpr ImageType kImageTypes[] = {{"image/png", ".png", false},
                                     {"image/jpeg", ".jpg", false},
                                     {"image/svg+xml", ".svg", true},
                                     {"application/pdf", ".pdf", false}};

}  // namespace

std::string resultsText(const json::object& execution) {
  std::string lines;
  for (const json::value& item : arrayOf(execution, "results")) {
    if (!item.is_object()) continue;
    const std::string text = textOf(item.get_object(), "text/plain");
    if (!text.empty()) lines += text + "\n";
  }
  return lines;
}

std::string leftOutText(const json::object& execution) {
  if (!boolOf(execution, "results_truncated")) return {};
  const std::string lines = model::leftOutText(arrayOf(execution, "results_left_out"));
  return lines.empty() ? "more results were over a bound\n" : lines;
}

Result<std::string> saveImages(const json::object& execution, const std::string& dir) {
  std::string lines;
  const std::string stem = dir + "/cell-" + textOf(objectOf(execution, "cell"), "number") + "-";
  int number = 0;
  for (const json::value& item : arrayOf(execution, "results")) {
    ++number;
    if (!item.is_object()) continue;
    for (const ImageType& type : kImageTypes) {
      const std::string data = textOf(item.get_object(), type.mime);
      if (data.empty()) continue;
      const auto bytes = type.is_text ? Result<std::string>(data) : base::fromBase64(data);
      if (!bytes) continue;  // invalid, from a sandbox
      const std::string path = stem + std::to_string(number) + std::string(type.suffix);
      TRY(base::writeFileAtomic(path, *bytes, 0644));
      lines += path + "\n";
    }
  }
  return lines;
}

}  // namespace cloister::cli
