// SPDX-License-Identifier: Apache-2.0
// Settings of `artifacts.s3`: a bucket in place of a local directory. docs/adr/0124.
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct S3Settings {
  std::string endpoint;                 // URL; "": blobs are in the state directory
  std::string bucket;                   // exists already
  std::string region = "us-east-1";     // as the store calls its own
  std::string prefix = "cloister";      // of the names of objects; "": none
  std::string credentials_file;         // "": the systemd credential, or the environment
  std::string ca_file;                  // "": the system's authorities
  uint32_t connections = 16;            // requests at once
  uint32_t timeout_seconds = 30;        // for the connection, and for each sign of life
  uint32_t attempts = 4;                // of a request
  uint32_t part_mb = 16;                // a larger blob is sent in parts
  uint32_t parts_at_once = 4;           // of one blob
  uint32_t abandoned_seconds = 86'400;  // age at which an upload in parts is aborted
};

}  // namespace cloister::model
