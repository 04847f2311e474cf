// SPDX-License-Identifier: Apache-2.0
// What a fuzz target holds to be true. A false one ends it with the input that made it so.
#pragma once

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition)                                                 \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)
