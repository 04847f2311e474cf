// SPDX-License-Identifier: Apache-2.0
// The package gateway as the configuration describes it. Files are read, and folders opened, before
// the process becomes its own user, which may not read the credentials.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "base/result.h"
#include "egress/dial/dial.h"
#include "egress/packages/gateway.h"
#include "model/egress_settings.h"
#include "model/packages.h"

namespace cloister::egress {

using MakeGateway =
    std::function<std::unique_ptr<PackageGateway>(boost::asio::any_io_executor, Dialler&)>;

// An empty function where no upstream is configured. Errors name the setting.
Result<MakeGateway> prepareGateway(const model::PackageSettings& packages,
                                   uint32_t advisories_seconds,
                                   const model::EgressSettings& egress);

// The value of Authorization for the one line of a credentials file: "USER:PASSWORD" is sent as
// Basic (RFC 7617), "Bearer TOKEN" as it is. `key`: the setting, for errors, which never have the
// line.
Result<std::string> readAuthorization(const std::string& path, const std::string& key);

}  // namespace cloister::egress
