// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "store/anchor.h"
#include "store/anchor_check.h"
#include "store/rows/agents.h"
#include "store/rows/artifacts.h"
#include "store/rows/executions.h"
#include "store/rows/image_bindings.h"
#include "store/rows/keys.h"
#include "store/rows/policies.h"
#include "store/rows/proof.h"
#include "store/rows/queries.h"
#include "store/rows/quotas.h"
#include "store/rows/retention.h"
#include "store/rows/sealed.h"
#include "store/rows/sessions.h"
#include "store/rows/snapshots.h"
#include "store/sql/checkpoint_file.h"
#include "store/sql/encryption.h"
#include "store/sql/readers.h"
#include "store/sql/schema.h"
#include "store/sql/sqlite.h"
#include "store/sql/writer.h"
#include "store/sqlite_escalations.h"
#include "store/sqlite_memory.h"

namespace cloister::store {
namespace {

// Members are destroyed from the last to the first: the writer ends, then the syncer, then the file
// is closed and unlocked.
class SqliteStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> open(const SqliteOptions& options, SyncFunction sync);

  void accept(NewExecution request, model::AuditEvent event, Done<Accepted> done) override {
    std::string id = request.execution.id;
    std::string sha256 = base::sha256Hex(request.request_json);
    const size_t bytes = request.request_json.size() + request.spec.size() +
                         (request.escalation ? request.escalation->workspace_json.size() : 0);
    submit<Accepted>(
        {std::move(id), bytes},
        [request = std::move(request), event = std::move(event), sha256 = std::move(sha256)](
            Transaction tx) { return acceptExecution(tx, request, sha256, event); },
        std::move(done));
  }

  void update(model::Execution execution, model::AuditEvent event, Done<void> done) override {
    std::string id = execution.id;
    const size_t bytes =
        execution.out.bytes.size() + execution.err.bytes.size() + execution.results_bytes;
    submit<void>(
        {std::move(id), bytes},
        [execution = std::move(execution), event = std::move(event)](Transaction tx) {
          return updateExecution(tx, execution, event);
        },
        std::move(done));
  }

  void createSession(NewSession request, model::AuditEvent event, Done<Created> done) override {
    std::string id = request.session.id;
    std::string sha256 = base::sha256Hex(request.request_json);
    submit<Created>(
        {std::move(id), request.request_json.size()},
        [request = std::move(request), event = std::move(event), sha256 = std::move(sha256)](
            Transaction tx) { return createSessionRow(tx, request, sha256, event); },
        std::move(done));
  }

  void updateSession(model::Session session, model::AuditEvent event, Done<void> done) override {
    std::string id = session.id;
    submit<void>(
        {std::move(id), 0},
        [session = std::move(session), event = std::move(event)](Transaction tx) {
          return updateSessionRow(tx, session, event);
        },
        std::move(done));
  }

  void append(model::AuditEvent event, Done<void> done) override {
    submit<void>(
        {},
        [event = std::move(event)](Transaction tx) -> Result<void> {
          TRY(tx.chain.append(tx.db, event));
          return {};
        },
        std::move(done));
  }

  void addArtifact(model::Artifact artifact, model::ArtifactQuota quota, model::AuditEvent event,
                   Done<void> done) override {
    submit<void>(
        {},
        [artifact = std::move(artifact), quota, event = std::move(event)](Transaction tx) {
          return addArtifactRow(tx, artifact, quota, event);
        },
        std::move(done));
  }

  void removeArtifact(const Scope& scope, std::string id, model::AuditEvent event,
                      Done<std::vector<model::BlobName>> done) override {
    submit<std::vector<model::BlobName>>(
        {},
        [scope, id = std::move(id), event = std::move(event)](Transaction tx) {
          return removeArtifactRow(tx, scope, id, event);
        },
        std::move(done));
  }

  void removeArtifacts(std::string tenant, model::AuditEvent event, Done<uint64_t> done) override {
    submit<uint64_t>(
        {},
        [tenant = std::move(tenant), event = std::move(event)](Transaction tx) {
          return removeArtifactRows(tx, tenant, event);
        },
        std::move(done));
  }

  void addSnapshot(NewSnapshot snapshot, model::SnapshotQuota quota, model::AuditEvent event,
                   Done<model::Snapshot> done) override {
    const size_t bytes = snapshot.chunks.size() * sizeof(model::SnapshotChunk);
    submit<model::Snapshot>(
        {snapshot.snapshot.id, bytes},
        [snapshot = std::move(snapshot), quota, event = std::move(event)](Transaction tx) {
          return addSnapshotRows(tx, snapshot, quota, event);
        },
        std::move(done));
  }

