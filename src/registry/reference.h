// SPDX-License-Identifier: Apache-2.0
// The registry client: fetches an image by its digest (OCI distribution specification 1.1) into a
// directory in OCI layout, and checks signatures and bills of materials before any layer is
// fetched. Only `cloister-image pull` uses this folder, in a child process of its own, so that
// credentials and answers of registries are never in the process that reads archives. Every byte
// from a registry is hostile: sizes, times and redirects are bounded, and content counts only once
// its digest is verified. One thread.
//
// Reference: the name of an image in a registry. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::registry {

// The registry of references without a host.
inline constexpr std::string_view kDockerHub = "docker.io";

struct Reference {
  bool tls = true;         // false: "http://" of this machine's loopback
  std::string registry;    // "registry.example:5000"
  std::string repository;  // "team/app"
  std::string digest;      // "sha256:…", of the manifest or index

  // "registry.example:5000/team/app@sha256:…", without a scheme and a tag.
  [[nodiscard]] std::string text() const;
};

// "[http[s]://][HOST[:PORT]/]PATH[:TAG]@sha256:HEX". The first part is a host if it has a "." or a
// ":", or is "localhost"; else the reference is one of docker.io, as for other tools. The tag is
// dropped. kInvalid says what is wrong, and how to find the digest.
Result<Reference> parseReference(std::string_view text);

// Whether the text can be the path of a repository.
bool isRepository(std::string_view text);

// A host of this machine's loopback, without a port.
bool isLoopback(std::string_view host);

}  // namespace cloister::registry
