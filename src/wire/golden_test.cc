// SPDX-License-Identifier: Apache-2.0
// Holds every message to its golden file in spec/wire/gen-N. CLOISTER_WRITE_GOLDEN=1 writes the
// files anew: see the README there before doing so.
#include <cctype>
#include <cstdlib>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "wire/egress.h"
#include "wire/frame.h"
#include "wire/guest.h"
#include "wire/node.h"
#include "wire/runner.h"
#include "wire/string_writer.h"

namespace cloister::wire {
namespace {

std::string goldenDir() {
  return std::string(CLOISTER_SOURCE_DIR) + "/spec/wire/gen-" + std::to_string(kGeneration);
}

// Lower-case hex, 32 bytes a line.
std::string hexLines(std::string_view bytes) {
  std::string lines;
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), 32)))
    lines += base::toHex(bytes.substr(0, 32)) + "\n";
  return lines;
}

template <class Type>
std::string frame(Type type, uint32_t channel, std::string_view payload) {
  char header[kHeaderBytes];
  encodeHeader(header, static_cast<uint16_t>(type), channel, static_cast<uint32_t>(payload.size()));
  return std::string(header, sizeof header).append(payload);
}

// A payload built by hand, for the messages whose layout is given field by field.
template <class Build>
std::string payload(Build build) {
  StringWriter w;
  build(w);
  return w.take();
}

model::PermitFields samplePermit() {
  model::PermitFields p;
  p.id = "permit_1";
  p.execution_id = "exec_1";
  p.tenant = "acme";
  p.policy_id = "default@sha256:00";
  p.runtime = "process";
  p.image = "host";
  p.network_tier = "restricted";
  p.network_plan_sha256 = std::string(64, 'c');
  p.network_ports = {443, 5432};
  p.limits.wall = std::chrono::milliseconds(2000);
  p.limits.cpu_time = std::chrono::milliseconds(1000);
  p.walls.hidden = {"/root/*", "/etc/ssl/private"};
  p.walls.shown = {{"/root/*", "/root/notes"}};
  p.walls.without = {"dd", "mkfs*"};
  p.walls.only = {"bash", "ls"};
  p.walls.runs_own = false;
  p.walls.writes = model::Walls::Writes::kTemporary;
  p.walls.writable = {{model::kMayWrite | model::kMayCreate, false, "/workspace/notes"},
                      {model::kMayDelete, true, "/workspace/out"}};
  p.agent = "alice";
  p.agent_cpu_millis = 250;
  p.spec_sha256 = std::string(64, 'a');
  p.prestart = std::string(64, 'b');
  p.layers = {{"sha256:" + std::string(64, 'd'), "python"}};
  p.not_before = 1'700'000'000'000'000;
  p.expires = 1'700'000'010'000'000;
  return p;
}

model::SignedPermit sampleSignedPermit() {
  return {encodePermit(samplePermit()), std::string(64, '\x5a')};
}

