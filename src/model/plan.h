// SPDX-License-Identifier: Apache-2.0
// The output of `--dry-run` and the offer of a node: values that describe, never act.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/image_name.h"

namespace cloister::model {

// A line of `cloister doctor`.
struct Finding {
  enum class State { kOk, kReduced, kMissing };
  std::string area;  // "isolation", "language", "runtime"
  std::string name;  // "landlock", "python"
  State state = State::kOk;
  std::string detail;  // the fact found
  std::string remedy;  // the remedy, "" if none
};

// Name of the finding about workspaces on disk.
inline constexpr char kDiskFinding[] = "disk workspaces";

// A program name of an image that links to another program.
struct ProgramLink {
  std::string name;
  std::string real;

  bool operator==(const ProgramLink&) const = default;
};
inline constexpr size_t kMaxProgramLinks = 4096;

// An image imported into a node.
struct OfferedImage {
  std::string name;
  std::string digest;  // "sha256:…"
  std::string source;  // kind of its source: "oci", "docker", "directory"
  std::string created;
  uint64_t size_bytes = 0;
  uint64_t files = 0;
  bool machines = false;                       // also usable by virtual machines
  std::vector<std::string> languages;          // names whose toolchain is present
  std::vector<ProgramLink> links;              // at most kMaxProgramLinks
  std::optional<VerifiedImage> verified = {};  // of a pulled image

  bool operator==(const OfferedImage&) const = default;
};
inline constexpr size_t kMaxOfferedImages = 64;

// A node's abilities, sent to the control plane on connection.
struct NodeOffer {
  std::string node;  // its name
  std::string version;
  std::vector<std::string> runtimes;   // usable ones only
  std::vector<std::string> weakened;   // weaknesses on this node, for each result
  std::string image_digest;            // of the default image
  std::vector<std::string> languages;  // names whose toolchain is present
  std::vector<Finding> findings;
  uint32_t max_sandboxes = 0;
  uint64_t memory_bytes = 0;  // of the machine
  uint32_t cpus = 0;
  std::vector<ProgramLink> links;    // of the default image; at most kMaxProgramLinks
  std::vector<OfferedImage> images;  // besides the default image
};

}  // namespace cloister::model
