// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/tarball_scan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include <boost/beast/zlib/inflate_stream.hpp>

#include "base/json.h"
#include "egress/packages/npm_packument.h"

namespace cloister::egress {
namespace {

namespace zlib = boost::beast::zlib;

std::unexpected<Error> unreadable(std::string_view why) {
  return fail(Code::kInvalid, "its archive cannot be read: " + std::string(why));
}

// --- gzip (RFC 1952)

// Takes the header of a member from the front of collected bytes. nullopt: more are needed.
Result<std::optional<size_t>> gzipHeader(std::string_view bytes) {
  constexpr size_t kFixed = 10;
  constexpr uint8_t kHasCrc = 2;
  constexpr uint8_t kHasExtra = 4;
  constexpr uint8_t kHasName = 8;
  constexpr uint8_t kHasComment = 16;
  constexpr uint8_t kReserved = 0xe0;
  if (!bytes.substr(0, 3).starts_with(std::string_view("\x1f\x8b\x08", 3)) && bytes.size() >= 3) {
    return unreadable("it is not packed by gzip");
  }
  if (bytes.size() < kFixed) return std::nullopt;
  const auto flags = static_cast<uint8_t>(bytes[3]);
  if ((flags & kReserved) != 0) return unreadable("its gzip header has unknown flags");
  size_t at = kFixed;
  if ((flags & kHasExtra) != 0) {
    if (bytes.size() < at + 2) return std::nullopt;
    at += 2 + static_cast<uint8_t>(bytes[at]) + (size_t{static_cast<uint8_t>(bytes[at + 1])} << 8U);
  }
  for (const uint8_t flag : {kHasName, kHasComment}) {
    if ((flags & flag) == 0) continue;
    const size_t end = at >= bytes.size() ? std::string_view::npos : bytes.find('\0', at);
    if (end == std::string_view::npos) return std::nullopt;
    at = end + 1;
  }
  if ((flags & kHasCrc) != 0) at += 2;
  if (bytes.size() < at) return std::nullopt;
  return at;
}

// --- tar (POSIX.1-1988 ustar, POSIX.1-2001 pax, GNU long names)

constexpr size_t kBlock = 512;

std::string_view fieldOf(std::string_view block, size_t at, size_t size) {
  const std::string_view field = block.substr(at, size);
  return field.substr(0, field.find('\0'));
}

std::optional<uint64_t> octalOf(std::string_view block, size_t at, size_t size) {
  std::string_view field = fieldOf(block, at, size);
  while (!field.empty() && field.front() == ' ')
    field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ')
    field.remove_suffix(1);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number, 8);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return number;
}

bool hasGoodSum(std::string_view block) {
  constexpr size_t kSum = 148;
  constexpr size_t kSumSize = 8;
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i)
    sum += i >= kSum && i < kSum + kSumSize ? uint64_t{' '} : static_cast<uint8_t>(block[i]);
  return octalOf(block, kSum, kSumSize) == sum;
}

constexpr size_t kNameSize = 100;
constexpr size_t kLinkAt = 157;

// The names that readers take from a header alone. Not all of them know the prefix of POSIX, and
// npm adds its slash wherever the last bytes of the prefix are set.
std::vector<std::string> pathsOf(std::string_view block) {
  constexpr size_t kMagic = 257;
  constexpr size_t kPrefix = 345;
  constexpr size_t kPrefixSize = 155;
  constexpr size_t kLongPrefix = kPrefix + 130;
  const std::string name(fieldOf(block, 0, kNameSize));
  const std::string prefix(fieldOf(block, kPrefix, kPrefixSize));
  std::vector<std::string> paths = {name};
  const bool posix = block.substr(kMagic, 6) == std::string_view("ustar\0", 6);
  if (posix && (!prefix.empty() || block[kLongPrefix] != '\0'))
    paths.push_back(prefix + "/" + name);
  return paths;
}

