// SPDX-License-Identifier: Apache-2.0
// ChangeLine: the service's log line for an entry of the audit log. The line has the action and ids
// (request, execution, session, tenant), and no text from a client.
#pragma once

#include <cstdint>
#include <vector>

#include "base/log.h"
#include "model/audit_entry.h"

namespace cloister::store {

class ChangeLine {
 public:
  explicit ChangeLine(const model::AuditEntry& entry);

  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] const std::vector<base::LogField>& fields() const { return fields_; }
  void write() const;

 private:
  uint64_t position_;
  std::string action_;
  std::vector<base::LogField> fields_;
};

}  // namespace cloister::store
