// SPDX-License-Identifier: Apache-2.0
// Makers of steps, for the lists of mount_plan.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "confine/mount_plan.h"

namespace cloister::runtime {

// A directory of files of /proc for N processors, as /N.
inline constexpr char kCpus[] = "run/masked/cpus";

inline MountStep directory(std::string target, std::string_view why, mode_t mode = 0755) {
  return {.op = MountStep::Op::kDirectory, .target = std::move(target), .why = why, .mode = mode};
}

inline MountStep file(std::string target, std::string content, std::string_view why,
                      mode_t mode = 0444) {
  return {.op = MountStep::Op::kFile,
          .target = std::move(target),
          .why = why,
          .mode = mode,
          .content = std::move(content)};
}

inline MountStep symlink(std::string target, std::string to, std::string_view why) {
  return {.op = MountStep::Op::kSymlink,
          .target = std::move(target),
          .source = std::move(to),
          .why = why};
}

inline MountStep copyOf(std::string target, std::string from, std::string_view why) {
  return {.op = MountStep::Op::kCopy,
          .target = std::move(target),
          .source = std::move(from),
          .why = why};
}

inline MountStep place(MountStep::Op op, std::string source, std::string target,
                       std::string_view why) {
  return {.op = op, .target = std::move(target), .source = std::move(source), .why = why};
}

}  // namespace cloister::runtime
