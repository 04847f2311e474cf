// SPDX-License-Identifier: Apache-2.0
// The state directory as the command line sees it: who holds it, where its server listens, and its
// admin key.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::supervisor {

// Makes the directory if needed and takes it for this process and the children that inherit the
// descriptor: until the last of them is gone nobody else gets it. kConflict names the holder.
// Waits up to `patience` for the children of a server that was killed.
Result<Fd> lockState(const std::string& dir, Millis patience);

// True while a server holds the directory. A key is sent only to such an address: one left behind
// by a server that was killed could have been taken by anyone.
bool isHeld(const std::string& dir);

std::string addressPath(const std::string& dir);
// The certificate of a server that speaks TLS, which this account's commands then need not look up.
std::string certificatePath(const std::string& dir);
std::string adminKeyPath(const std::string& dir);
Result<std::string> readKey(const std::string& path);

}  // namespace cloister::supervisor
