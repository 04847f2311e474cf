// SPDX-License-Identifier: Apache-2.0
// Control: shared parts of the orchestrator's services: the executor, the ledger, the nodes and
// their capacity, quotas, and the permits. Control is made first, and each service gets Control by
// its constructor. For these parts a service needs no other service.
//
// Everything is used on `executor` (one thread). The parts, including the store's callbacks, are
// used until the executor's context is destroyed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "model/language.h"
#include "orchestrator/core/ledger.h"
#include "orchestrator/core/metrics.h"
#include "orchestrator/core/nodes.h"
#include "orchestrator/core/permits.h"
#include "orchestrator/core/places.h"
#include "orchestrator/core/policy_engine.h"
#include "orchestrator/core/task.h"
#include "store/store.h"
#include "trace/tracer.h"

namespace cloister::policy {
struct Levels;
}

namespace cloister::orchestrator {

class Layers;
class Network;
class Quotas;

struct ControlConfig {
  uint32_t concurrent = 0;    // sandboxes at once; 0: the node's number
  double memory_share = 0.8;  // part of the node's memory for the limits of running sandboxes
  Fairness fairness = {};     // between tenants, for every shared resource
  uint64_t disk_bytes = 0;    // of workspaces on disk, together
  uint64_t disk_over_bytes = UINT64_MAX;  // model::needsDisk()
  std::chrono::milliseconds permit_life{30'000};
  bool end_revoked = true;                    // end executions whose agent lost the permission
  model::InternalDestinations internal = {};  // of the network tier internal
  model::PackageSettings packages = {};       // of the package gateway
};

// The parts outlive every service.
struct ControlParts {
  boost::asio::thread_pool& background;  // for slow work: disk, encryption of large data
  store::Store& store;
  const model::LanguageSet& languages;
  PolicyEngine& policy;
  const base::SigningKey& permit_key;
  Metrics& metrics;
  const policy::Levels* levels = nullptr;  // risk levels of commands; null: no risks are found
  Quotas* quotas = nullptr;                // of tenants and agents; null: there are none
  trace::Tracer* tracer = nullptr;         // null: nothing is traced
  Network* network = nullptr;              // the doors of sandboxes; null: no sandbox gets one
};

class Control : public std::enable_shared_from_this<Control> {
 public:
  Control(boost::asio::any_io_executor executor, ControlParts parts, ControlConfig config);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Writes a record before its content is made known. Retries until the ledger accepts the record,
  // or refuses for good with an error of its own. `id`: the record's id.
  Task<Result<>> insist(std::string id, std::function<Task<Result<>>()> write);
  // As insist(), for a record `written` before anything ran. After a temporary refusal the write is
  // retried in the background, while reads are served. Returns only permanent errors.
  Result<> orInsist(Result<> written, std::string id, std::function<Task<Result<>>()> write);
  // Records refused for now by the ledger.
  [[nodiscard]] uint32_t unrecorded() const { return unrecorded_; }
  // From then on insist() gives up at the next refusal. Before: never.
  void giveUpAt(base::Monotonic when) { give_up_ = when; }
  [[nodiscard]] base::Monotonic givesUpAt() const { return give_up_; }
  // At once: the services are going.
  void stop() { stopped_ = true; }

  const boost::asio::any_io_executor executor;
  boost::asio::thread_pool& background;
  store::Store& store;
  const model::LanguageSet& languages;
  const PolicyEngine& engine;
  Metrics& metrics;
  const policy::Levels* const levels;
  Quotas* const quotas;
  Network* const network;
  trace::Tracer* const tracer;
  Layers* layers = nullptr;  // dependencies; null: there are none. Set before the first request
  const ControlConfig config;
  Ledger ledger;
  Places places;  // of the nodes; a sandbox's is held up to the end of its teardown
  Nodes nodes;
  const Permits permits;
  async::Signal changed;  // a run, a session or a sandbox less, or more room

 private:
  uint32_t unrecorded_ = 0;
  base::Monotonic give_up_ = base::Monotonic::max();
  bool stopped_ = false;
};

}  // namespace cloister::orchestrator
