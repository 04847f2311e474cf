// SPDX-License-Identifier: Apache-2.0
// Task: a coroutine of the orchestrator. All tasks run on one executor.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace cloister::orchestrator {

template <class T>
using Task = boost::asio::awaitable<T>;

}  // namespace cloister::orchestrator
