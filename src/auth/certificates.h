// SPDX-License-Identifier: Apache-2.0
// Client certificates → Principal. TLS has verified the certificate (api/tls.h); this class finds
// the principal by the configuration's `tls.clients`. Only the names of its subjectAltName count
// (RFC 5280 §4.2.1.6), never its common name (RFC 9525 §2). Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/principal.h"

namespace cloister::auth {

struct ClientCertificate {
  std::vector<std::string> names;  // "uri:…", "dns:…" and "email:…", in its order
  std::string sha256;              // of the whole, 64 hex digits
  int64_t not_after = 0;           // wall microseconds
};

class Certificates {
 public:
  // Each row is `NAME = tenant:T [app:A] [agent:A] [user:U] roles:R[,R]`. kInvalid names the key,
  // the row and the mistake.
  static Result<Certificates> parse(const std::vector<std::string>& rows);

  // The principal for `certificate` at `now` (wall microseconds): from the row of the first of its
  // names with a row. refused() if no name has a row, or if the certificate has expired since the
  // connection was made.
  [[nodiscard]] Result<model::Principal> identify(const ClientCertificate& certificate,
                                                  int64_t now) const;

 private:
  std::map<std::string, model::Principal, std::less<>> by_name_;
};

}  // namespace cloister::auth
