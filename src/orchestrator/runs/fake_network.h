// SPDX-License-Identifier: Apache-2.0
// For tests: a Network without cloister-egress, which remembers what it was asked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/core/network.h"

namespace cloister::orchestrator {

class FakeNetwork final : public Network {
 public:
  struct Opened {
    model::NetworkPlan first;
    DoorOwner owner;
    Again again;
    DoorSecrets secrets;
  };

  Task<Result<>> open(model::NetworkPlan first, DoorOwner owner, Again again,
                      DoorSecrets secrets) override {
    if (refusal) co_return std::unexpected(*refusal);
    const std::string permit = first.permit;
    order.push_back(permit);
    opened.insert_or_assign(
        permit, Opened{std::move(first), std::move(owner), std::move(again), std::move(secrets)});
    co_return Result<>{};
  }
  Task<Result<std::string>> confirm(std::string permit) override {
    if (late_refusal) co_return std::unexpected(*late_refusal);
    in_force.push_back(std::move(permit));
    co_return certificate;
  }
  void close(const std::string& permit) override { closed.push_back(permit); }
  Task<Result<model::NetworkUse>> use(std::string /*permit*/) override {
    uses++;
    if (use_refusal) co_return std::unexpected(*use_refusal);
    co_return used;
  }

  std::string certificate;            // of each door
  std::optional<Error> refusal;       // of further doors
  std::optional<Error> late_refusal;  // of further doors, after the sandbox was requested
  std::optional<Error> use_refusal;   // of further questions for the use
  model::NetworkUse used;
  std::map<std::string, Opened> opened;
  std::vector<std::string> order;
  std::vector<std::string> in_force;
  std::vector<std::string> closed;
  int uses = 0;
};

}  // namespace cloister::orchestrator