  void removeSnapshot(const Scope& scope, std::string id, model::AuditEvent event,
                      Done<std::vector<model::BlobName>> done) override {
    submit<std::vector<model::BlobName>>(
        {},
        [scope, id = std::move(id), event = std::move(event)](Transaction tx) {
          return removeSnapshotRows(tx, scope, id, event);
        },
        std::move(done));
  }

  void noteBlob(model::BlobName blob, Done<void> done) override {
    submit<void>(
        {}, [blob = std::move(blob)](Transaction tx) { return noteUnnamed(tx, blob); },
        std::move(done));
  }

  void putKey(KeyRecord key, model::AuditEvent event, Done<void> done) override {
    submit<void>(
        {},
        [key = std::move(key), event = std::move(event)](Transaction tx) {
          return insertKey(tx, key, event);
        },
        std::move(done));
  }

  void revokeKey(const Scope& scope, std::string id, model::AuditEvent event,
                 Done<void> done) override {
    submit<void>(
        {},
        [scope, id = std::move(id), event = std::move(event)](Transaction tx) {
          return revokeKeyRow(tx, scope, id, event);
        },
        std::move(done));
  }

  void rotateKey(const Scope& scope, KeyRecord key, int64_t ends_at, model::AuditEvent event,
                 Done<void> done) override {
    submit<void>(
        {},
        [scope, key = std::move(key), ends_at, event = std::move(event)](Transaction tx) {
          return rotateKeyRow(tx, scope, key, ends_at, event);
        },
        std::move(done));
  }

  void putPolicy(NewPolicy policy, model::AuditEvent event, Done<int64_t> done) override {
    const size_t bytes = policy.policy.document.size();
    submit<int64_t>(
        {"", bytes},
        [policy = std::move(policy), event = std::move(event)](Transaction tx) {
          return putPolicyRow(tx, policy, event);
        },
        std::move(done));
  }

  void noteKeyUse(std::string id, int64_t at, Done<void> done) override {
    submit<void>(
        {}, [id = std::move(id), at](Transaction tx) { return noteKeyUseRow(tx, id, at); },
        std::move(done));
  }

  void retain(const Retention& rules, Done<Retained> done) override {
    submit<Retained>(
        {}, [rules](Transaction tx) { return retainBatch(tx, rules, base::wallMicros()); },
        std::move(done));
  }

  Result<model::Execution> get(const Scope& scope, const std::string& id) override {
    return read(id, [&](Database& db) { return getExecution(db, scope, id); });
  }

  Result<std::vector<model::Execution>> list(const Scope& scope, const ListQuery& query) override {
    return read("", [&](Database& db) { return listExecutions(db, scope, query); });
  }

  Result<Recorded> recorded(const Scope& scope, const std::string& id) override {
    return read(id, [&](Database& db) { return recordedExecution(db, scope, id); });
  }

  Result<model::Artifact> artifact(const Scope& scope, const std::string& id) override {
    return read("", [&](Database& db) { return getArtifact(db, scope, id, base::wallMicros()); });
  }

  Result<std::vector<model::Artifact>> artifacts(const Scope& scope,
                                                 const ArtifactQuery& query) override {
    return read("",
                [&](Database& db) { return listArtifacts(db, scope, query, base::wallMicros()); });
  }

  Result<model::Snapshot> snapshot(const Scope& scope, const std::string& id) override {
    return read("", [&](Database& db) { return getSnapshot(db, scope, id, base::wallMicros()); });
  }

  Result<std::vector<model::Snapshot>> snapshots(const Scope& scope,
                                                 const ArtifactQuery& query) override {
    return read("",
                [&](Database& db) { return listSnapshots(db, scope, query, base::wallMicros()); });
  }

  Result<uint64_t> snapshotCount(const std::string& tenant) override {
    return read("", [&](Database& db) { return countSnapshots(db, tenant); });
  }

  Result<model::ArtifactQuota> artifactUsage(const std::string& tenant) override {
    return read("", [&](Database& db) { return readArtifactUsage(db, tenant); });
  }

  Result<bool> isNamed(const model::BlobName& blob) override {
    return read("", [&](Database& db) { return isBlobNamed(db, blob); });
  }

  Result<std::vector<Pending>> unfinished() override {
    return read("", [](Database& db) { return unfinishedExecutions(db); });
  }

