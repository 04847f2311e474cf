// SPDX-License-Identifier: Apache-2.0
// ChangeLine: what the service's log says of a change that the audit log has an entry of: its
// action and ids (request, execution, session, tenant), and nothing that a client wrote.
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
