// SPDX-License-Identifier: Apache-2.0
#include "runtime/fake/fake_files.h"

#include <errno.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/crypto.h"
#include "wire/files_codec.h"
#include "wire/string_writer.h"

namespace cloister::runtime {
namespace {

using wire::files::encode;

// As bytes.
std::string digestOf(const std::string& content) {
  const std::string hex = base::sha256Hex(content);
  std::string digest(hex.size() / 2, '\0');
  for (size_t i = 0; i < digest.size(); ++i) {
    uint8_t byte = 0;
    std::from_chars(&hex[2 * i], &hex[2 * i] + 2, byte, 16);
    digest[i] = static_cast<char>(byte);
  }
  return digest;
}

struct Served {
  std::vector<model::FileSpec>& files;
  const std::vector<std::string>& request;
  const std::string& input;
  std::string& out;

  [[nodiscard]] model::FileSpec* find(const std::string& path) const {
    const auto found = std::ranges::find(files, path, &model::FileSpec::path);
    return found == files.end() ? nullptr : &*found;
  }
  [[nodiscard]] uint64_t number(size_t at) const { return std::stoull(request.at(at)); }
  void tell(const model::FileSpec& file, const std::string& path) const {
    out += encode(wire::files::Entry{.kind = wire::files::Kind::kFile,
                                     .mode = file.mode,
                                     .size = file.content.size(),
                                     .modified_at = 0,
                                     .path = path});
  }

  [[nodiscard]] int stat() const {
    const auto* file = find(request[1]);
    if (file == nullptr) return ENOENT;
    tell(*file, "");
    return 0;
  }
  [[nodiscard]] int list() const {
    uint64_t left = number(3);
    uint32_t left_out = 0;
    const std::string under = request[1].empty() ? "" : request[1] + "/";
    for (const model::FileSpec& file : files) {
      if (!file.path.starts_with(under)) continue;
      if (left == 0) {
        ++left_out;
      } else {
        --left;
        tell(file, file.path.substr(under.size()));
      }
    }
    out += encode(wire::files::EndOfEntries{left_out});
    return 0;
  }
  [[nodiscard]] int read() const {
    const auto* file = find(request[1]);
    if (file == nullptr) return ENOENT;
    tell(*file, "");
    const uint64_t offset = std::min<uint64_t>(number(2), file->content.size());
    out += file->content.substr(offset, number(3));
    return 0;
  }
  [[nodiscard]] int write() const {
    auto* file = find(request[1]);
    if (file == nullptr) file = &files.emplace_back(model::FileSpec{request[1], "", 0644});
    file->content = input;
    if (!request[2].empty()) file->mode = static_cast<uint32_t>(number(2));
    tell(*file, "");
    return 0;
  }
  [[nodiscard]] int append() const {
    auto* file = find(request[1]);
    if (file == nullptr && number(2) != 0) return ENOENT;
    if (file == nullptr) file = &files.emplace_back(model::FileSpec{request[1], "", 0644});
    if (file->content.size() != number(2)) return ESPIPE;
    file->content += input;
    tell(*file, "");
    return 0;
  }
  [[nodiscard]] int remove() const {
    return std::erase_if(files, [&](const auto& file) { return file.path == request[1]; }) > 0
               ? 0
               : ENOENT;
  }
  [[nodiscard]] int move() const {
    auto* file = find(request[1]);
    if (file == nullptr) return ENOENT;
    if (find(request[2]) != nullptr && request[3] != "1") return EEXIST;
    model::FileSpec moved = *file;
    std::erase_if(files, [&](const auto& each) {
      return each.path == request[1] || each.path == request[2];
    });
    moved.path = request[2];
    files.push_back(std::move(moved));
    return 0;
  }
  [[nodiscard]] int state() const {
    const size_t bounds = request.size() - 2;
    uint64_t bytes = number(bounds);
    if (files.size() > number(bounds + 1)) return EFBIG;
    out += encode(wire::files::State{.mode = 040755, .size = 0, .path = "", .sum = ""});
    for (const model::FileSpec& file : files) {
      if (file.content.size() > bytes) return EFBIG;
      bytes -= file.content.size();
      // A file with a type in its mode has that type; a link points to its content.
      constexpr uint32_t kRegular = 0100000;
      constexpr uint32_t kLink = 0120000;
      const bool typed = file.mode > 07777;
      const bool link = (file.mode & 0170000) == kLink;
      out += encode(wire::files::State{.mode = typed ? file.mode : kRegular | file.mode,
                                       .size = link ? 0 : file.content.size(),
                                       .path = file.path,
                                       .sum = link ? file.content : digestOf(file.content)});
    }
    out += encode(wire::files::EndOfEntries{0});
    return 0;
  }
  // An archive format only for unpack(): path, size and bytes of each file.
  [[nodiscard]] int save() const {
    for (const model::FileSpec& file : files)
      out += file.path + "\n" + std::to_string(file.content.size()) + "\n" + file.content;
    return 0;
  }
  [[nodiscard]] int unpack() const {
    for (std::string_view rest = input; !rest.empty();) {
      const size_t named = rest.find('\n');
      const size_t sized = rest.find('\n', named + 1);
      if (sized == std::string_view::npos) return EINVAL;
      uint64_t size = 0;
      const char* const end = rest.data() + sized;
      if (std::from_chars(rest.data() + named + 1, end, size).ptr != end) return EINVAL;
      files.push_back(
          {std::string(rest.substr(0, named)), std::string(rest.substr(sized + 1, size)), 0644});
      rest.remove_prefix(std::min(sized + 1 + size, rest.size()));
    }
    return 0;
  }
};

}  // namespace

int serveFakeFiles(std::vector<model::FileSpec>& files, const std::vector<std::string>& request,
                   const std::string& input, std::string& out) {
  static const std::map<std::string, int (Served::*)() const, std::less<>> kAll = {
      {"stat", &Served::stat},   {"list", &Served::list},     {"read", &Served::read},
      {"write", &Served::write}, {"append", &Served::append}, {"remove", &Served::remove},
      {"state", &Served::state}, {"hold", &Served::state},    {"move", &Served::move},
      {"save", &Served::save},   {"unpack", &Served::unpack}, {"restore", &Served::unpack}};
  const auto found = kAll.find(request.empty() ? "" : request[0]);
  if (found == kAll.end()) return ENOSYS;
  const Served served{files, request, input, out};
  return (served.*found->second)();
}

std::string fakeFailure(int error, std::string_view what) {
  wire::StringWriter said;
  said.u32(static_cast<uint32_t>(error));
  said.bytes(what);
  return said.take();
}

}  // namespace cloister::runtime