  Result<std::optional<model::Execution>> earlier(const NewExecution& request) override {
    return read("", [&](Database& db) {
      return earlierExecution(db, request, base::sha256Hex(request.request_json));
    });
  }

  Result<std::optional<model::Session>> earlier(const NewSession& request) override {
    return read("", [&](Database& db) {
      return earlierSession(db, request, base::sha256Hex(request.request_json));
    });
  }

  Result<model::Session> session(const Scope& scope, const std::string& id) override {
    return read(id, [&](Database& db) { return getSession(db, scope, id); });
  }

  Result<std::vector<model::Session>> sessions(const Scope& scope,
                                               const SessionQuery& query) override {
    return read("", [&](Database& db) { return listSessions(db, scope, query); });
  }

  Result<PendingSession> pendingSession(const Scope& scope, const std::string& id) override {
    return read("", [&](Database& db) { return pendingSessionRow(db, scope, id); });
  }
  Result<std::vector<model::Session>> unfinishedSessions() override {
    return read("", [](Database& db) { return unfinishedSessionRows(db); });
  }

  Result<std::optional<KeyRecord>> keyByHash(const std::string& sha256) override {
    return read("", [&](Database& db) { return findKey(db, sha256); });
  }

  Result<std::vector<KeyRecord>> keys(const Scope& scope) override {
    return read("", [&](Database& db) { return listKeys(db, scope); });
  }

  Result<std::vector<KeyRecord>> successors(const std::string& id, int64_t now,
                                            uint32_t limit) override {
    return read("", [&](Database& db) { return successorRows(db, id, now, limit); });
  }

  Result<KeyRecord> key(const Scope& scope, const std::string& id) override {
    return read("", [&](Database& db) { return getKey(db, scope, id); });
  }

  Result<std::optional<PolicyVersion>> policyVersion(int64_t version) override {
    return read("", [&](Database& db) { return getPolicy(db, version); });
  }

  Result<std::vector<PolicyVersion>> policyVersions(const PolicyQuery& query) override {
    return read("", [&](Database& db) { return listPolicies(db, query); });
  }

  Result<std::vector<RecordedRequest>> requests(const Scope& scope, uint32_t limit) override {
    return read("", [&](Database& db) { return listRequests(db, scope, limit); });
  }

  Result<std::vector<model::AuditEntry>> audit(const Scope& scope, uint64_t after,
                                               uint32_t limit) override {
    return read("", [&](Database& db) { return readAudit(db, scope, after, limit); });
  }

  Result<AuditPage> searchAudit(const Scope& scope, const AuditSearch& search) override {
    return read("", [&](Database& db) { return store::searchAudit(db, scope, search); });
  }

  void redact(Scope scope, uint64_t position, std::string member, model::AuditEvent event,
              Done<void> done) override {
    submit<void>(
        {},
        [scope = std::move(scope), position, member = std::move(member), event = std::move(event)](
            Transaction tx) { return redactRow(tx, scope, position, member, event); },
        std::move(done));
  }

  Result<std::optional<Checkpoint>> head() override {
    return read("", [](Database& db) { return readHead(db); });
  }

  Result<std::vector<Mismatch>> mismatches(uint64_t after, uint32_t limit) override {
    return read("", [&](Database& db) { return findMismatches(db, after, limit); });
  }

  Result<std::vector<Mismatch>> sessionMismatches(uint64_t after, uint32_t limit) override {
    return read("", [&](Database& db) { return findSessionMismatches(db, after, limit); });
  }

  Escalations& escalations() override { return *escalations_; }

  Result<> health() override { return writer_->health(); }

  AgentStore& agents() override { return agents_; }

  ImageStore& images() override { return images_; }

  MemoryStore& memory() override { return *memory_; }

  QuotaStore& quotas() override { return quotas_; }

 private:
  // What the queue needs to know of a write.
  struct About {
    std::string subject;
    size_t bytes = 0;
  };

  template <class T>
  void submit(About about, typename WriteOf<T>::Work work, Done<T> done) {
    auto write = std::make_unique<WriteOf<T>>(std::move(work), std::move(done));
    write->subject = std::move(about.subject);
    write->bytes = about.bytes;
    writer_->submit(std::move(write));
  }

  // What is read is shown only once it is as durable as an acknowledgement.
  template <class Read>
  auto read(const std::string& subject, Read read) -> decltype(read(std::declval<Database&>())) {
    auto result = readers_.with(read);
    TRY(syncer_->settle(subject));
    return result;
  }

