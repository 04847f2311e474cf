// SPDX-License-Identifier: Apache-2.0
#include "cli/render/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace cloister::cli {
namespace {

Screen& current() {
  static Screen screen;
  return screen;
}

}  // namespace

const Screen& screen() {
  return current();
}

void setScreen(Screen screen) {
  current() = screen;
}

size_t columnsHere(size_t otherwise) {
  constexpr size_t kLeast = 40;
  constexpr size_t kMost = 1000;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return std::clamp<size_t>(size.ws_col, kLeast, kMost);
  }
  const char* text = ::getenv("COLUMNS");
  const std::string_view given = text == nullptr ? "" : text;
  size_t columns = 0;
  const auto read = std::from_chars(given.data(), given.data() + given.size(), columns);
  const bool whole = read.ec == std::errc() && read.ptr == given.data() + given.size();
  return whole && columns > 0 ? std::clamp(columns, kLeast, kMost) : otherwise;
}

}  // namespace cloister::cli