// The path below the first folder, as npm unpacks it; "" for the folder itself.
std::string unpackedPath(std::string_view path) {
  std::string out;
  size_t part = 0;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part++ == 0 || name.empty() || name == ".") continue;
    out += (out.empty() ? "" : "/") + std::string(name);
  }
  return out;
}

// Whether npm installs a package into this folder of the unpacked package: the package itself, or
// one that is bundled with it, whose scripts run as well.
bool isPackageFolder(std::string_view folder) {
  constexpr std::string_view kModules = "node_modules/";
  while (!folder.empty()) {
    if (!folder.starts_with(kModules)) return false;
    folder.remove_prefix(kModules.size());
    size_t end = folder.find('/');
    if (folder.starts_with('@') && end != std::string_view::npos) end = folder.find('/', end + 1);
    if (end == std::string_view::npos) return true;
    folder.remove_prefix(end + 1);
  }
  return true;
}

// The value of `path` and of `size` in the records of a pax header.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<uint64_t> size;
};
Result<PaxRecords> readPax(std::string_view text) {
  PaxRecords records;
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || length > text.size() || length <= digits + 2 ||
        text[digits] != ' ' || text[length - 1] != '\n') {
      return unreadable("a malformed pax header");
    }
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equal = record.find('=');
    if (equal == std::string_view::npos) return unreadable("a malformed pax header");
    // npm ends a record at its first line feed, and finds another one behind it.
    if (record.contains('\n')) return unreadable("a malformed pax header");
    const std::string_view value = record.substr(equal + 1);
    if (record.substr(0, equal) == "path") records.path = std::string(value);
    if (record.substr(0, equal) == "size") {
      uint64_t size = 0;
      const auto [stop, bad] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (bad != std::errc() || stop != value.data() + value.size()) {
        return unreadable("a malformed pax header");
      }
      records.size = size;
    }
  }
  return records;
}

}  // namespace

struct TarballScan::State {
  Result<> unpack(std::string_view packed);
  Result<> inflate(std::string_view& packed);
  Result<> tar(std::string_view bytes);
  Result<> header(std::string_view block);
  Result<> metaHeader(std::string_view header, char type);
  Result<> entryHeader(std::string_view header, char type);
  void examine(std::string_view path);
  Result<> entryEnd();
  Result<> manifestEnd();

  enum class At : uint8_t { kHeader, kData, kTrailer };
  enum class Keep : uint8_t { kNone, kManifest, kPax, kGlobalPax, kLongName };

  At at = At::kHeader;
  std::string gathered;  // of a gzip header or trailer
  std::optional<zlib::inflate_stream> stream{std::in_place};
  uint64_t packed_bytes = 0;
  uint64_t unpacked_bytes = 0;
  bool any_member = false;

  std::string block;        // the present header, incomplete
  uint64_t left = 0;        // of the present entry, with its padding
  uint64_t data_left = 0;   // of these, without
  Keep keep = Keep::kNone;  // what becomes of the entry's data
  std::string kept;
  PaxRecords next;       // for the next entry
  PaxRecords global;     // for every entry, as some readers have it
  bool bundled = false;  // the entry is of a bundled package
  std::string scripts;
  std::string manifest;
};

TarballScan::TarballScan() : state_(std::make_unique<State>()) {}
TarballScan::~TarballScan() = default;

const std::string& TarballScan::scripts() const {
  return state_->scripts;
}
const std::string& TarballScan::manifest() const {
  return state_->manifest;
}

Result<> TarballScan::feed(std::string_view packed) {
  state_->packed_bytes += packed.size();
  return state_->unpack(packed);
}

Result<> TarballScan::end() {
  const State& state = *state_;
  if (state.at != State::At::kHeader || !state.gathered.empty() || !state.any_member) {
    return unreadable("it is cut short");
  }
  if (!state.block.empty() || state.left != 0) return unreadable("it is cut short");
  if (state.manifest.empty()) return unreadable("it has no package.json");
  return {};
}