  // The same queue and connections, for what is about agents.
  class Agents final : public AgentStore {
   public:
    explicit Agents(SqliteStore& store) : store_(store) {}

    void put(const Scope& scope, model::AgentSandbox sandbox, uint64_t expected, uint64_t most,
             model::AuditEvent event, Done<model::AgentSandbox> done) override {
      store_.submit<model::AgentSandbox>(
          {},
          [=, sandbox = std::move(sandbox), event = std::move(event)](Transaction tx) {
            return putAgentRow(tx, scope, sandbox, expected, most, event);
          },
          std::move(done));
    }
    void remove(const Scope& scope, AgentName name, model::AuditEvent event,
                Done<void> done) override {
      store_.submit<void>(
          {},
          [scope, name = std::move(name), event = std::move(event)](Transaction tx) {
            return removeAgentRow(tx, scope, name, event);
          },
          std::move(done));
    }
    void addViolation(model::Violation violation, std::vector<Lowering> rules, model::Principal by,
                      Done<AfterViolation> done) override {
      store_.submit<AfterViolation>(
          {},
          [violation = std::move(violation), rules = std::move(rules), by = std::move(by)](
              Transaction tx) { return addViolationRow(tx, violation, rules, by); },
          std::move(done));
    }
    Result<model::AgentSandbox> sandbox(const Scope& scope, const AgentName& name) override {
      return store_.read("", [&](Database& db) { return getAgent(db, scope, name); });
    }
    Result<std::vector<model::AgentSandbox>> sandboxes(const Scope& scope,
                                                       const AgentQuery& query) override {
      return store_.read("", [&](Database& db) { return listAgents(db, scope, query); });
    }
    Result<std::vector<model::Violation>> violations(const Scope& scope,
                                                     const ViolationQuery& query) override {
      return store_.read("", [&](Database& db) { return listViolations(db, scope, query); });
    }
    Result<std::vector<model::AuditEntry>> audit(const Scope& scope,
                                                 const AgentAuditQuery& query) override {
      return store_.read("", [&](Database& db) { return readAgentAudit(db, scope, query); });
    }
    Result<AgentStats> stats(const Scope& scope, const AgentName& name) override {
      return store_.read("", [&](Database& db) { return readAgentStats(db, scope, name); });
    }

   private:
    SqliteStore& store_;
  };

  // And for images.
  class Images final : public ImageStore {
   public:
    explicit Images(SqliteStore& store) : store_(store) {}

    void noteUnverified(Unverified execution, Done<void> done) override {
      store_.submit<void>(
          {},
          [execution = std::move(execution)](Transaction tx) {
            return noteUnverifiedRow(tx, execution);
          },
          std::move(done));
    }
    void bind(VerifiedImage image, Done<uint64_t> done) override {
      store_.submit<uint64_t>(
          {}, [image = std::move(image)](Transaction tx) { return bindImageRows(tx, image); },
          std::move(done));
    }

   private:
    SqliteStore& store_;
  };

  // And for quotas.
  class Quotas final : public QuotaStore {
   public:
    explicit Quotas(SqliteStore& store) : store_(store) {}

    void put(model::QuotaRecord record, uint64_t most, model::AuditEvent event,
             Done<void> done) override {
      store_.submit<void>(
          {},
          [record = std::move(record), most, event = std::move(event)](Transaction tx) {
            return putQuotaRow(tx, record, most, event);
          },
          std::move(done));
    }
    Result<std::vector<model::QuotaRecord>> all() override {
      return store_.read("", [](Database& db) { return readQuotas(db); });
    }
    Result<std::vector<CpuUse>> cpuSince(int64_t since) override {
      return store_.read("", [since](Database& db) { return readCpuSince(db, since); });
    }

   private:
    SqliteStore& store_;
  };

  Result<> openAnchor(const SqliteOptions& options, SyncFunction sync);
  void endOldNumbers();

