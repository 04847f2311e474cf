// SPDX-License-Identifier: Apache-2.0
// The state directory as seen by the command line: its holder, its server's address, and the admin
// key.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::supervisor {

// Makes the directory if needed, and locks it for this process and for children with the
// descriptor: the lock ends with the last of these processes. kConflict names the holder. Waits up
// to `patience` for the children of a killed server.
Result<Fd> lockState(const std::string& dir, Millis patience);

// True while a server holds the directory. A key is sent only to a held address: anyone could have
// taken over the address of a killed server.
bool isHeld(const std::string& dir);

// The command that finds the server of `dir` without further settings, as words of a shell:
// `cloister`, with --state for another directory than `standard`, this account's own.
std::string clientCommand(const std::string& dir, const std::string& standard);

std::string addressPath(const std::string& dir);
// The certificate of a server with TLS; with the file, this account's commands need no lookup.
std::string certificatePath(const std::string& dir);
std::string adminKeyPath(const std::string& dir);
Result<std::string> readKey(const std::string& path);

}  // namespace cloister::supervisor
