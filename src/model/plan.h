// SPDX-License-Identifier: Apache-2.0
// What `--dry-run` prints and what a node offers: values that describe, never act.
#pragma once

#include <string>
#include <vector>

namespace cloister::model {

// One line of `cloister doctor`.
struct Finding {
  enum class State { kOk, kReduced, kMissing };
  std::string area;  // "isolation", "language", "runtime"
  std::string name;  // "landlock", "python"
  State state = State::kOk;
  std::string detail;  // what was found
  std::string remedy;  // what to do, "" if nothing
};

// The finding that says whether a node has workspaces on disk.
inline constexpr char kDiskFinding[] = "disk workspaces";

// A program of an image, by name, that is a link to another.
struct ProgramLink {
  std::string name;
  std::string real;

  bool operator==(const ProgramLink&) const = default;
};
inline constexpr size_t kMaxProgramLinks = 4096;

// An image that was imported into a node.
struct OfferedImage {
  std::string name;
  std::string digest;  // "sha256:…"
  std::string source;  // what it was imported from: "oci", "docker", "directory"
  std::string created;
  uint64_t size_bytes = 0;
  uint64_t files = 0;
  bool machines = false;               // virtual machines can have it too
  std::vector<std::string> languages;  // names whose toolchain is present
  std::vector<ProgramLink> links;      // at most kMaxProgramLinks

  bool operator==(const OfferedImage&) const = default;
};
inline constexpr size_t kMaxOfferedImages = 64;

// What a node can do, told to the control plane when it connects.
struct NodeOffer {
  std::string node;  // its name
  std::string version;
  std::vector<std::string> runtimes;   // usable ones only
  std::vector<std::string> weakened;   // what is weaker here, in every result
  std::string image_digest;            // of the default image
  std::vector<std::string> languages;  // names whose toolchain is present
  std::vector<Finding> findings;
  uint32_t max_sandboxes = 0;
  uint64_t memory_bytes = 0;  // of the machine
  uint32_t cpus = 0;
  std::vector<ProgramLink> links;    // of the default image; at most kMaxProgramLinks
  std::vector<OfferedImage> images;  // besides the default one
};

}  // namespace cloister::model
