// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: the fixture of its tests.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace cloister::store {

using testing::accept;
using testing::admin;
using testing::await;
using testing::principal;
using testing::queued;
using testing::update;

// Makes a fresh, empty store; the deleter holds the store's dependencies.
using StoreFactory = std::function<std::shared_ptr<Store>()>;

class StoreSuite : public ::testing::TestWithParam<StoreFactory> {
 protected:
  std::shared_ptr<Store> store_ = GetParam()();
  Scope all_ = Scope::allTenants();

  std::vector<model::AuditEntry> auditAll() {
    return store_->audit(all_, 0, 1000).value_or(std::vector<model::AuditEntry>{});
  }
};

}  // namespace cloister::store
