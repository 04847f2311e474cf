// SPDX-License-Identifier: Apache-2.0
// The ledger's records a second from 64 clients, each waiting for its own record, and the length of
// the wait. Prints a line of JSON per durability: ledger_bench [SECONDS [DIRECTORY]].
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/open.h"
#include "store/store_testing.h"

namespace {

using namespace cloister;

constexpr int kClients = 64;

std::vector<double> client(store::Store& store, const std::atomic<bool>& stop) {
  std::vector<double> waits;
  while (!stop) {
    const store::NewExecution request = store::testing::queued();
    const auto start = base::monotonicNow();
    if (!store::testing::accept(store, request)) return {};
    waits.push_back(
        std::chrono::duration<double, std::milli>(base::monotonicNow() - start).count());
  }
  return waits;
}

void measure(store::Durability durability, const char* name, int seconds, const std::string& in) {
  const store::testing::TempDir dir(in);
  store::SqliteOptions options;
  options.path = dir.file("ledger.db");
  options.durability = durability;
  options.audit_key = std::make_shared<const base::SigningKey>(base::SigningKey::generate());
  options.checkpoint_file = dir.file("checkpoints");
  const auto store = store::openSqlite(options).value();
  std::atomic<bool> stop = false;
  std::vector<std::vector<double>> waits(kClients);
  const auto start = base::monotonicNow();
  {
    std::vector<std::jthread> clients;
    for (auto& mine : waits)
      clients.emplace_back([&] { mine = client(*store, stop); });
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    stop = true;
  }
  const double took = std::chrono::duration<double>(base::monotonicNow() - start).count();
  std::vector<double> all;
  for (const auto& mine : waits)
    all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  if (all.empty()) return;
  const auto at = [&](double share) {
    return all[static_cast<size_t>(share * static_cast<double>(all.size() - 1))];
  };
  std::printf(
      "{\"bench\":\"ledger\",\"durability\":\"%s\",\"clients\":%d,\"records_per_second\":%.0f,"
      "\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.2f}\n",
      name, kClients, static_cast<double>(all.size()) / took, at(0.5), at(0.99), at(1));
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::stoi(argv[1]) : 5;
  const std::string in = argc > 2 ? argv[2] : std::filesystem::temp_directory_path().string();
  measure(store::Durability::kProcess, "process", seconds, in);
  measure(store::Durability::kPower, "power", seconds, in);
}
