// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/recorder.h"

#include <map>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "async/run_task.h"

namespace cloister::orchestrator {
namespace {

// Blobs in memory with limited space.
class MemoryBlobs final : public artifacts::Blobs {
 public:
  Result<std::unique_ptr<artifacts::BlobWriter>> create(const std::string& tenant) override {
    EXPECT_EQ(tenant, "acme");
    return std::make_unique<Writer>(*this);
  }
  artifacts::Task<Result<std::unique_ptr<artifacts::BlobReader>>> open(
      artifacts::BlobName) override {
    co_return fail(Code::kNotFound, "not here");
  }
  void remove(const artifacts::BlobName&, std::function<void(Result<>)> done) override {
    done(Result<>{});
  }
  artifacts::Task<Result<>> forget(std::string) override { co_return Result<>{}; }
  Result<> recover(const Named&) override { return {}; }

  std::map<std::string, std::string> blobs;
  size_t room = SIZE_MAX;
  bool refuses = false;

 private:
  class Writer final : public artifacts::BlobWriter {
   public:
    explicit Writer(MemoryBlobs& blobs) : blobs_(blobs) {}
    Result<> write(std::string_view bytes) override {
      if (bytes.size() > blobs_.room) return fail(Code::kNoSpace, "writing a blob: no space");
      blobs_.room -= bytes.size();
      bytes_ += bytes;
      return {};
    }
    artifacts::Task<Result<std::string>> seal() override { co_return base::sha256Hex(bytes_); }
    artifacts::Task<Result<>> keep() override {
      if (blobs_.refuses) co_return fail(Code::kUnavailable, "keeping a blob: no answer");
      blobs_.blobs[base::sha256Hex(bytes_)] = bytes_;
      co_return Result<>{};
    }

   private:
    MemoryBlobs& blobs_;
    std::string bytes_;
  };
};

class RecorderTest : public testing::Test {
 protected:
  void file(const std::string& path, const std::string& content, uint64_t claimed) {
    async::runTask(io_,
                   [](Recorder& to, std::string name, std::string bytes,
                      uint64_t size) -> boost::asio::awaitable<bool> {
                     co_await to.onFileBegin(std::move(name), size);
                     co_await to.onFileData(bytes);
                     co_await to.onFileEnd();
                     co_return true;
                   }(recorder_, path, content, claimed));
  }
  void file(const std::string& path, const std::string& content) {
    file(path, content, content.size());
  }
  model::Execution complete(Recorder& recorder, bool truncated = false) {
    async::runTask(io_, [](Recorder& to) -> boost::asio::awaitable<bool> {
      co_await to.end();
      co_return true;
    }(recorder));
    model::Execution execution;
    recorder.complete(execution, truncated);
    return execution;
  }
  model::Execution complete(bool truncated = false) { return complete(recorder_, truncated); }
  Recorder::Owner owner() {
    return {.tenant = "acme",
            .room = [this] { return room_; },
            .keep =
                [](artifacts::BlobName blob, artifacts::BlobWriter& writer) {
                  EXPECT_EQ(blob.tenant, "acme");
                  return writer.keep();
                }};
  }

