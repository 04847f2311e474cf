// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/results.h"

#include "api/mcp/text.h"
#include "api/mcp/tool.h"
#include "base/content_type.h"
#include "base/crypto.h"

namespace cloister::api::mcp {
namespace {

constexpr std::string_view kFigures[] = {"image/png", "image/jpeg"};

std::string_view textAt(const json::value& result, std::string_view type) {
  const json::object* data = result.if_object();
  const json::value* found = data == nullptr ? nullptr : data->if_contains(type);
  return found != nullptr && found->is_string() ? std::string_view(found->get_string())
                                                : std::string_view();
}

}  // namespace

std::string shownResults(const json::array& results, size_t most) {
  std::string all;
  for (const json::value& result : results) {
    const std::string_view text = textAt(result, "text/plain");
    if (text.empty()) continue;
    if (!all.empty()) all += '\n';
    all += text;
    if (all.size() > most) break;
  }
  const std::string remedy = "show less, or write it to a file";
  return excerpt(all, all.size(), most, remedy).text;
}

json::array figuresOf(const json::array& results, size_t most, size_t most_bytes) {
  constexpr size_t kGroup = 4;  // base64 characters, of three bytes
  json::array images;
  for (const json::value& result : results) {
    for (const std::string_view type : kFigures) {
      const std::string_view text = textAt(result, type);
      if (text.empty() || text.size() / kGroup * 3 > most_bytes || images.size() >= most) continue;
      const auto bytes = base::fromBase64(text);
      // What it is called is a claim: the bytes are what counts.
      if (!bytes || base::sniffContentType("", *bytes) != type) continue;
      images.push_back(imageBlock(*bytes, type));
      break;
    }
  }
  return images;
}

}  // namespace cloister::api::mcp
