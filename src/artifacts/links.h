// SPDX-License-Identifier: Apache-2.0
// Links: the holder of a link may read one artifact, reach one port of one session, or write one
// file of one session, until the link expires, without a key. The signature is an HMAC-SHA256 under
// a key of the tenant, so the links end with the tenant's key. The signature covers the credential
// that made the link. The caller checks whether the credential is still valid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"

namespace cloister::artifacts {

struct Link {
  std::string tenant;
  std::string artifact;    // id
  int64_t expires_at = 0;  // Unix seconds
  std::string made_with;   // id of a credential
};

// Gives the holder access to a port of a session.
struct PortLink {
  std::string tenant;
  std::string session;  // id
  uint16_t port = 0;
  int64_t expires_at = 0;  // Unix seconds
  std::string made_with;   // id of a credential
};

// Lets the holder write a file of a session.
struct FileLink {
  std::string tenant;
  std::string session;     // id
  std::string path;        // below the workspace
  int64_t expires_at = 0;  // Unix seconds
  std::string made_with;   // id of a credential
};

// 64 hex digits.
std::string signFileLink(const TenantKeys& keys, const FileLink& link);
bool verifyFileLink(const TenantKeys& keys, const FileLink& link, std::string_view signature);

// 64 hex digits.
std::string signPortLink(const TenantKeys& keys, const PortLink& link);
bool verifyPortLink(const TenantKeys& keys, const PortLink& link, std::string_view signature);

// 64 hex digits.
std::string signLink(const TenantKeys& keys, const Link& link);
// Whether signLink() made `signature`, in constant time. The caller checks the expiry.
bool verifyLink(const TenantKeys& keys, const Link& link, std::string_view signature);

}  // namespace cloister::artifacts
