// SPDX-License-Identifier: Apache-2.0
#include "egress/service/service.h"

#include <utility>

#include "async/spawn.h"
#include "egress/service/control_link.h"
#include "egress/service/hub.h"
#include "egress/service/node_link.h"
#include "egress/service/plans.h"
#include "egress/service/record.h"

namespace cloister::egress {

struct Service::Impl {
  Impl(boost::asio::any_io_executor on, ServiceConfig config, std::unique_ptr<Resolver> names)
      : executor(on),
        plans(on, config.settings),
        record(config.settings.attempts_kept, config.last_batch),
        resolver(std::move(names)),
        dialler(on, *resolver, std::move(config.dial)),
        gateway(config.gateway ? config.gateway(on, dialler) : nullptr),
        control(std::make_shared<ControlLink>(on, config.settings, config.control_uid,
                                              std::move(config.key), plans, record)),
        hub{.executor = on,
            .settings = config.settings,
            .record = record,
            .want = [this](wire::egress::Wanted wanted) { control->want(std::move(wanted)); },
            .dialler = dialler,
            .resolver = *resolver,
            .gateway = gateway.get()} {}

  boost::asio::any_io_executor executor;
  Plans plans;
  Record record;
  std::unique_ptr<Resolver> resolver;
  Dialler dialler;
  std::unique_ptr<PackageGateway> gateway;
  std::shared_ptr<ControlLink> control;
  Hub hub;
};

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::start(boost::asio::any_io_executor executor,
                                                ServiceConfig config, Fd control, Fd node) {
  auto resolver = TRY(Resolver::make(executor, config.resolver));
  const uint32_t node_uid = config.node_uid;
  auto impl = std::make_unique<Impl>(executor, std::move(config), std::move(resolver));
  async::spawn(executor, ControlLink::listen(impl->control, std::move(control)));
  async::spawn(executor, ControlLink::sendBatches(impl->control));
  async::spawn(executor, NodeLink::listen(impl->hub, impl->plans, node_uid, std::move(node)));
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

}  // namespace cloister::egress
