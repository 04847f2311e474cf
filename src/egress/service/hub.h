// SPDX-License-Identifier: Apache-2.0
// Hub: the parts that all doors of the process share, and the reports of their attempts: the use of
// the permit, the record for the ledger, and the question to an approver. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>

#include "egress/dial/dial.h"
#include "egress/dial/resolver.h"
#include "egress/packages/gateway.h"
#include "egress/service/permit_state.h"
#include "egress/service/record.h"
#include "wire/egress.h"

namespace cloister::egress {

// A destination as in the record, and the program that asked for the destination.
struct Destination {
  std::string_view host;
  uint16_t port = 0;
  std::string_view transport = "tcp";
  std::string_view address = {};  // that was dialled
  std::string_view program = {};  // a name; "" if unknown
};

struct Hub {
  boost::asio::any_io_executor executor;
  Settings settings;
  Record& record;
  std::function<void(wire::egress::Wanted)> want;
  Dialler& dialler;
  Resolver& resolver;
  PackageGateway* gateway = nullptr;  // null: no index of packages is configured
  size_t connections = 0;             // open, of all sandboxes
  size_t doors = 0;

  // A refused attempt, `count` times. An approver is asked where the verdict says so; `waits`: the
  // connection waits for the answer.
  void denied(PermitState& permit, const Destination& to, const Verdict& verdict,
              std::string_view protocol = {}, uint64_t count = 1);
  // Asks an approver, once for each destination and plan.
  void ask(PermitState& permit, const Destination& to, const Verdict& verdict,
           std::string_view protocol, bool waits);
  // An allowed attempt by `rule`. `count` 0: more bytes of an attempt reported before.
  void allowed(const PermitState& permit, const Destination& to, std::string_view rule,
               uint64_t count, uint64_t bytes_in = 0, uint64_t bytes_out = 0);
};

}  // namespace cloister::egress
