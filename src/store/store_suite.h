// SPDX-License-Identifier: Apache-2.0
// The conformance suite of store.h: instantiate it for each implementation.
//   INSTANTIATE_TEST_SUITE_P(Sqlite, StoreSuite, ::testing::Values(factory));
#pragma once

#include "store/suite/accept.h"
#include "store/suite/agents.h"
#include "store/suite/approvals.h"
#include "store/suite/artifacts.h"
#include "store/suite/audit.h"
#include "store/suite/boundary.h"
#include "store/suite/documents.h"
#include "store/suite/escalations.h"
#include "store/suite/images.h"
#include "store/suite/keys.h"
#include "store/suite/lifecycle.h"
#include "store/suite/memory.h"
#include "store/suite/policies.h"
#include "store/suite/quotas.h"
#include "store/suite/secrets.h"
#include "store/suite/sessions.h"
#include "store/suite/snapshots.h"
#include "store/suite/ui_sessions.h"
