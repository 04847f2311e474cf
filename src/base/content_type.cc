// SPDX-License-Identifier: Apache-2.0
#include "base/content_type.h"

#include <algorithm>

#include "base/json.h"

namespace cloister::base {
namespace {

constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kBytes = "application/octet-stream";

struct Signature {
  std::string_view bytes;
  std::string_view type;
};

using std::string_view_literals::operator""sv;

constexpr Signature kSignatures[] = {
    {"\x89PNG\r\n\x1a\n"sv, "image/png"},
    {"\xff\xd8\xff"sv, "image/jpeg"},
    {"GIF87a"sv, "image/gif"},
    {"GIF89a"sv, "image/gif"},
    {"%PDF-"sv, "application/pdf"},
    {"PK\x03\x04"sv, "application/zip"},
    {"\x1f\x8b"sv, "application/gzip"},
    {"SQLite format 3\0"sv, "application/vnd.sqlite3"},
    {"PAR1"sv, "application/vnd.apache.parquet"},
};

// Names matter only for text, and only for types that cannot run scripts.
constexpr Signature kTextNames[] = {
    {".json", "application/json"},
    {".csv", "text/csv; charset=utf-8"},
    {".md", "text/markdown; charset=utf-8"},
};

bool endsWith(std::string_view path, std::string_view suffix) {
  if (path.size() < suffix.size()) return false;
  return std::ranges::equal(path.substr(path.size() - suffix.size()), suffix, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
}

// Whether `head` is text, ignoring a character cut at its end.
bool isText(std::string_view head) {
  const auto binary = [](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\x1b';
  };
  if (std::ranges::any_of(head, binary)) return false;
  return isUtf8(withoutCutCharacter(head));
}

}  // namespace

std::string sniffContentType(std::string_view path, std::string_view head) {
  for (const Signature& signature : kSignatures) {
    if (head.starts_with(signature.bytes)) return std::string(signature.type);
  }
  if (head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP") {
    return "image/webp";
  }
  if (!isText(head)) return std::string(kBytes);
  for (const Signature& name : kTextNames) {
    if (endsWith(path, name.bytes)) return std::string(name.type);
  }
  return std::string(kText);
}

}  // namespace cloister::base
