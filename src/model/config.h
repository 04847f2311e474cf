// SPDX-License-Identifier: Apache-2.0
// Config: the one configuration file (YAML), shared by every process of the service. Every key is
// optional; names carry their unit. docs/CONFIGURATION.md explains each key; a test compares the
// two. To add a key: a member here and a row in config_keys.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/compat_settings.h"
#include "model/dlp_settings.h"
#include "model/egress_settings.h"
#include "model/escalation_settings.h"
#include "model/guest_settings.h"
#include "model/image.h"
#include "model/layer_settings.h"
#include "model/limits.h"
#include "model/mcp_settings.h"
#include "model/node_settings.h"
#include "model/oidc_settings.h"
#include "model/packages.h"
#include "model/run_request.h"
#include "model/s3_settings.h"
#include "model/session_settings.h"
#include "model/trace_settings.h"
#include "model/ui_settings.h"

namespace cloister::model {

enum class Durability : uint8_t { kProcess, kPower };  // see store/store.h
// The fate of sessions and programs whose credential is revoked.
enum class OnRevoke : uint8_t { kFinish, kEnd };

// cloisterd's uid and gid when started as root without an existing `user`.
inline constexpr uint32_t kFallbackId = 64'750;

struct Config {
  std::string listen = "127.0.0.1:8750";  // host:port; port 0: any free port
  std::string state;                      // "" = base::defaultStateDir()
  std::string user = "cloister";          // cloisterd's user when started as root
  Durability durability = Durability::kProcess;
  std::string tools;  // path; "" = policies/tools.yaml of the installation

  struct Policy {
    std::string document;       // or `policy: FILE`; "" = policies/default.yaml of the installation
    bool allow_weaker = false;  // replace a runtime that no node offers by a weaker runtime
  } policy;

  // The history of the policy document.
  struct Policies {
    uint32_t history = 1000;          // versions kept
    uint32_t replay = 200;            // maximum number of recorded requests for trying a new
                                      // version
    std::string engine = "embedded";  // decision engine: "embedded" or "opa"
    struct Opa {                      // the Open Policy Agent, if the engine; docs/POLICY.md
      std::string url;                // https://…, http:// of loopback, or unix:/path
      uint32_t timeout_ms = 250;
      uint32_t answer_bytes = 65'536;
      std::string token_file;  // "": none is sent
      std::string ca_file;     // "" = the system's authorities
    } opa;
  } policies;

  struct Http {
    uint32_t max_connections = 4096;
    uint32_t requests_per_tenant = 3072;  // concurrent: below max_connections, so that no tenant
                                          // locks out others
    uint32_t header_bytes = 16'384;
    uint64_t body_bytes = uint64_t{32} << 20;
    uint32_t header_timeout_seconds = 10;      // to receive a whole request head
    uint32_t idle_timeout_seconds = 60;        // between requests, and between bytes of a body
    uint32_t heartbeat_seconds = 15;           // on event streams
    std::vector<std::string> allowed_hosts;    // names in Host beyond loopback and `listen`
    std::vector<std::string> trusted_proxies;  // networks whose X-Forwarded-* are believed
  } http;

  struct Tls {  // HTTPS on every TCP listener, and clients' certificates; docs/IDENTITY.md
    std::string certificate;           // PEM file: the server's, then its issuers'. "": plain HTTP
    std::string key;                   // PEM file of its private key
    std::string client_ca;             // PEM file: authorities of client certificates. "": no
                                       // certificate requested
    std::string client_crl;            // PEM file: certificates revoked by these authorities
    std::vector<std::string> clients;  // "NAME = tenant:T agent:A … roles:R"
  } tls;

  // Browsers that call the API from pages of other origins.
  struct Api {
    std::vector<std::string> cors_origins;  // "https://app.example"
  } api;

  UiSettings ui;

  // Servers in sessions.
  struct Ports {
    std::string domain;  // NAME[:PORT], whose names below are ports of sessions; "": none
  } ports;

