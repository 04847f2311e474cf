// SPDX-License-Identifier: Apache-2.0
#include "wire/tar.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

namespace cloister::wire::tar {
namespace {

using files::Kind;

constexpr size_t kBlock = 512;
constexpr size_t kMaxPath = 4095;        // PATH_MAX, less the final NUL
constexpr size_t kMaxName = 255;         // NAME_MAX
constexpr size_t kMaxExtended = 16'384;  // the file server's has two paths and a time
constexpr int64_t kNanos = 1'000'000'000;
constexpr int64_t kLastSecond = 9'000'000'000;  // seconds that fit into nanoseconds

// Fields of a header: offset and size; pax(1), "ustar Interchange Format".
struct Field {
  size_t at;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUid{108, 8};
constexpr Field kGid{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kChecksum{148, 8};
constexpr size_t kType = 156;
constexpr Field kLink{157, 100};
constexpr Field kMagic{257, 8};
constexpr std::string_view kUstar(
    "ustar\0"
    "00",
    8);

std::unexpected<Error> notOurs(std::string_view why) {
  return fail(Code::kInvalid, "reading an archive of a workspace: " + std::string(why));
}

std::string_view of(std::string_view block, Field field) {
  return block.substr(field.at, field.size);
}

std::string_view textOf(std::string_view block, Field field) {
  const std::string_view text = of(block, field);
  return text.substr(0, std::min(text.find('\0'), text.size()));
}

std::optional<uint64_t> octalOf(std::string_view block, Field field) {
  const std::string_view text = textOf(block, field);
  uint64_t value = 0;
  for (const char c : text) {
    if (c == ' ') break;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

uint64_t checksumOf(std::string_view block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

uint64_t paddingOf(uint64_t size) {
  return (kBlock - size % kBlock) % kBlock;
}

// Only decimal digits, at most 18, which always fit.
std::optional<int64_t> decimal(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// "seconds.nanoseconds", with all nine digits.
std::optional<int64_t> timeOf(std::string_view text) {
  const size_t dot = std::min(text.find('.'), text.size());
  const auto seconds = decimal(text.substr(0, dot));
  const auto nanos = dot == text.size() ? std::optional<int64_t>(0) : decimal(text.substr(dot + 1));
  const bool whole = dot == text.size() || text.size() - dot == 10;
  if (!seconds || !nanos || !whole || *seconds > kLastSecond) return std::nullopt;
  return *seconds * kNanos + *nanos;
}

void put(std::string& block, Field field, std::string_view text) {
  std::ranges::copy(text.substr(0, field.size), block.begin() + static_cast<ptrdiff_t>(field.at));
}

void putOctal(std::string& block, Field field, uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%0*llo", static_cast<int>(field.size) - 1,
                static_cast<unsigned long long>(value));
  put(block, field, text);
}

std::string block(std::string_view name, std::string_view link, char type, uint32_t mode,
                  uint64_t size, int64_t seconds) {
  std::string out(kBlock, '\0');
  put(out, kName, name);
  put(out, kLink, link);
  putOctal(out, kMode, mode);
  putOctal(out, kUid, 0);
  putOctal(out, kGid, 0);
  putOctal(out, kSize, size);
  putOctal(out, kTime, static_cast<uint64_t>(seconds));
  put(out, kMagic, kUstar);
  out[kType] = type;
  char sum[kChecksum.size + 1];
  std::snprintf(sum, sizeof sum, "%06o", static_cast<unsigned>(checksumOf(out)));
  sum[kChecksum.size - 1] = ' ';
  put(out, kChecksum, {sum, kChecksum.size});
  return out;
}

// "length key=value\n", with the length's own digits counted.
std::string record(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t total = rest + 1;
  while (std::to_string(total).size() + rest > total)
    ++total;
  return std::to_string(total) + " " + std::string(key) + "=" + std::string(value) + "\n";
}

char typeOf(Kind kind) {
  if (kind == Kind::kDirectory) return '5';
  return kind == Kind::kLink ? '2' : '0';
}

}  // namespace

bool isPlainPath(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath || path.contains('\0')) return false;
  for (bool more = true; more;) {
    const size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || name.size() > kMaxName) return false;
    more = slash != std::string_view::npos;
    if (more) path.remove_prefix(slash + 1);
  }
  return true;
}

bool isKeptPath(std::string_view path) {
  const bool at_home = files::isWithin(path, model::kHome) && path.size() > model::kHome.size();
  return isPlainPath(at_home ? path.substr(model::kHome.size() + 1) : path);
}

void Reader::feed(std::string_view bytes) {
  bytes_.erase(0, std::exchange(at_, 0));
  bytes_ += bytes;
}

Result<std::optional<Part>> Reader::next() {
  const uint64_t padded = std::min<uint64_t>(skip_, left_ > 0 ? 0 : bytes_.size() - at_);
  skip_ -= padded;
  at_ += padded;
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  if (rest.empty()) return std::nullopt;
  if (ended_) {
    after_ += rest.size();
    at_ += rest.size();
    const bool zeros = rest.find_first_not_of('\0') == std::string_view::npos;
    if (!zeros || after_ > kBlock) return notOurs("something comes after its end");
    return std::nullopt;
  }
  if (left_ > 0) {
    const std::string_view piece = rest.substr(0, std::min<uint64_t>(left_, rest.size()));
    left_ -= piece.size();
    at_ += piece.size();
    return Part(Content{piece});
  }
  if (extended_ > 0) {
    if (rest.size() < extended_) return std::nullopt;
    TRY(extended(rest.substr(0, extended_size_)));
    at_ += std::exchange(extended_, 0);
    return next();
  }
  if (rest.size() < kBlock) return std::nullopt;
  return header();
}

Result<std::optional<Part>> Reader::header() {
  const std::string_view block = std::string_view(bytes_).substr(at_, kBlock);
  at_ += kBlock;
  if (block.find_first_not_of('\0') == std::string_view::npos) {
    ended_ = true;
    return Part(End{});
  }
  const auto size = octalOf(block, kSize);
  const auto mode = octalOf(block, kMode);
  const auto seconds = octalOf(block, kTime);
  if (octalOf(block, kChecksum) != checksumOf(block) || of(block, kMagic) != kUstar || !size ||
      !mode || *mode > 0777 || !seconds || *seconds > static_cast<uint64_t>(kLastSecond)) {
    return notOurs("a header is damaged");
  }
  const char type = block[kType];
  if (type == 'x') {
    if (*size == 0 || *size > kMaxExtended || path_ || target_ || modified_at_) {
      return notOurs("an extended header is too large, or one of many");
    }
    extended_size_ = *size;
    extended_ = *size + paddingOf(*size);
    return next();
  }
  Entry entry{.mode = static_cast<uint32_t>(*mode),
              .size = *size,
              .modified_at = modified_at_.value_or(static_cast<int64_t>(*seconds) * kNanos),
              .path = path_.value_or(std::string(textOf(block, kName)))};
  const std::string target = target_.value_or(std::string(textOf(block, kLink)));
  path_.reset();
  target_.reset();
  modified_at_.reset();
  if (type == '5') entry.kind = Kind::kDirectory;
  if (type == '2') entry.kind = Kind::kLink;
  if (type == '5' && entry.path.ends_with('/')) entry.path.pop_back();
  if (type == '2') entry.target = target;
  const bool known = type == '0' || ((type == '5' || type == '2') && *size == 0);
  if (!known) return notOurs("it has an entry that is no file, directory or link");
  if (!isKeptPath(entry.path)) return notOurs("it has a name that leads elsewhere");
  const bool linked = !entry.target.empty() && entry.target.size() <= kMaxPath;
  if (entry.kind == Kind::kLink && !linked) return notOurs("it has a link to nothing");
  left_ = *size;
  skip_ = paddingOf(*size);
  return Part(std::move(entry));
}

Result<> Reader::extended(std::string_view records) {
  while (!records.empty()) {
    const size_t blank = std::min(records.find(' '), records.size());
    const auto length = decimal(records.substr(0, blank));
    const auto size = static_cast<size_t>(length.value_or(0));
    if (size > records.size() || size < blank + 3 || records[size - 1] != '\n') {
      return notOurs("an extended header is damaged");
    }
    TRY(record(records.substr(blank + 1, size - blank - 2)));
    records.remove_prefix(size);
  }
  return {};
}

Result<> Reader::record(std::string_view text) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  if (value.empty() || value.contains('\0')) return notOurs("an extended header is damaged");
  if (key == "path") {
    path_ = value;
  } else if (key == "linkpath") {
    target_ = value;
  } else if (key == "mtime") {
    modified_at_ = timeOf(value);
    if (!modified_at_) return notOurs("a time is none");
  } else {
    return notOurs("an extended header says what none of ours does");
  }
  return {};
}

std::string header(const Entry& entry) {
  const bool directory = entry.kind == Kind::kDirectory;
  const std::string path = entry.path + (directory ? "/" : "");
  const int64_t seconds = entry.modified_at / kNanos;
  const int64_t nanos = entry.modified_at % kNanos;
  std::string records;
  if (path.size() > kName.size) records += record("path", path);
  if (entry.target.size() > kLink.size) records += record("linkpath", entry.target);
  if (nanos != 0) {
    char time[48];
    std::snprintf(time, sizeof time, "%lld.%09lld", static_cast<long long>(seconds),
                  static_cast<long long>(nanos));
    records += record("mtime", time);
  }
  std::string out;
  if (!records.empty()) {
    out = block("pax", "", 'x', 0644, records.size(), 0) + records + padding(records.size());
  }
  return out + block(path, entry.target, typeOf(entry.kind), entry.mode, entry.size, seconds);
}

std::string padding(uint64_t size) {
  return std::string(paddingOf(size), '\0');
}

std::string end() {
  return std::string(2 * kBlock, '\0');
}

}  // namespace cloister::wire::tar
