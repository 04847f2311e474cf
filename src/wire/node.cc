// SPDX-License-Identifier: Apache-2.0
#include "wire/node.h"

#include <chrono>
#include <type_traits>

#include "model/describe.h"
#include "wire/archive.h"

namespace cloister::wire {
namespace {

// Bounds of a message's parts. They are wide: policy and limits are narrower, these only keep a
// hostile peer from making the receiver build something absurd.
constexpr size_t kName = 256;              // ids, names, digests
constexpr size_t kReference = 1024;        // an image in a registry
constexpr size_t kSentence = 4096;         // messages, paths, globs
constexpr size_t kBulk = kNodeMaxPayload;  // contents
constexpr size_t kPermit = 2 * model::Walls::kMaxBytes;
constexpr size_t kFew = 256;
constexpr size_t kMany = 4096;
constexpr uint32_t kSandboxes = 1'000'000;  // more than any node has

// Strings with equal bounds.
template <class A, class List>
void texts(A& a, List& list, size_t max_count, size_t max_size) {
  a.list(list, max_count, [&](auto& item) { a.text(item, max_size); });
}

// The described types of the model: numbers and durations.
template <class A, class T>
void member(A& a, T& v) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, std::chrono::milliseconds>) {
    a.time(v);
  } else {
    a.number(v);
  }
}
template <class A, class T>
  requires requires(T& v) { v.has_value(); }
void member(A& a, T& v) {
  a.maybe(v, [&](auto& known) { member(a, known); });
}