  struct Run {
    uint32_t concurrent = 0;  // sandboxes at once; 0: as many as the node offers
    uint32_t queue = 1024;
    uint32_t queue_per_tenant = 256;
    uint64_t output_artifact_bytes = uint64_t{64} << 20;  // of a stream past its cap
    uint32_t finished_in_memory = 256;
    uint32_t permit_life_seconds = 30;
  } run;

  SessionSettings session;

  // Shares of tenants in the service's common resources.
  struct Fairness {
    uint32_t kept_percent = 12;
    uint32_t skip_seconds = 5;
    std::vector<std::string> weights;  // "TENANT = N"
  } fairness;

  // Interpreters that keep state between a session's cells.
  struct Kernels {
    uint32_t max_per_session = 4;                // at once
    uint32_t max_results = 64;                   // of a cell
    uint64_t result_bytes = uint64_t{4} << 20;   // of a result
    uint64_t results_bytes = uint64_t{8} << 20;  // of all results of a cell
    uint64_t code_bytes = uint64_t{1} << 20;     // of a cell
    uint32_t interrupt_ms = 2000;  // for a cell to yield to its interrupt, then its kernel is ended
  } kernels;

  // The maximum of any request; a node refuses a permit above the maximum.
  Limits limits = defaultBounds().max;
  NodeSettings node;

  // Storage for sandboxes whose files exceed their memory.
  struct Workspace {
    struct Disk {
      std::string directory;         // "" = the state directory
      uint64_t over_mb = 1024;       // a larger disk_mb beyond memory_mb is on disk
      uint64_t max_mb = 32'768;      // of all together; 0: none
      uint64_t keep_free_mb = 1024;  // on the file system of these files
    } disk;
  } workspace;

  // Sandboxes made ahead of demand.
  struct Pool {
    uint32_t ready = 8;                  // at most; 0: none
    uint32_t floor = 0;                  // of each requested kind, even without demand
    uint32_t idle_ms = 30'000;           // without demand; then removed
    uint32_t spare_memory_percent = 10;  // of the machine's; below, ready sandboxes are removed and
                                         // none made
    uint32_t cpu_pressure_percent = 90;  // of the time something waits; above, none are made
    uint32_t zygotes = 4;                // maximum of interpreters to copy; 0: none
    uint32_t zygote_copies = 1000;       // of each, then another takes its place
    bool zygote_per_tenant = false;
  } pool;

  GvisorSettings gvisor;
  MicrovmSettings microvm;
  ImageSettings images;

  // Stored files, of runs and uploaded; the bounds are each tenant's.
  struct Artifacts {
    uint64_t max_mb = 4096;          // of an upload
    uint64_t quota_mb = 10'240;      // all together
    uint64_t quota_count = 100'000;  // all together
    uint32_t ttl_days = 365;         // maximum; 0: artifacts of runs last as long as their
                                     // execution
    uint32_t uploads = 64;           // at once, of all tenants
    uint32_t uploads_per_tenant = 48;
    struct Resume {              // of interrupted uploads that can be resumed; of a tenant
      uint32_t per_tenant = 16;  // 0: none
      uint32_t max = 128;        // of all tenants
      uint64_t max_mb = 4096;
      uint32_t ttl_seconds = 86'400;
    } resume;
    // Checks each artifact before any client can read the artifact; docs/adr/0026. One of command
    // and URL; neither: nothing is scanned.
    struct Scan {
      std::vector<std::string> command;  // argv
      std::string url;                   // gets the bytes as the body of a POST
      std::string token_file;            // "Authorization: Bearer" for the URL; "": none
      std::string ca_file;               // "" = the system's authorities
      uint32_t timeout_seconds = 60;     // of a file
      uint32_t concurrent = 2;
    } scan;
    std::string master_key_file;  // "" = the systemd credential, or <state>/keys/artifacts.key
    S3Settings s3;
  } artifacts;

  // Permissions of agents; docs/AGENTS.md.
  struct Agents {
    std::string levels;            // path; "" = policies/levels.yaml of the installation
    std::string default_level;     // for agents without their own sandbox; "": no level applies
    uint32_t per_tenant = 10'000;  // sandboxes of agents
    bool end_revoked = true;       // end programs whose permission the agent has lost
  } agents;

