// SPDX-License-Identifier: Apache-2.0
// A session's memory as an archive, and a session that continues from an archive (memory_image.h):
// the two requests of wire/files.h that the node answers by itself.
//
// The archive is of tar (wire/tar.h): kAboutFile and the guest's files. kAboutFile describes the
// parts of the image's sandbox and the running programs. The archive goes to the requester, who
// keeps the archive for the tenant. A returned archive is refused unless the same guest, of the
// same version, would have the same parts built in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/runtime.h"
#include "sandbox/box/live.h"
#include "sandbox/box/memory_image.h"
#include "sandbox/box/switchboard.h"

namespace cloister::runtime {

inline constexpr char kAboutFile[] = "about.json";

// The pool's functions for a session's memory, and properties that an image must match.
struct MemoryKeeper {
  std::function<Task<Result<MemoryImage>>(std::shared_ptr<Live>)> keep;
  std::function<Task<Result<std::shared_ptr<Live>>>(std::shared_ptr<const MemoryImage>)> goOn;
  base::json::object made_of;  // runtime, kernel, and a digest of all else but the image
  // Waits for the digest of the sandbox's image. Without a digest no memory is saved or resumed.
  std::function<Task<Result<std::string>>()> image;
  std::vector<std::string> files;  // Guest::imageFiles()
  uint64_t most_bytes = 0;         // of an image
};

// `place` lives as long as the Exec.
std::unique_ptr<Exec> makeCheckpoint(std::shared_ptr<Live> live, std::shared_ptr<Switchboard> board,
                                     std::shared_ptr<const MemoryKeeper> memory,
                                     std::shared_ptr<void> place);

// A resumed sandbox for its new owner, who takes over the lines of its programs. Interpreters'
// lines wait on the board for a client to attach.
struct GoneOn {
  std::shared_ptr<Live> live;
  std::vector<LineState> lines;
};
using Become = std::function<Task<Result<>>(GoneOn)>;
std::unique_ptr<Exec> makeResume(const boost::asio::any_io_executor& executor,
                                 std::shared_ptr<const MemoryKeeper> memory, Become become,
                                 std::shared_ptr<void> place);

}  // namespace cloister::runtime