model::ExecSpec sampleSpec() {
  model::ExecSpec s;
  s.files = {{"main.c", std::string("int main;\0", 10), 0644}, {"run.sh", "true", 0755}};
  s.compile = {{{"cc", "main.c"}, std::chrono::milliseconds(60'000)}};
  s.temporary = {"/workspace/main.c"};
  s.run = {{"./a.out", "--x", ""}, std::chrono::milliseconds(2000)};
  s.env = {"HOME=/workspace", "EMPTY="};
  s.input = "hi\n";
  s.for_files = true;
  s.terminal = model::TerminalSize{.cols = 100, .rows = 30};
  s.artifacts = {{"**", "*.png"}, 64, 1 << 20};
  return s;
}

model::Usage sampleUsage() {
  return {.wall_ms = 12,
          .cpu_ms = 9,
          .max_rss_bytes = 9'437'184,
          .memory_bytes = 1,
          .cpu_millis = 250,
          .io_read_bytes = 2,
          .io_write_bytes = 3,
          .processes = 4,
          .open_files = 5,
          .disk_limit_bytes = 201'326'592};
}

model::Outcome sampleOutcome() {
  model::Outcome o;
  o.end = model::End::kLimit;
  o.exit_code = -1;
  o.signal = 9;
  o.message = "out of memory";
  o.limits = {{"memory_mb", 268'435'456, 268'435'457, "bytes", true},
              {"pids", 64, 64, "processes", false}};
  o.usage = sampleUsage();
  o.compile = model::CompileResult{1, 34, "", "error: x"};
  o.compile_failed = true;
  o.artifacts_truncated = true;
  o.started_at = 1'700'000'000'000'001;
  o.finished_at = 1'700'000'000'000'002;
  return o;
}

model::NodeOffer sampleOffer() {
  model::NodeOffer o;
  o.node = "local";
  o.version = "0.1.0";
  o.runtimes = {"process"};
  o.weakened = {"no cgroup"};
  o.image_digest = "sha256:00";
  o.languages = {"bash", "python"};
  o.findings = {{"isolation", "landlock", model::Finding::State::kReduced, "off", "switch it on"}};
  o.max_sandboxes = 256;
  o.memory_bytes = uint64_t{8} << 30;
  o.cpus = 2;
  o.links = {{"awk", "mawk"}, {"vi", "vim.basic"}};
  model::OfferedImage& image = o.images.emplace_back();
  image.name = "data";
  image.digest = "sha256:01";
  image.source = "oci";
  image.created = "2026-11-26T10:00:00.000Z";
  image.size_bytes = uint64_t{1} << 30;
  image.files = 40'000;
  image.machines = true;
  image.languages = {"python"};
  image.links = {{"python3", "python3.12"}};
  image.verified = {{"registry.example/data@sha256:02", "sha256:03", "sha256:04"}};
  return o;
}

model::PoolStats samplePool() {
  model::PoolStats p;
  p.kinds = {{"python", true, 201'326'592, 3, 4, 1, 2}, {"any", false, 4096, 0, 1, 0, 0}};
  p.held = model::PoolStats::Held::kMemory;
  p.zygotes = 1;
  p.dying = 5;
  p.served = {100, 20, 30, 4};
  p.failed = 6;
  p.copies = 70;
  p.dead = 8;
  p.drained = 9;
  p.claim.counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  p.claim.sum_micros = 1'234'567;
  p.refill.counts[4] = 1;
  p.refill.sum_micros = 4'999;
  return p;
}

ImageTold sampleImage() {
  return {.state = {.place = "aa",
                    .identity = "bb",
                    .digest = "sha256:" + std::string(64, 'c'),
                    .changed_at = 1'700'000'000'000'000,
                    .since = 1'700'000'000'500'000,
                    .files = 180'000,
                    .files_read = 12,
                    .newest = "/usr/bin/other",
                    .changed = {"/usr/bin/tool"},
                    .problem = "it kept changing",
                    .reading = true},
          .told_at = 1'700'000'001'000'000};
}

using Golden = std::map<std::string, std::string>;

void addNodeMessages(Golden& all) {
  all["to_node.provision"] = frame(ToNode::kProvision, 7, encodeSignedPermit(sampleSignedPermit()));
  all["to_node.exec"] = frame(ToNode::kExec, 7, encodeExecSpec(sampleSpec()));
  all["to_node.cancel"] = frame(ToNode::kCancel, 7, "");
  all["to_node.teardown"] = frame(ToNode::kTeardown, 7, "");
  all["to_node.plan"] = frame(ToNode::kPlan, 8, encodeSignedPermit(sampleSignedPermit()));
  all["to_node.open"] =
      frame(ToNode::kOpen, 9, encodeOpen({7, sampleSignedPermit(), encodeExecSpec(sampleSpec())}));
  all["to_node.go"] = frame(ToNode::kGo, 9, "");
  all["to_node.input"] = frame(ToNode::kInput, 9, "hello\n");
  all["to_node.signal"] = frame(ToNode::kSignal, 9, payload([](auto& w) { w.u32(2); }));
  all["to_node.resize"] = frame(ToNode::kResize, 9, payload([](auto& w) {
                                  w.u16(100);
                                  w.u16(30);
                                }));
  all["to_node.ack"] = frame(ToNode::kAck, 7, payload([](auto& w) { w.u32(65'536); }));

  all["from_node.offer"] = frame(FromNode::kOffer, 0, encodeOffer(sampleOffer()));
  all["from_node.provisioned"] =
      frame(FromNode::kProvisioned, 7,
            encodeProvisioned({"process", "local", "host", "sha256:00", {"no cgroup"}}));
  all["from_node.failed"] =
      frame(FromNode::kFailed, 7, encodeError({Code::kDenied, "reading permit: used", "permit"}));
  all["from_node.started"] = frame(FromNode::kStarted, 7, "");
  all["from_node.output"] = frame(FromNode::kOutput, 7, payload([](auto& w) {
                                    w.u8(static_cast<uint8_t>(model::Stream::kStderr));
                                    w.raw("hi\n", 3);
                                  }));
  all["from_node.file_begin"] = frame(FromNode::kFileBegin, 7, payload([](auto& w) {
                                        w.bytes("a/b.txt");
                                        w.u64(3);
                                      }));
  all["from_node.file_data"] = frame(FromNode::kFileData, 7, "abc");
  all["from_node.file_end"] = frame(FromNode::kFileEnd, 7, "");
  all["from_node.usage"] = frame(FromNode::kUsage, 7, encodeUsage(sampleUsage()));
  all["from_node.finished"] = frame(FromNode::kFinished, 7, encodeOutcome(sampleOutcome()));
  all["from_node.torn_down"] = frame(FromNode::kTornDown, 7, "");
  all["from_node.died"] = frame(
      FromNode::kDied, 7, encodeSandboxEnd({model::SandboxEnd::Kind::kMemory, "out of memory"}));
  all["from_node.input_taken"] =
      frame(FromNode::kInputTaken, 9, payload([](auto& w) { w.u32(6); }));
  all["to_node.ping"] = frame(ToNode::kPing, 0, {});
  all["from_node.pong"] = frame(FromNode::kPong, 0, {});
  all["from_node.ping"] = frame(FromNode::kPing, 0, {});
  all["to_node.pong"] = frame(ToNode::kPong, 0, {});
  all["from_node.pool"] = frame(FromNode::kPool, 0, encodePool(samplePool()));
  all["from_node.image"] = frame(FromNode::kImage, 0, encodeImage(sampleImage()));
  all["from_node.planned"] = frame(FromNode::kPlanned, 8, R"({"mounts":[]})");
}

model::NetworkPlan sampleNetworkPlan() {
  model::NetworkPlan plan;
  plan.permit = "permit_1";
  plan.tier = "restricted";
  plan.tenant = "acme";
  plan.policy_id = "default@sha256:00";
  model::NetworkEntry entry;
  entry.name = "*.example.org";
  entry.ports = {80};
  entry.protocol = model::Protocol::kHttp;
  entry.methods = {"GET"};
  plan.rules.push_back({.entry = entry, .rule = "read"});
  return plan;
}

egress::Batch sampleBatch() {
  return {.number = 7,
          .attempts = {{.permit = "permit_1",
                        .plan_sha256 = std::string(64, 'a'),
                        .host = "evil.test",
                        .address = "",
                        .port = 443,
                        .transport = "tcp",
                        .allowed = false,
                        .rule = "",
                        .reason = "No rule allows evil.test:443.",
                        .at = 1'700'000'000'000'000,
                        .count = 2,
                        .bytes_in = 3,
                        .bytes_out = 4}},
          .left_out = 5};
}

void addEgressMessages(Golden& all) {
  using egress::FromEgress;
  using egress::ToEgress;
  const model::SignedPlan plan{.encoded = encodePlan(sampleNetworkPlan()),
                               .signature = std::string(64, '\x5a')};
  all["to_egress.plan"] = frame(ToEgress::kPlan, 8, egress::encodeSignedPlan(plan));
  all["to_egress.secrets"] =
      frame(ToEgress::kSecrets, 0,
            egress::encodeSecrets({.permit = "permit_1", .values = {{"s1", "value-1"}}}));
  all["to_egress.forget"] = frame(ToEgress::kForget, 0, "permit_1");
  all["to_egress.use"] = frame(ToEgress::kUse, 9, "permit_1");
  all["to_egress.taken"] = frame(ToEgress::kTaken, 0, payload([](auto& w) { w.u64(7); }));
  all["to_egress.stop"] = frame(ToEgress::kStop, 0, payload([](auto& w) { w.u8(1); }));
  all["from_egress.hello"] = frame(FromEgress::kHello, 0, payload([](auto& w) { w.u64(7); }));
  all["from_egress.planned"] = frame(FromEgress::kPlanned, 8, "");
  all["from_egress.failed"] =
      frame(FromEgress::kFailed, 8, encodeError({Code::kConflict, "generation 1 is old", ""}));
  model::NetworkUse use;
  use.connections = 1;
  all["from_egress.used"] = frame(FromEgress::kUsed, 9, base::toJson(toJsonObject(use)));
  all["from_egress.attempts"] = frame(FromEgress::kAttempts, 0, encodeBatch(sampleBatch()));
  all["from_egress.wanted"] =
      frame(FromEgress::kWanted, 0,
            egress::encodeWanted({"permit_1", "evil.test", 443, "tls", "", "curl", true}));
}

void addTerminal(Golden& all) {
  all["to_runner.start_terminal"] = frame(ToRunner::kStart, 1, payload([](auto& w) {
                                            w.u8(kStartTerminal | kStartWindow);
                                            w.bytes("/tmp");
                                            w.u16(100);
                                            w.u16(30);
                                          }));
  all["to_runner.resize"] = frame(ToRunner::kResize, 1, payload([](auto& w) {
                                    w.u16(80);
                                    w.u16(24);
                                  }));
}

void addPrograms(Golden& all) {
  all["to_runner.file"] = frame(ToRunner::kFile, 0, payload([](auto& w) {
                                  w.bytes("dir/in.txt");
                                  w.u32(0640);
                                  w.u64(6);
                                }));
  all["to_runner.file_data"] = frame(ToRunner::kFileData, 0, "golden");
  all["to_runner.mark"] = frame(ToRunner::kMark, 0, "");
  all["to_runner.text"] = frame(ToRunner::kText, 1, payload([](auto& w) {
                                  w.u8(0);
                                  w.u8(0);
                                  w.raw("/usr/bin/tee", 12);
                                }));
  all["to_runner.text_more"] = frame(ToRunner::kText, 1, payload([](auto& w) {
                                       w.u8(0);
                                       w.u8(1);
                                       w.raw("ou", 2);
                                     }));
  all["to_runner.text_rest"] = frame(ToRunner::kText, 1, payload([](auto& w) {
                                       w.u8(0);
                                       w.u8(0);
                                       w.raw("t", 1);
                                     }));
  all["to_runner.text_env"] = frame(ToRunner::kText, 1, payload([](auto& w) {
                                      w.u8(1);
                                      w.u8(0);
                                      w.raw("A=1", 3);
                                    }));
  all["to_runner.start"] = frame(ToRunner::kStart, 1, payload([](auto& w) {
                                   w.u8(kStartStdin | kStartKillRest);
                                   w.bytes("/workspace/dir");
                                 }));
  all["to_runner.start_fifo"] = frame(ToRunner::kStart, 1, payload([](auto& w) {
                                        w.u8(kStartFifo | kStartKillRest);
                                        w.bytes("");
                                        w.bytes("main.py");
                                      }));
}

void addToRunner(Golden& all) {
  addTerminal(all);
  addPrograms(all);
  all["to_runner.stdin"] = frame(ToRunner::kStdin, 1, "hello\n");
  all["to_runner.stdin_end"] = frame(ToRunner::kStdin, 1, "");
  all["to_runner.signal"] = frame(ToRunner::kSignal, 1, payload([](auto& w) { w.u32(15); }));
  all["to_runner.groups"] = frame(ToRunner::kGroups, 1, payload([](auto& w) { w.u32(2); }));
  all["to_runner.taken"] = frame(ToRunner::kTaken, 1, payload([](auto& w) { w.u32(4096); }));
  all["to_runner.kill"] = frame(ToRunner::kKill, 1, "");
  all["to_runner.rest"] = frame(ToRunner::kRest, 0, "");
  all["to_runner.remove"] =
      frame(ToRunner::kRemove, 0, payload([](auto& w) { w.bytes("/tmp/.cloister-program-1"); }));
  all["to_runner.writable"] = frame(ToRunner::kWritable, 0, payload([](auto& w) {
                                      w.u32(2);
                                      w.u8(3);
                                      w.u8(0);
                                      w.bytes("/workspace/notes");
                                      w.u8(4);
                                      w.u8(1);
                                      w.bytes("/workspace/out");
                                    }));
  all["to_runner.go_on"] = frame(ToRunner::kGoOn, 0, "");
  all["to_runner.start_window"] = frame(ToRunner::kStart, 1, payload([](auto& w) {
                                          w.u8(kStartWindow);
                                          w.bytes("/tmp");
                                        }));
  all["to_runner.collect"] = frame(ToRunner::kCollect, 2, payload([](auto& w) {
                                     w.u32(64);
                                     w.u64(1 << 20);
                                     w.u32(2);
                                     w.bytes("dir/*");
                                     w.bytes("**/*.png");
                                   }));
}

void addFromRunner(Golden& all) {
  all["from_runner.hello"] = frame(FromRunner::kHello, 0, payload([](auto& w) { w.u32(1); }));
  all["from_runner.resting"] = frame(FromRunner::kResting, 0, "");
  all["from_runner.started"] = frame(FromRunner::kStarted, 1, "");
  all["from_runner.start_failed"] = frame(FromRunner::kStartFailed, 1, payload([](auto& w) {
                                            w.u32(2);
                                            w.bytes("execve");
                                          }));
  all["from_runner.stdout"] = frame(FromRunner::kStdout, 1, "hello\n");
  all["from_runner.stderr"] = frame(FromRunner::kStderr, 1, "oops\n");
  all["from_runner.exited"] = frame(FromRunner::kExited, 1, payload([](auto& w) {
                                      w.u8(0);
                                      w.u32(3);
                                      w.u64(1500);
                                      w.u64(2500);
                                      w.u64(1 << 20);
                                      w.u32(1);
                                      w.u64(8192);
                                      w.u64(4096);
                                    }));
  all["from_runner.file_begin"] = frame(FromRunner::kFileBegin, 2, payload([](auto& w) {
                                          w.bytes("dir/out");
                                          w.u64(6);
                                        }));
  all["from_runner.file_content"] = frame(FromRunner::kFileContent, 2, "hello\n");
  all["from_runner.collected"] =
      frame(FromRunner::kCollected, 2, payload([](auto& w) { w.u32(0); }));
  all["from_runner.file_failed"] = frame(FromRunner::kFileFailed, 0, payload([](auto& w) {
                                           w.u32(28);
                                           w.bytes("write");
                                         }));
  all["from_runner.scratch"] = frame(FromRunner::kScratch, 1, payload([](auto& w) {
                                       w.u64(4096);
                                       w.u64(1 << 20);
                                       w.u64(2);
                                       w.u64(1000);
                                     }));
  all["from_runner.stdin_taken"] =
      frame(FromRunner::kStdinTaken, 1, payload([](auto& w) { w.u32(6); }));
  all["from_runner.counts"] = frame(FromRunner::kCounts, 0, payload([](auto& w) {
                                      w.u64(1 << 20);
                                      w.u64(1);
                                      w.u64(2);
                                    }));
}

void addGuest(Golden& all) {
  all["to_guest.wake"] = frame(guest::ToGuest::kWake, 0, payload([](auto& w) {
                                 const std::string entropy(guest::kWakeEntropy, 'e');
                                 w.raw(entropy.data(), entropy.size());
                                 w.i64(1'700'000'000);
                                 w.u32(999'999'999);
                               }));
  all["from_guest.awake"] = frame(guest::FromGuest::kAwake, 0, "");
}

TEST(Golden, EveryMessageIsAsItWas) {
  Golden all;
  addGuest(all);
  addNodeMessages(all);
  addEgressMessages(all);
  addToRunner(all);
  addFromRunner(all);
  for (const auto& [name, bytes] : all) {
    const std::string path = goldenDir() + "/" + name + ".hex";
    if (std::getenv("CLOISTER_WRITE_GOLDEN") != nullptr)
      ASSERT_TRUE(base::writeFileAtomic(path, hexLines(bytes), 0644));
    const auto golden = base::readFile(path);
    ASSERT_TRUE(golden) << golden.error().message;
    EXPECT_EQ(*golden, hexLines(bytes)) << name;
  }
}

// The payload of a golden file.
std::string goldenPayload(const std::string& name) {
  std::string bytes;
  int high = -1;
  for (const char c : base::readFile(goldenDir() + "/" + name + ".hex").value_or("")) {
    if (c == '\n') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
      continue;
    }
    bytes += static_cast<char>(high * 16 + digit);
    high = -1;
  }
  return bytes.substr(std::min(bytes.size(), kHeaderBytes));
}

TEST(Golden, EveryValueIsReadBack) {
  const std::string permit = goldenPayload("to_node.provision");
  EXPECT_EQ(encodeSignedPermit(decodeSignedPermit(permit).value()), permit);
  const std::string fields = decodeSignedPermit(permit)->encoded;
  EXPECT_EQ(encodePermit(decodePermit(fields).value()), fields);
  EXPECT_EQ(decodePermit(fields)->limits, samplePermit().limits);
  const std::string spec = goldenPayload("to_node.exec");
  EXPECT_EQ(encodeExecSpec(decodeExecSpec(spec).value()), spec);
  EXPECT_EQ(decodeExecSpec(spec)->files[0].content, sampleSpec().files[0].content);
  const std::string offer = goldenPayload("from_node.offer");
  EXPECT_EQ(encodeOffer(decodeOffer(offer).value()), offer);
  const std::string info = goldenPayload("from_node.provisioned");
  EXPECT_EQ(encodeProvisioned(decodeProvisioned(info).value()), info);
  const std::string error = goldenPayload("from_node.failed");
  EXPECT_EQ(encodeError(decodeError(error).value()), error);
  const std::string usage = goldenPayload("from_node.usage");
  EXPECT_EQ(encodeUsage(decodeUsage(usage).value()), usage);
  const std::string outcome = goldenPayload("from_node.finished");
  EXPECT_EQ(encodeOutcome(decodeOutcome(outcome).value()), outcome);
  EXPECT_EQ(decodeOutcome(outcome)->exit_code, -1);
  const std::string pool = goldenPayload("from_node.pool");
  EXPECT_EQ(encodePool(decodePool(pool).value()), pool);
  EXPECT_EQ(*decodePool(pool), samplePool());
  const std::string image = goldenPayload("from_node.image");
  EXPECT_EQ(encodeImage(decodeImage(image).value()), image);
  EXPECT_EQ(decodeImage(image)->state, sampleImage().state);
  const std::string plan = goldenPayload("to_egress.plan");
  EXPECT_EQ(model::decodePlan(egress::decodeSignedPlan(plan)->encoded), sampleNetworkPlan());
  const std::string batch = goldenPayload("from_egress.attempts");
  EXPECT_EQ(egress::encodeBatch(egress::decodeBatch(batch).value()), batch);
  const std::string wanted = goldenPayload("from_egress.wanted");
  EXPECT_EQ(egress::encodeWanted(egress::decodeWanted(wanted).value()), wanted);
}

// Each decoder refuses each proper prefix of a message, and any trailing bytes.
TEST(Golden, NothingShorterOrLongerIsAccepted) {
  const std::map<std::string, std::function<bool(std::string_view)>> decoders = {
      {"to_node.provision", [](auto b) { return decodeSignedPermit(b).has_value(); }},
      {"to_node.exec", [](auto b) { return decodeExecSpec(b).has_value(); }},
      {"from_node.offer", [](auto b) { return decodeOffer(b).has_value(); }},
      {"from_node.provisioned", [](auto b) { return decodeProvisioned(b).has_value(); }},
      {"from_node.failed", [](auto b) { return decodeError(b).has_value(); }},
      {"from_node.usage", [](auto b) { return decodeUsage(b).has_value(); }},
      {"from_node.finished", [](auto b) { return decodeOutcome(b).has_value(); }},
      {"from_node.pool", [](auto b) { return decodePool(b).has_value(); }},
  };
  for (const auto& [name, accepts] : decoders) {
    const std::string bytes = goldenPayload(name);
    ASSERT_FALSE(bytes.empty()) << name;
    ASSERT_TRUE(accepts(bytes)) << name;
    EXPECT_FALSE(accepts(bytes + "x")) << name;
    for (size_t n = 0; n < bytes.size(); ++n)
      EXPECT_FALSE(accepts(std::string_view(bytes).substr(0, n))) << name << " cut at " << n;
  }
}

}  // namespace
}  // namespace cloister::wire
