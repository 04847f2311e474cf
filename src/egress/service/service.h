// SPDX-License-Identifier: Apache-2.0
// The service cloister-egress: the only process that dials for sandboxes. It takes signed plans
// from the control plane, doors from the node, and joins them by the permit's id. Without a plan
// nothing is allowed, so the death of any process fails closed.
//
//   cloisterd ──frames──▶ ControlLink ─▶ Plans ◀─ NodeLink ◀──descriptors── cloister-node
//                              ▲            │
//                           Record ◀── Door, one per sandbox ─▶ relay ─▶ Dialler
//
// One thread. The executor's context outlives the service.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <boost/asio/any_io_executor.hpp>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"
#include "egress/dial/dial.h"
#include "egress/dial/resolver.h"
#include "egress/packages/gateway.h"
#include "egress/service/settings.h"

namespace cloister::egress {

struct ServiceConfig {
  Settings settings;
  ResolverOptions resolver;
  DialOptions dial;
  uint32_t control_uid = 0;                      // may connect to `control`, as root may
  uint32_t node_uid = 0;                         // may connect to `node`, as root may
  std::function<Result<base::VerifyKey>()> key;  // the control plane's, read at each connection
  // Makes the package gateway, whose upstreams are dialled by `dial`; null: none is configured.
  std::function<std::unique_ptr<PackageGateway>(boost::asio::any_io_executor, Dialler&)> gateway =
      {};
  uint64_t last_batch = 0;  // Record: a number that rises over restarts
};

class Service {
 public:
  // `control` and `node`: listening sockets, SOCK_STREAM and SOCK_SEQPACKET.
  static Result<std::unique_ptr<Service>> start(boost::asio::any_io_executor executor,
                                                ServiceConfig config, Fd control, Fd node);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

 private:
  struct Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cloister::egress
