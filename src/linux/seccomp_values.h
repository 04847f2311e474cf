// SPDX-License-Identifier: Apache-2.0
// The names of policies/seccomp/constants.yaml with their numbers, sorted by name. A C source
// defines the values; cmake/seccomp_constants.py generates the source at build time. So the numbers
// are those of the kernel's headers. For seccomp_constants.cc alone. Immutable; thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct SeccompConstant {
  const char* name;
  uint64_t value;
};

extern const struct SeccompConstant seccompConstants[];
extern const size_t seccompConstantsCount;
extern const struct SeccompConstant seccompErrnos[];
extern const size_t seccompErrnosCount;

#ifdef __cplusplus
}
#endif