  Fd lock_;
  Fault fault_;
  Readers readers_;
  std::unique_ptr<Anchor> anchor_;
  std::unique_ptr<Syncer> syncer_;
  std::unique_ptr<Writer> writer_;
  Agents agents_{*this};
  Images images_{*this};
  Quotas quotas_{*this};
  std::unique_ptr<SqliteEscalations> escalations_;
  std::unique_ptr<SqliteMemory> memory_;
};

Result<Fd> lockLedger(const std::string& path) {
  const std::string name = path + ".lock";
  Fd fd(::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) return failErrno("opening " + name);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return failErrno("locking " + name);
  return fail(Code::kConflict, "opening the ledger " + path + ": another process has it open");
}

// What the last run left in the log goes into the database and is synced: if that run ended because
// a sync failed, the kernel may show pages that are not on disk.
Result<> settleLog(Database& db, Fault& fault) {
  auto moved = moveLogIntoDatabase(db, sqlite::Move::kTruncate, fault);
  if (moved || moved.error().code != Code::kNoSpace) return moved;
  base::log(base::Level::kWarn, "ledger opened on a full disk", {{"error", moved.error().message}});
  return {};
}

Result<> bringUpToDate(const SqliteOptions& options, Fault& fault) {
  {
    Database db = TRY(sqlite::open(options.path));
    TRY(migrate(db));
    TRY(settleLog(db, fault));
  }
  return encryptAll(options.path, options.cipher);
}

Result<std::unique_ptr<Store>> SqliteStore::open(const SqliteOptions& options, SyncFunction sync) {
  auto made = std::make_unique<SqliteStore>();
  made->lock_ = TRY(lockLedger(options.path));
  TRY(bringUpToDate(options, made->fault_));
  Database db = TRY(openWithCipher(options.path, options.cipher));
  Chain chain(options.audit_key);
  std::string problem = TRY(chain.load(db));
  const bool anchors = options.audit_key && !options.anchor_file.empty();
  AnchorFinding anchor;
  if (anchors) {
    anchor = TRY(
        compareWithAnchor(db, chain.head(), options.anchor_file, options.audit_key->verifyKey()));
    TRY(made->openAnchor(options, sync));
  }
  const auto lines = readCheckpoints(options.checkpoint_file);
  if (!lines) problem = lines.error().message;
  if (problem.empty() && !lines->empty()) problem = TRY(compareWithCheckpoint(db, lines->back()));
  if (!anchor.problem.empty()) problem = anchor.problem;  // which names the first entry
  TRY(made->readers_.open(options.path, std::max(1U, options.readers), options.cipher));
  made->syncer_ = TRY(Syncer::start({.ledger = options.path,
                                     .durability = options.durability,
                                     .checkpoint_file = options.checkpoint_file,
                                     .anchor = made->anchor_.get(),
                                     .backlog = options.queue,
                                     .sync = std::move(sync)},
                                    made->fault_));
  const bool known = problem.empty() && !lines->empty();
  const bool old_numbers = chain.head().old_numbers;
  const Writer::Options writing{.queue = options.queue,
                                .queue_bytes = options.queue_bytes,
                                .batch = options.batch,
                                .checkpoint_every = options.checkpoint_every,
                                .checkpointed = known ? lines->back().seq : 0,
                                .anchor = made->anchor_.get()};
  made->writer_ = std::make_unique<Writer>(std::move(db), std::move(chain), writing, *made->syncer_,
                                           made->fault_);
  made->escalations_ =
      std::make_unique<SqliteEscalations>(*made->writer_, made->readers_, *made->syncer_);
  made->memory_ = std::make_unique<SqliteMemory>(*made->writer_, made->readers_, *made->syncer_);
  TRY(recordFinding(*made, problem, anchor));
  if (old_numbers) made->endOldNumbers();
  return made;
}

// At the upgrade already. Where it fails, as on a full disk, Chain::append() does it.
void SqliteStore::endOldNumbers() {
  std::promise<void> ended;
  submit<void>(
      {}, [](Transaction tx) { return tx.chain.renumber(tx.db); },
      [&](const Result<>&) { ended.set_value(); });
  ended.get_future().wait();
}

Result<> SqliteStore::openAnchor(const SqliteOptions& options, SyncFunction sync) {
  auto opened = Anchor::open({.path = options.anchor_file,
                              .max_bytes = options.anchor_max_bytes,
                              .durability = options.durability,
                              .sync = std::move(sync)});
  if (!opened) return std::unexpected(std::move(opened).error().within("audit.anchor_file"));
  anchor_ = *std::move(opened);
  return {};
}

}  // namespace

Result<std::unique_ptr<Store>> openSqliteWith(const SqliteOptions& options, SyncFunction sync) {
  return SqliteStore::open(options, std::move(sync));
}

Result<std::unique_ptr<Store>> openSqlite(const SqliteOptions& options) {
  return openSqliteWith(options, base::syncData);
}

}  // namespace cloister::store
