// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end and keeps its output, for questions to programs of the installation.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "supervisor/process.h"

namespace cloister::supervisor {

struct Captured {
  int wait_status = 0;  // waitpid(2)
  std::string out;      // at most kMostCaptured bytes of each
  std::string err;
};
inline constexpr size_t kMostCaptured = size_t{4} << 20;

// `program` without descriptors for stdout and stderr. A program that runs longer than `patience`,
// or beyond the readability of `interrupt` (-1: none), is killed: kUnavailable. The caller has a
// single thread.
Result<Captured> capture(Program program, Millis patience, int interrupt = -1);

}  // namespace cloister::supervisor
