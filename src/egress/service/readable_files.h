// SPDX-License-Identifier: Apache-2.0
// The files that cloister-egress reads while it serves, as rules of Landlock. It writes none.
// Everything else is read before the process is confined.
#pragma once

#include <string>
#include <vector>

#include "linux/landlock.h"

namespace cloister::egress {

struct ReadableFiles {
  // The control plane's public key, read at each connection of the control plane. While the file
  // does not exist, on the first start of all, its whole directory is readable.
  std::string key;
  bool host_resolver = true;              // resolv.conf is read again when it changes
  bool host_authorities = true;           // OpenSSL reads each authority when it is needed
  std::vector<std::string> folders = {};  // of packages
};

// For paths that exist now. Programs that change resolv.conf replace the file, so rules name its
// directory; likewise those of authorities.
std::vector<linux::LandlockRule> readableFiles(const ReadableFiles& files);

}  // namespace cloister::egress
