// SPDX-License-Identifier: Apache-2.0
// The files and directories that an agent may change although its level forbids changes (kWritable
// in wire/runner.h): the list, and finding and making the named files. Programs may have put
// anything at the end of a path, so no link is followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/fd.h"
#include "wire/codec.h"
#include "wire/runner.h"

namespace cloister::runner {

struct WritablePlace {
  uint8_t operations = 0;  // model::Walls::Writable
  bool beneath = false;
  std::string_view path;  // absolute
  bool* made = nullptr;   // by the runner

  [[nodiscard]] bool writes() const;
  [[nodiscard]] bool removes() const;
  // A permission to make a file does not permit changes of an existing file.
  [[nodiscard]] bool opensFile() const;
};

// Opens the place's file or directory. If missing and to be written or made, makes an empty file or
// a directory, with all parent directories, which are not opened to programs. No descriptor on
// failure, or if a link is in the way.
Fd openOrMake(const WritablePlace& place);

class WritableList {
 public:
  static constexpr size_t kMost = 1024;

  // False, and an empty list, where the payload is malformed.
  bool take(std::string_view payload);

  template <class Each>
  void forEach(Each each) {
    wire::Reader r({bytes_, size_});
    const uint32_t count = size_ == 0 ? 0 : r.u32();
    for (uint32_t i = 0; i < count; ++i) {
      WritablePlace place = next(r);
      place.made = &made_[i];
      each(place);
    }
  }

 private:
  static WritablePlace next(wire::Reader& r);

  // Zero at first, which costs no memory until use.
  char bytes_[wire::kRunnerMaxPayload] = {};
  size_t size_ = 0;
  bool made_[kMost] = {};
};

}  // namespace cloister::runner