Result<> TarballScan::State::unpack(std::string_view packed) {
  constexpr size_t kTrailer = 8;
  constexpr size_t kMostHeader = size_t{64} << 10;
  while (!packed.empty()) {
    switch (at) {
      case At::kHeader: {
        // Byte by byte at most: a header is short.
        gathered += packed.front();
        packed.remove_prefix(1);
        if (gathered.size() > kMostHeader) return unreadable("its gzip header is too long");
        if (TRY(gzipHeader(gathered))) {
          gathered.clear();
          stream.emplace();
          any_member = true;
          at = At::kData;
        }
        break;
      }
      case At::kData:
        TRY(inflate(packed));
        break;
      case At::kTrailer: {
        const size_t take = std::min(kTrailer - gathered.size(), packed.size());
        gathered += packed.substr(0, take);
        packed.remove_prefix(take);
        if (gathered.size() == kTrailer) {
          gathered.clear();
          at = At::kHeader;
        }
      }
    }
  }
  return {};
}

Result<> TarballScan::State::inflate(std::string_view& packed) {
  constexpr size_t kPiece = size_t{64} << 10;
  constexpr uint64_t kFree = uint64_t{1} << 20;
  static thread_local std::vector<char> buffer(kPiece);
  zlib::z_params params;
  params.next_in = packed.data();
  params.avail_in = packed.size();
  for (;;) {
    params.next_out = buffer.data();
    params.avail_out = buffer.size();
    boost::system::error_code error;
    stream->write(params, zlib::Flush::sync, error);
    const size_t got = buffer.size() - params.avail_out;
    unpacked_bytes += got;
    if (unpacked_bytes > kMostUnpacked || unpacked_bytes > kFree + packed_bytes * kMostRatio) {
      return unreadable("it unpacks to far more bytes than it has");
    }
    TRY(tar({buffer.data(), got}));
    if (error == zlib::error::end_of_stream) {
      at = At::kTrailer;
      break;
    }
    if (error && error != zlib::error::need_buffers)
      return unreadable("its gzip data is malformed");
    if (params.avail_in == 0 && got < buffer.size()) break;
    if (error == zlib::error::need_buffers && got == 0) break;
  }
  packed.remove_prefix(packed.size() - params.avail_in);
  return {};
}

Result<> TarballScan::State::tar(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left == 0) {
      const size_t take = std::min(kBlock - block.size(), bytes.size());
      block += bytes.substr(0, take);
      bytes.remove_prefix(take);
      if (block.size() < kBlock) return {};
      TRY(header(block));
      block.clear();
      continue;
    }
    const auto take = static_cast<size_t>(std::min<uint64_t>(left, bytes.size()));
    const auto data = static_cast<size_t>(std::min<uint64_t>(data_left, take));
    if (keep != Keep::kNone) {
      kept += bytes.substr(0, data);
      if (kept.size() > kMostManifest) return unreadable("a header or package.json is too large");
    }
    left -= take;
    data_left -= data;
    bytes.remove_prefix(take);
    if (left == 0) TRY(entryEnd());
  }
  return {};
}

Result<> TarballScan::State::header(std::string_view header) {
  constexpr size_t kSizeAt = 124;
  constexpr size_t kSizeSize = 12;
  constexpr size_t kTypeAt = 156;
  if (std::ranges::all_of(header, [](char c) { return c == '\0'; })) return {};
  // Readers go on behind a header with a wrong sum in different ways.
  const auto size = octalOf(header, kSizeAt, kSizeSize);
  if (!hasGoodSum(header) || !size) return unreadable("a malformed header");
  data_left = *size;
  keep = Keep::kNone;
  kept.clear();
  const char type = header[kTypeAt];
  const bool meta = type == 'x' || type == 'g' || type == 'L' || type == 'K';
  TRY(meta ? metaHeader(header, type) : entryHeader(header, type));
  if (data_left > kMostUnpacked) return unreadable("an entry is too large");
  left = (data_left + kBlock - 1) / kBlock * kBlock;
  return left == 0 ? entryEnd() : Result<>{};
}