template <class A, model::Described T>
void describe(A& a, T& v) {
  model::describe(v, [&](const auto& /*named*/, auto& each) { member(a, each); });
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::Walls>
void describe(A& a, T& v) {
  using model::Walls;
  const auto some = [&](auto& list) { texts(a, list, Walls::kMaxEntries, Walls::kMaxText); };
  some(v.hidden);
  a.list(v.shown, Walls::kMaxEntries, [&](auto& each) {
    a.text(each.within, Walls::kMaxText);
    a.text(each.path, Walls::kMaxText);
  });
  some(v.without);
  a.maybe(v.only, some);
  a.flag(v.runs_own);
  a.choice(v.writes, Walls::Writes::kAll, Walls::Writes::kNone);
  a.list(v.writable, Walls::kMaxEntries, [&](auto& each) {
    a.bits(each.operations, model::kMayAll);
    a.flag(each.beneath);
    a.text(each.path, Walls::kMaxText);
  });
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::PermitFields>
void describe(A& a, T& v) {
  a.text(v.id, kName);
  a.text(v.execution_id, kName);
  a.text(v.session_id, kName);
  a.text(v.tenant, kName);
  a.text(v.policy_id, kName);
  a.text(v.runtime, kName);
  a.text(v.image, kName);
  a.text(v.network_tier, kName);
  a.text(v.network_plan_sha256, kName);
  a.list(v.network_ports, model::kMaxNamedPorts, [&](auto& each) { a.number(each, UINT16_MAX); });
  describe(a, v.limits);
  describe(a, v.walls);
  a.text(v.agent, kName);
  a.number(v.agent_cpu_millis);
  a.text(v.spec_sha256, kName);
  a.text(v.prestart, kName);
  a.flag(v.nested);
  a.flag(v.fresh);
  a.list(v.layers, model::kMaxPermitLayers, [&](auto& layer) {
    a.text(layer.digest, kName);
    a.text(layer.place, kName);
  });
  a.number(v.not_before);
  a.number(v.expires);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::SignedPermit>
void describe(A& a, T& v) {
  a.text(v.encoded, kPermit);
  a.text(v.signature, kName);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::Command>
void describe(A& a, T& v) {
  texts(a, v.argv, kMany, kBulk);
  a.time(v.timeout);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::ExecSpec>
void describe(A& a, T& v) {
  a.list(v.files, kMany, [&](auto& file) {
    a.text(file.path, kSentence);
    a.text(file.content, kBulk);
    a.number(file.mode, 0777);
  });
  a.list(v.compile, 1, [&](auto& command) { describe(a, command); });
  texts(a, v.temporary, kFew, kSentence);
  describe(a, v.run);
  texts(a, v.env, kMany, kBulk);
  a.text(v.input, kBulk);
  a.flag(v.keep_input);
  a.text(v.cwd, kSentence);
  a.flag(v.for_files);
  a.maybe(v.terminal, [&](auto& size) {
    a.number(size.cols, model::kMaxTerminalSide);
    a.number(size.rows, model::kMaxTerminalSide);
  });
  texts(a, v.artifacts.globs, kFew, kSentence);
  a.number(v.artifacts.max_files);
  a.number(v.artifacts.max_bytes);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::Outcome>
void describe(A& a, T& v) {
  a.choice(v.end, model::End::kExited, model::End::kStartFailed);
  a.number(v.exit_code);
  a.number(v.signal);
  a.text(v.message, kSentence);
  a.list(v.limits, kFew, [&](auto& hit) {
    a.text(hit.limit, kName);
    a.number(hit.value);
    a.number(hit.used);
    a.text(hit.unit, kName);
    a.flag(hit.fatal);
  });
  describe(a, v.usage);
  a.maybe(v.compile, [&](auto& compile) {
    a.number(compile.exit_code);
    a.number(compile.wall_ms);
    a.text(compile.stdout_text, kBulk);
    a.text(compile.stderr_text, kBulk);
  });
  a.flag(v.compile_failed);
  a.flag(v.artifacts_truncated);
  a.number(v.started_at);
  a.number(v.finished_at);
}

template <class A, class T>
void describeLinks(A& a, T& links) {
  a.list(links, model::kMaxProgramLinks, [&](auto& link) {
    a.text(link.name, kName);
    a.text(link.real, kName);
  });
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::NodeOffer>
void describe(A& a, T& v) {
  a.text(v.node, kName);
  a.text(v.version, kName);
  texts(a, v.runtimes, kFew, kName);
  texts(a, v.weakened, kFew, kSentence);
  a.text(v.image_digest, kName);
  texts(a, v.languages, kFew, kName);
  a.list(v.findings, kFew, [&](auto& finding) {
    a.text(finding.area, kName);
    a.text(finding.name, kName);
    a.choice(finding.state, model::Finding::State::kOk, model::Finding::State::kMissing);
    a.text(finding.detail, kSentence);
    a.text(finding.remedy, kSentence);
  });
  a.number(v.max_sandboxes);
  a.number(v.memory_bytes);
  a.number(v.cpus);
  describeLinks(a, v.links);
  a.list(v.images, model::kMaxOfferedImages, [&](auto& image) {
    a.text(image.name, kName);
    a.text(image.digest, kName);
    a.text(image.source, kName);
    a.text(image.created, kName);
    a.number(image.size_bytes);
    a.number(image.files);
    a.flag(image.machines);
    texts(a, image.languages, kFew, kName);
    describeLinks(a, image.links);
    a.maybe(image.verified, [&](auto& verified) {
      a.text(verified.reference, kReference);
      a.text(verified.key, kName);
      a.text(verified.sbom, kName);
    });
  });
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::Durations>
void describe(A& a, T& v) {
  for (auto& count : v.counts)
    a.number(count);
  a.number(v.sum_micros);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::PoolKind>
void describe(A& a, T& v) {
  a.text(v.language, kName);
  a.flag(v.default_limits);
  a.number(v.scratch_bytes);
  for (auto* number : {&v.ready, &v.wanted, &v.making, &v.waiting})
    a.number(*number, kSandboxes);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::PoolStats>
void describe(A& a, T& v) {
  a.list(v.kinds, model::PoolStats::kMaxKinds, [&](auto& kind) { describe(a, kind); });
  a.choice(v.held, model::PoolStats::Held::kNo, model::PoolStats::Held::kCpu);
  a.number(v.zygotes, kSandboxes);
  a.number(v.dying, kSandboxes);
  for (auto& count : v.served)
    a.number(count);
  for (auto* count : {&v.failed, &v.copies, &v.dead, &v.drained})
    a.number(*count);
  describe(a, v.claim);
  describe(a, v.refill);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, ImageTold>
void describe(A& a, T& v) {
  a.text(v.state.place, kName);
  a.text(v.state.identity, kName);
  a.text(v.state.digest, kName);
  a.number(v.state.changed_at);
  a.number(v.state.since);
  a.number(v.state.files);
  a.number(v.state.files_read);
  a.text(v.state.newest, kSentence);
  texts(a, v.state.changed, model::ImageState::kMostChanged, kSentence);
  a.text(v.state.problem, kSentence);
  a.flag(v.state.reading);
  a.number(v.told_at);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Error>
void describe(A& a, T& v) {
  a.choice(v.code, Code::kInvalid, Code::kInternal);
  a.text(v.message, kSentence);
  a.text(v.field, kName);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, model::SandboxEnd>
void describe(A& a, T& v) {
  a.choice(v.kind, model::SandboxEnd::Kind::kMemory, model::SandboxEnd::Kind::kFileLocks);
  a.text(v.message, kSentence);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, Provisioned>
void describe(A& a, T& v) {
  a.text(v.runtime, kName);
  a.text(v.node, kName);
  a.text(v.image, kName);
  a.text(v.image_digest, kName);
  texts(a, v.weakened, kFew, kSentence);
}

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, OpenRequest>
void describe(A& a, T& v) {
  a.number(v.sandbox);
  describe(a, v.permit);
  a.text(v.spec, kBulk);
}

template <class T>
std::string encode(const T& value) {
  Encoder encoder;
  describe(encoder, value);
  return encoder.take();
}

template <class T>
Result<T> decode(std::string_view bytes, const char* what) {
  Decoder decoder(bytes);
  T value;
  describe(decoder, value);
  if (!decoder.done()) return fail(Code::kInvalid, std::string("decoding ") + what + ": malformed");
  return value;
}

}  // namespace

std::string encodePermit(const model::PermitFields& permit) {
  return encode(permit);
}

Result<model::PermitFields> decodePermit(std::string_view bytes) {
  return decode<model::PermitFields>(bytes, "permit");
}

std::string encodeWalls(const model::Walls& walls) {
  return encode(walls);
}

Result<model::Walls> decodeWalls(std::string_view bytes) {
  return decode<model::Walls>(bytes, "walls");
}

std::string encodeSignedPermit(const model::SignedPermit& permit) {
  return encode(permit);
}

Result<model::SignedPermit> decodeSignedPermit(std::string_view bytes) {
  return decode<model::SignedPermit>(bytes, "signed permit");
}

std::string encodeExecSpec(const model::ExecSpec& spec) {
  return encode(spec);
}

Result<model::ExecSpec> decodeExecSpec(std::string_view bytes) {
  return decode<model::ExecSpec>(bytes, "exec spec");
}

std::string encodeOutcome(const model::Outcome& outcome) {
  if (outcome.message.size() <= kSentence) return encode(outcome);
  model::Outcome cut = outcome;
  cut.message.resize(kSentence);
  return encode(cut);
}

Result<model::Outcome> decodeOutcome(std::string_view bytes) {
  return decode<model::Outcome>(bytes, "outcome");
}

std::string encodeUsage(const model::Usage& usage) {
  return encode(usage);
}

Result<model::Usage> decodeUsage(std::string_view bytes) {
  return decode<model::Usage>(bytes, "usage");
}

std::string encodeOffer(const model::NodeOffer& offer) {
  return encode(offer);
}

Result<model::NodeOffer> decodeOffer(std::string_view bytes) {
  return decode<model::NodeOffer>(bytes, "node offer");
}

std::string encodeOpen(const OpenRequest& request) {
  return encode(request);
}

Result<OpenRequest> decodeOpen(std::string_view bytes) {
  return decode<OpenRequest>(bytes, "open request");
}

std::string encodeSandboxEnd(const model::SandboxEnd& end) {
  return encode(model::SandboxEnd{end.kind, end.message.substr(0, kSentence)});
}

Result<model::SandboxEnd> decodeSandboxEnd(std::string_view bytes) {
  return decode<model::SandboxEnd>(bytes, "sandbox end");
}

std::string encodePool(const model::PoolStats& stats) {
  return encode(stats);
}

Result<model::PoolStats> decodePool(std::string_view bytes) {
  return decode<model::PoolStats>(bytes, "pool");
}

std::string encodeImage(const ImageTold& told) {
  ImageTold cut = told;
  cut.state.problem = cut.state.problem.substr(0, kSentence);
  return encode(cut);
}

Result<ImageTold> decodeImage(std::string_view bytes) {
  return decode<ImageTold>(bytes, "image state");
}

std::string encodeError(const Error& error) {
  // An error may quote long text; the beginning is enough.
  return encode(
      Error{error.code, error.message.substr(0, kSentence), error.field.substr(0, kName)});
}

Result<Error> decodeError(std::string_view bytes) {
  return decode<Error>(bytes, "error");
}

std::string encodeProvisioned(const Provisioned& info) {
  return encode(info);
}

Result<Provisioned> decodeProvisioned(std::string_view bytes) {
  return decode<Provisioned>(bytes, "provisioned");
}

}  // namespace cloister::wire