  boost::asio::io_context io_;
  MemoryBlobs blobs_;
  OutputLog log_{io_.get_executor(), 10};
  model::ArtifactQuota room_{.artifacts = 10, .bytes = 1000};
  std::shared_ptr<KnownSecrets> known_ = std::make_shared<KnownSecrets>();
  Recorder recorder_{blobs_,
                     owner(),
                     log_,
                     {.output = 10, .whole = 25, .artifacts = {{"**"}, 3, 100}},
                     {.started = [] {}, .usage = [](const model::Usage&) {}},
                     known_};
};

TEST_F(RecorderTest, KeepsHeadsAndHashesTheOrderOfArrival) {
  recorder_.record(model::Stream::kStdout, "one");
  recorder_.record(model::Stream::kStderr, "two");
  recorder_.record(model::Stream::kStdout, "three");
  const auto execution = complete();
  EXPECT_EQ(execution.out.bytes, "onethree");
  EXPECT_EQ(execution.err.bytes, "two");
  EXPECT_EQ(execution.provenance.output_sha256, base::sha256Hex("onetwothree"));
  EXPECT_EQ(execution.provenance.stdout_sha256, base::sha256Hex("onethree"));
  EXPECT_EQ(execution.provenance.stderr_sha256, base::sha256Hex("two"));
  EXPECT_FALSE(execution.error);
  EXPECT_TRUE(blobs_.blobs.empty());
}

TEST_F(RecorderTest, KeepsOutputWithoutSecretsAndItsDigestsToo) {
  known_->add({{"K", "secret value"}});
  recorder_.record(model::Stream::kStdout, "a sec");
  EXPECT_EQ(log_.kept(model::Stream::kStdout, 0), "a ") << "what may be one waits";
  recorder_.record(model::Stream::kStdout, "ret value");
  recorder_.record(model::Stream::kStderr, "secret v");
  const auto execution = complete();
  EXPECT_EQ(execution.out.bytes + std::string(log_.kept(model::Stream::kStdout, 10)), "a [secret ");
  EXPECT_EQ(execution.provenance.stdout_sha256, base::sha256Hex("a [secret K]"));
  EXPECT_EQ(execution.err.bytes, "secret v") << "the rest that was none";
}

TEST_F(RecorderTest, KeepsTheWholeOfAStreamWithoutSecrets) {
  known_->add({{"K", "secret value"}});
  recorder_.record(model::Stream::kStdout, "0123456789 secret value.");
  const auto execution = complete();
  ASSERT_EQ(blobs_.blobs.size(), 1U);
  EXPECT_EQ(blobs_.blobs.begin()->second, "0123456789 [secret K].");
}

TEST_F(RecorderTest, LearnsSecretsMeanwhile) {
  recorder_.record(model::Stream::kStdout, "x");
  known_->add({{"K", "12345678"}});
  recorder_.record(model::Stream::kStdout, "12345678");
  EXPECT_EQ(complete().provenance.stdout_sha256, base::sha256Hex("x[secret K]"));
}

TEST_F(RecorderTest, LeavesOutAFileWithASecret) {
  known_->add({{"K", "secret value"}});
  file("clean", "some text");
  file("dirty", "its secret value");
  file("coded", "c2VjcmV0IHZhbHVl");
  const auto execution = complete();
  ASSERT_EQ(execution.artifacts.size(), 1U);
  EXPECT_EQ(execution.artifacts[0].path, "clean");
  ASSERT_EQ(recorder_.withheld().size(), 2U);
  EXPECT_EQ(recorder_.withheld()[0].path, "dirty");
  EXPECT_EQ(recorder_.withheld()[1].secret, "K");
  ASSERT_TRUE(execution.error);
  EXPECT_TRUE(execution.error->message.contains("artifact dirty was not kept"));
  for (const auto& [digest, bytes] : blobs_.blobs)
    EXPECT_EQ(bytes, "some text");
}

TEST_F(RecorderTest, StoresTheWholeOfALongStreamToTheByte) {
  recorder_.record(model::Stream::kStdout, "0123456");
  recorder_.record(model::Stream::kStdout, "789abcdef");
  recorder_.record(model::Stream::kStdout, "ghij");
  const auto execution = complete();
  EXPECT_EQ(execution.out.bytes, "0123456789");
  EXPECT_TRUE(execution.out.truncated);
  ASSERT_EQ(execution.artifacts.size(), 1U);
  EXPECT_EQ(execution.artifacts[0].id, execution.out.artifact);
  EXPECT_EQ(blobs_.blobs.at(execution.artifacts[0].sha256), "0123456789abcdefghij");
  EXPECT_EQ(execution.artifacts[0].full_size, 0U) << "it is whole";
}

TEST_F(RecorderTest, StoresTheWholeOfATerminalsOutput) {
  OutputLog last(io_.get_executor(), 10, OutputLog::Keep::kLast);
  Recorder recorder(blobs_, owner(), last, {.output = 10, .whole = 100, .artifacts = {}},
                    {.started = [] {}, .usage = [](const model::Usage&) {}});
  recorder.record(model::Stream::kStdout, "0123");
  recorder.record(model::Stream::kStdout, "456789abcdefghijklmnop");
  recorder.record(model::Stream::kStdout, "q");
  const auto execution = complete(recorder);
  ASSERT_EQ(execution.artifacts.size(), 1U);
  EXPECT_EQ(blobs_.blobs.at(execution.artifacts[0].sha256), "0123456789abcdefghijklmnopq");
}

TEST_F(RecorderTest, StopsStoringAtItsBound) {
  for (int i = 0; i < 10; i++)
    recorder_.record(model::Stream::kStderr, "0123456789");
  const auto execution = complete();
  EXPECT_EQ(execution.err.total, 100U);
  ASSERT_EQ(execution.artifacts.size(), 1U);
  EXPECT_EQ(execution.artifacts[0].size, 25U);
  EXPECT_EQ(execution.artifacts[0].full_size, 100U);
  EXPECT_EQ(blobs_.blobs.at(execution.artifacts[0].sha256).size(), 25U);
}

TEST_F(RecorderTest, WhatTheStoreDoesNotTakeIsLostAndNotNamed) {
  blobs_.refuses = true;
  recorder_.record(model::Stream::kStdout, "0123456789abcdefghij");
  file("a.txt", "aa");
  const auto execution = complete();
  EXPECT_TRUE(execution.artifacts.empty());
  EXPECT_EQ(execution.out.artifact, "");
  ASSERT_TRUE(execution.error);
  EXPECT_THAT(execution.error->message, testing::HasSubstr("no answer"));
}

TEST_F(RecorderTest, KeepsFilesWithinItsBounds) {
  file("a.txt", "aa");
  file("b.png", "\x89PNG\r\n\x1a\n");
  file("big", std::string(200, 'x'));
  file("liar", std::string(200, 'x'), 5);
  file("c", "");
  const auto execution = complete();
  std::vector<std::string> paths;
  for (const auto& artifact : execution.artifacts)
    paths.push_back(artifact.path);
  EXPECT_THAT(paths, testing::ElementsAre("a.txt", "b.png")) << "the liar used up the third place";
  EXPECT_EQ(execution.artifacts[1].content_type, "image/png");
  ASSERT_TRUE(execution.error);
  EXPECT_EQ(execution.error->details.at("limit"), "artifacts");
}

TEST_F(RecorderTest, DropsPathsThatLeaveTheWorkspace) {
  for (const std::string path : {"../x", "/etc/passwd", "a/../../x", "", "a//b", "./a", "a/."}) {
    file(path, "x");
  }
  EXPECT_TRUE(complete().artifacts.empty());
}

TEST_F(RecorderTest, KeepsWhatTheTenantHasRoomFor) {
  room_ = {.artifacts = 2, .bytes = 5};
  file("a", "aaa");
  file("b", "bbb");
  file("c", "cc");
  file("d", "");
  const auto execution = complete();
  ASSERT_EQ(execution.artifacts.size(), 2U);
  EXPECT_EQ(execution.artifacts[1].path, "c");
  ASSERT_TRUE(execution.error);
  EXPECT_EQ(execution.error->type, model::error_type::kQuotaExceeded);
}

TEST_F(RecorderTest, SaysWhenNotAllCouldBeStored) {
  blobs_.room = 3;
  file("a", "aaa");
  file("b", "bbb");
  const auto execution = complete();
  ASSERT_EQ(execution.artifacts.size(), 1U);
  EXPECT_EQ(execution.artifacts[0].path, "a");
  ASSERT_TRUE(execution.error);
  EXPECT_THAT(execution.error->message, testing::HasSubstr("no space"));
}

TEST(OutputLog, ReadersPullAtTheirOwnPace) {
  boost::asio::io_context io;
  OutputLog log(io.get_executor(), 8);
  log.append(model::Stream::kStdout, "0123456789");
  EXPECT_EQ(log.kept(model::Stream::kStdout, 0), "01234567");
  EXPECT_EQ(log.kept(model::Stream::kStdout, 6), "67");
  EXPECT_EQ(log.kept(model::Stream::kStdout, 100), "");
  EXPECT_EQ(log.total(model::Stream::kStdout), 10U);
  EXPECT_EQ(log.kept(model::Stream::kStderr, 0), "");
}

TEST(OutputLog, WakesReadersForEachChangeAndAtTheEnd) {
  boost::asio::io_context io;
  OutputLog log(io.get_executor(), 8);
  std::vector<std::string> seen;
  for (int reader = 0; reader < 3; reader++) {
    async::spawn(
        io.get_executor(),
        [](OutputLog& from, std::vector<std::string>& out) -> boost::asio::awaitable<void> {
          uint64_t version = 0;
          while (!from.closed()) {
            co_await from.wait(version, std::chrono::hours(1));
            version = from.version();
            out.emplace_back(from.kept(model::Stream::kStdout, 0));
          }
        }(log, seen));
  }
  io.poll();
  EXPECT_TRUE(seen.empty());
  log.append(model::Stream::kStdout, "a");
  io.poll();
  EXPECT_THAT(seen, testing::ElementsAre("a", "a", "a"));
  log.close();
  io.run();
  EXPECT_EQ(seen.size(), 6U);
}

TEST(OutputLog, AWaitEndsWithItsTime) {
  boost::asio::io_context io;
  OutputLog log(io.get_executor(), 8);
  const bool returned = async::runTask(io, [](OutputLog& from) -> boost::asio::awaitable<bool> {
    co_await from.wait(from.version(), std::chrono::milliseconds(5));
    co_return true;
  }(log));
  EXPECT_TRUE(returned);
  EXPECT_FALSE(log.closed());
}

TEST(OutputLog, OfARecordIsClosed) {
  boost::asio::io_context io;
  model::Execution execution;
  execution.status = model::Status::kCompleted;
  execution.out = {.bytes = "kept", .total = 10, .truncated = true, .artifact = ""};
  const auto log = OutputLog::ofRecord(io.get_executor(), execution);
  EXPECT_TRUE(log->closed());
  EXPECT_EQ(log->kept(model::Stream::kStdout, 0), "kept");
  EXPECT_EQ(log->total(model::Stream::kStdout), 10U);
  EXPECT_EQ(log->latest().status, model::Status::kCompleted);
}

}  // namespace
}  // namespace cloister::orchestrator