// A header about the next entry. npm skips the header alone of one without a name or with a link's
// target, and its older readers give it the size that is for the entry: its data then are headers.
Result<> TarballScan::State::metaHeader(std::string_view header, char type) {
  const bool odd = fieldOf(header, 0, kNameSize).empty() ||
                   !fieldOf(header, kLinkAt, kNameSize).empty() || next.size;
  if (odd) return unreadable("a malformed header");
  if (type == 'x') keep = Keep::kPax;
  if (type == 'g') keep = Keep::kGlobalPax;
  if (type == 'L') keep = Keep::kLongName;
  return {};
}

// An entry that is unpacked: examined if any reader takes it for a file with scripts.
Result<> TarballScan::State::entryHeader(std::string_view header, char type) {
  const bool file = type == '\0' || type == '0' || type == '7';
  // Long names of old writers, and sparse files, have other forms in each reader.
  if (!file && (type < '1' || type > '6')) return unreadable("an entry of an odd kind");
  std::vector<std::string> paths = pathsOf(header);
  const bool named = next.path ? !next.path->empty() : !paths.front().empty();
  if (global.path) paths.push_back(*global.path);
  if (next.path) paths.push_back(*next.path);
  if (next.size) data_left = *next.size;
  next = {};
  // npm skips the header alone of an entry without a name, or with a target that does not fit.
  const bool link = type == '1' || type == '2';
  if (!named || link == fieldOf(header, kLinkAt, kNameSize).empty()) {
    return unreadable("an entry without a name, or with an odd link");
  }
  // Some readers take a file whose name ends so for a folder, which has no data.
  const bool folder =
      std::ranges::any_of(paths, [](const auto& each) { return each.ends_with('/'); });
  if ((!file || folder) && data_left != 0) {
    return unreadable("an entry of an odd kind has data");
  }
  for (const std::string& path : paths) {
    if (file) examine(path);
  }
  return {};
}

void TarballScan::State::examine(std::string_view path) {
  const std::string unpacked = unpackedPath(path);
  const size_t name = unpacked.rfind('/') + 1;  // 0 without a slash
  const std::string folder = unpacked.substr(0, name == 0 ? 0 : name - 1);
  if (!isPackageFolder(folder)) return;
  const std::string_view file = std::string_view(unpacked).substr(name);
  if (file == "package.json") {
    keep = Keep::kManifest;
    bundled = !folder.empty();
  }
  if (file == "binding.gyp" && scripts.empty()) {
    scripts = (folder.empty() ? "it" : "its " + folder) + " has a binding.gyp";
  }
}

Result<> TarballScan::State::entryEnd() {
  switch (std::exchange(keep, Keep::kNone)) {
    case Keep::kNone:
      return {};
    case Keep::kManifest:
      return manifestEnd();
    case Keep::kPax: {
      PaxRecords records = TRY(readPax(kept));
      if (records.path) next.path = std::move(records.path);
      if (records.size) next.size = records.size;
      return {};
    }
    case Keep::kGlobalPax:
      global = TRY(readPax(kept));
      return global.size ? unreadable("a size for every entry") : Result<>{};
    case Keep::kLongName:
      next.path = kept.substr(0, kept.find('\0'));
      return {};
  }
  return {};
}

Result<> TarballScan::State::manifestEnd() {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (kept.starts_with(kMark)) kept.erase(0, kMark.size());
  const auto value = base::parseJson(kept);
  const base::json::object* object = value ? value->if_object() : nullptr;
  if (object == nullptr) return unreadable("a package.json is malformed");
  if (!bundled) manifest = kept;
  std::string why;
  if (scripts.empty() && hasInstallScripts(*object, why)) {
    scripts = bundled ? "of a bundled package, " + why : std::move(why);
  }
  return {};
}

}  // namespace cloister::egress