  struct Secrets {
    uint32_t per_tenant = 1000;
  } secrets;

  // Limits of each tenant or agent without its own value (docs/QUOTAS.md); 0: no limit.
  struct Quotas {
    struct Each {
      uint64_t concurrent = 0;
      uint64_t sessions = 0;
      uint64_t runs_per_minute = 0;
      uint64_t cpu_seconds_per_hour = 0;
      uint64_t memory_mb = 0;
    };
    Each tenant;
    Each agent;
  } quotas;

  struct Mcp {                                // answers to agents
    uint32_t wait_seconds = 45;               // for a program, where the client takes no progress
    uint32_t heartbeat_seconds = 5;           // between notifications of progress, at most
    uint64_t output_bytes = 16'384;           // of each output stream in an answer
    uint64_t download_bytes = 1 << 20;        // of a file in an answer
    uint32_t inline_images = 4;               // figures in an answer; 0: none
    uint64_t inline_image_bytes = 256 << 10;  // of each; larger ones are only linked
    uint32_t sessions = 4096;                 // of clients of 2025-11-25 and before, at once
    uint32_t session_idle_seconds = 3600;
    McpServerSettings servers;
  } mcp;

  // Saved workspaces of sessions; also count as artifacts.
  struct Snapshots {
    uint64_t per_tenant = 1000;
    uint64_t max_mb = 4096;          // of a snapshot: files and their names
    uint64_t max_entries = 200'000;  // of a snapshot: files, directories and links
    uint32_t at_once = 4;            // taken and restored, of all tenants
    uint32_t at_once_per_tenant = 3;
  } snapshots;

  // For finished executions; 0: never, or no limit.
  struct Retention {
    uint32_t archive_after_days = 30;  // afterwards the output is deleted
    uint32_t delete_after_days = 365;  // then the record (the audit log keeps its rows)
    uint64_t keep_at_most = 1'000'000;
    uint32_t every_seconds = 60;  // between two passes; also over snapshots and unnamed blobs
  } retention;

  struct Metrics {
    bool open = false;  // on local listeners, without a credential
  } metrics;

  struct Auth {
    OnRevoke on_revoke = OnRevoke::kFinish;
    uint32_t failures_per_minute = 120;  // wrong credentials, checked from an address
    OidcSettings oidc;
  } auth;
  EscalationSettings escalation;
  EgressSettings egress;
  PackageSettings packages;  // docs/PACKAGES.md
  CompatSettings compat;
  LayerSettings layers;
  DlpSettings dlp;  // docs/DLP.md
  TraceSettings traces;

  struct Audit {
    uint32_t checkpoint_every = 1000;  // entries
    std::string checkpoint_file;       // "" = <state>/ledger/audit.checkpoints
    std::string anchor_file;           // "" = <state>/ledger/audit.anchor
    uint32_t anchor_max_kb = 1024;
    struct Roots {
      uint32_t every_seconds = 60;
      uint32_t keep = 600'000;  // records
    } roots;
    struct Publish {
      uint32_t every_seconds = 60;  // at most so often, where there are new entries
      std::string file;             // "": none
      struct Webhook {
        std::string url;  // "": none
        std::string secret_file;
        std::string ca_file;  // "" = the system's authorities
      } webhook;
    } publish;
  } audit;
};

// Reads and checks a file. kInvalid names the key (in `field` too) and the permitted values, and
// for an unknown key the nearest existing key.
Result<Config> loadConfig(const std::string& path);
// The same for text; `name` is used in messages.
Result<Config> parseConfig(std::string_view yaml, std::string_view name);

// `config.state`, or the default state directory.
std::string stateDir(const Config& config);

// A key as shown in the documentation.
struct ConfigKey {
  std::string path;           // "http.body_bytes"
  std::string type;           // "whole number", "text", "list of text", "process or power"
  std::string unit;           // "bytes", "" if none
  std::string range;          // "1 to 4096", "" if any
  std::string default_value;  // as written in the file; `""` for empty text
};
std::vector<ConfigKey> configKeys();

}  // namespace cloister::model
