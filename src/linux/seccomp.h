// SPDX-License-Identifier: Apache-2.0
// System call policies (seccomp(2)): an allow-list as data, compiled once to a BPF program that any
// number of processes can then install.
//
// A policy document (policies/seccomp/*.json):
//   {"default": ACTION, "architectures": ["x86_64", …],
//    "beyond": {"above": NUMBER, "action": ACTION, "why": TEXT},
//    "groups": [{"name": TEXT, "why": TEXT, "syscalls": [SYSCALL, …]}, …]}
//   ACTION   "allow", "kill", "pretend" (does nothing and returns 0), or an errno:
//            "EPERM", "ENOSYS"
//   SYSCALL  "read" | {"name", "args": [ARG, …], "action": ACTION, "optional": true}
//   ARG      {"index": 0-5, "in": [VALUE, …], "mask": VALUE}
//   VALUE    a number, "0x…", or a constant's name: "AF_UNIX", "TIOCGWINSZ"
//
// A call with `args` matches when each argument, masked, is one of its values. Without a mask the
// low 32 bits count, because the kernel looks at no more for an int. A call without a matching rule
// gets the default. A number above `beyond` is newer than the policy and gets the action of
// `beyond`. The architecture must be named, and calls by another architecture of the machine (i386,
// x32) are EPERM. An addition to a policy has `architectures` and `groups` alone: the additionally
// allowed calls. Unknown members, names and values are errors; `optional` permits a name that
// libseccomp does not know yet.
#pragma once

#include <linux/filter.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::linux {

struct SeccompProgram {
  std::vector<sock_filter> filter;
  // The compiled document, with `architecture`, `instructions` and `filter_sha256` added.
  base::json::object description;
};

Result<SeccompProgram> compileSeccomp(const base::json::object& policy);

// The filter as made by libseccomp: longer, with the same answers (seccomp_ranges.h).
Result<std::vector<sock_filter>> assembleSeccomp(const base::json::object& policy);

// Reads and compiles a document with its additions `more`; errors name the files.
Result<SeccompProgram> loadSeccomp(const std::string& path,
                                   const std::vector<std::string>& more = {});

// Installs the filter on all threads of this process for good, with no_new_privs set.
Result<> installSeccomp(const std::vector<sock_filter>& filter);

// The same for a child that must not allocate (async-signal-safe). Returns 0 or errno.
int installSeccompRaw(const sock_filter* filter, size_t length);

}  // namespace cloister::linux
