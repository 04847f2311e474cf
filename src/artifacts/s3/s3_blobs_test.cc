// SPDX-License-Identifier: Apache-2.0
// Tests of a bucket beyond the conformance suite of Blobs, against OpenStack Swift.
// artifacts_test.cc runs the suite itself.
#include "artifacts/s3/s3_blobs.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <vector>

#include <gmock/gmock.h>

#include "artifacts/s3/swift_testing.h"
#include "async/run_task.h"
#include "base/file.h"

namespace cloister::artifacts {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kMiB = size_t{1} << 20;

Swift& swift() {
  return Swift::get(CLOISTER_SOURCE_DIR);
}

class BucketDir {
 public:
  BucketDir() {
    std::string name = ::testing::TempDir() + "bucket-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  BucketDir(const BucketDir&) = delete;
  BucketDir& operator=(const BucketDir&) = delete;
  ~BucketDir() { fs::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] size_t files(const std::string& but = "key") const {
    size_t n = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      n += entry.is_regular_file() && entry.path().filename() != but ? 1 : 0;
    return n;
  }

 private:
  std::string path_;
};

// With a directory and a prefix of their own.
class OwnedBucket : public Blobs {
 public:
  explicit OwnedBucket(boost::asio::io_context& io)
      : keyring_(Keyring::open(dir_.path(), {Secret::random()}).value()),
        blobs_(openS3Blobs(*keyring_, io.get_executor(), swift().blobs(dir_.path()))) {
    swift().breakWith("[]");
  }
  Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) override {
    return blobs_->create(tenant);
  }
  Task<Result<std::unique_ptr<BlobReader>>> open(BlobName name) override {
    return blobs_->open(std::move(name));
  }
  void remove(const BlobName& name, std::function<void(Result<>)> done) override {
    blobs_->remove(name, std::move(done));
  }
  Task<Result<>> forget(std::string tenant) override { return blobs_->forget(std::move(tenant)); }
  Result<> recover(const Named& named) override { return blobs_->recover(named); }

 private:
  BucketDir dir_;
  std::unique_ptr<Keyring> keyring_;
  std::unique_ptr<S3Blobs> blobs_;
};

class BucketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    swift_.breakWith("[]");
    std::ignore = swift_.seen();
    open(swift_.blobs(dir_.path()));
  }
  void TearDown() override { swift_.breakWith("[]"); }
  void open(S3BlobsOptions options) {
    blobs_.reset();
    keyring_ = Keyring::open(dir_.path(), {master_}).value();
    options_ = options;
    blobs_ = openS3Blobs(*keyring_, io_.get_executor(), std::move(options));
  }
  void reopen() { open(options_); }
  template <class T>
  T await(Task<T> task) {
    return async::runTask(io_, std::move(task));
  }
  Result<BlobName> put(std::string_view bytes, const std::string& tenant = "acme") {
    auto writer = TRY(blobs_->create(tenant));
    TRY(writer->write(bytes));
    return BlobName{tenant, TRY(await(writer->finish()))};
  }
  Result<std::string> read(const BlobName& name, uint64_t offset = 0, size_t length = SIZE_MAX) {
    const auto reader = TRY(await(blobs_->open(name)));
    return await(reader->read(offset, length));
  }
  // The contents of the bucket, past the service.
  std::vector<std::string> objects() { return S3Client(options_.client).list(prefix()).value(); }
  size_t uploads() { return S3Client(options_.client).uploads(prefix()).value().size(); }
  [[nodiscard]] std::string prefix() const { return options_.prefix + "/"; }
  static std::string large(size_t size = 12 * kMiB + 123) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(i * 31 + i / 251);
    return bytes;
  }
  [[nodiscard]] bool mentionsSecret(const std::string& text) const {
    return text.contains(options_.client.credentials.secret) || text.contains("Signature=");
  }

  Swift& swift_ = swift();
  BucketDir dir_;
  Secret master_ = Secret::random();
  boost::asio::io_context io_;
  S3BlobsOptions options_;
  std::unique_ptr<Keyring> keyring_;
  std::unique_ptr<S3Blobs> blobs_;
};

TEST_F(BucketTest, ALargeBlobGoesInParts) {
  const std::string bytes = large();
  const auto name = put(bytes);
  ASSERT_TRUE(name) << name.error().message;
  const std::string seen = swift_.seen();
  EXPECT_THAT(seen, HasSubstr("partNumber=3"));
  EXPECT_THAT(seen, Not(HasSubstr("partNumber=4")));
  EXPECT_TRUE(read(*name).value() == bytes);
  EXPECT_TRUE(read(*name, 6 * kMiB, 100).value() == bytes.substr(6 * kMiB, 100));
  EXPECT_EQ(uploads(), 0U);
  EXPECT_EQ(dir_.files(), 0U) << "nothing stays on the local disk";
}

TEST_F(BucketTest, ARangeReadsOnlyAPartOfTheObject) {
  const auto name = put(large());
  const auto reader = await(blobs_->open(name.value())).value();
  std::ignore = swift_.seen();
  ASSERT_TRUE(await(reader->read(4 * kMiB, 100)));
  ASSERT_TRUE(await(reader->read(4 * kMiB + 100, 1000)));
  const std::string seen = swift_.seen();
  EXPECT_EQ(seen.find("GET"), seen.rfind("GET")) << "one request: " << seen;
}

TEST_F(BucketTest, NamesAndContentsOfObjectsTellNothing) {
  const std::string content = "the quick brown fox";
  const BlobName name = put(content, "tenant-name").value();
  const auto keys = objects();
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_THAT(keys[0], Not(HasSubstr("tenant-name")));
  EXPECT_THAT(keys[0], Not(HasSubstr(name.sha256.substr(2))));
  S3Client client(options_.client);
  const std::string object = client.tail(keys[0], 4096).value().bytes;
  EXPECT_THAT(object, Not(HasSubstr("quick")));
  EXPECT_THAT(object, testing::StartsWith("CLBLOB1\n"));
}

TEST_F(BucketTest, AWrongSecretIsRefusedAndNotTold) {
  S3BlobsOptions options = options_;
  options.client.credentials.secret = "wrong-secret-of-nobody";
  open(options);
  const auto answers = blobs_->check();
  ASSERT_FALSE(answers);
  EXPECT_EQ(answers.error().code, Code::kInvalid);
  EXPECT_THAT(answers.error().message, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(answers.error().message, HasSubstr("artifacts.s3.credentials_file"));
  const auto name = put("x");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Code::kUnavailable);
  EXPECT_FALSE(mentionsSecret(name.error().message + answers.error().message));
}

TEST_F(BucketTest, AWrongBucketOrServerIsNamed) {
  EXPECT_TRUE(blobs_->check());
  S3BlobsOptions options = options_;
  options.client.bucket = "no-such-bucket";
  open(options);
  EXPECT_EQ(blobs_->check().error().code, Code::kInvalid);
  EXPECT_THAT(blobs_->check().error().message, HasSubstr("artifacts.s3.bucket"));
  options.client.endpoint.url.port = "1";
  open(options);
  EXPECT_EQ(blobs_->check().error().code, Code::kUnavailable);
  EXPECT_THAT(blobs_->check().error().message, HasSubstr("127.0.0.1:1"));
}

TEST_F(BucketTest, AChangedBodyIsRefused) {
  swift_.breakWith(R"([{"kind":"tamper","match":"PUT","count":9}])");
  const auto name = put("what is signed");
  ASSERT_FALSE(name);
  EXPECT_TRUE(objects().empty());
  swift_.breakWith(R"([{"kind":"tamper","match":"partNumber=2","count":9}])");
  EXPECT_FALSE(put(large()));
  EXPECT_TRUE(objects().empty());
  EXPECT_EQ(uploads(), 0U) << "the upload was aborted";
}

TEST_F(BucketTest, ADamagedObjectIsFoundAndHealed) {
  const BlobName name = put("0123456789").value();
  const std::string key = objects().at(0);
  S3Client client(options_.client);
  std::string bytes = client.tail(key, 4096)->bytes;
  bytes[30] = static_cast<char>(bytes[30] ^ 1);
  const std::string file = dir_.path() + "/damaged";
  ASSERT_TRUE(base::writeFileAtomic(file, bytes, 0600));
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(client.put(key, FilePart{fd.get(), 0, bytes.size()}));
  const auto damaged = read(name);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kInternal);
  EXPECT_THAT(damaged.error().message, HasSubstr("chunk 0 is damaged"));
  ASSERT_TRUE(put("0123456789"));
  EXPECT_EQ(read(name).value(), "0123456789");
}

TEST_F(BucketTest, PassingFaultsAreOvercome) {
  for (const char* fault : {R"([{"kind":"status","status":503,"match":"","count":2}])",
                            R"([{"kind":"status","status":500,"match":"","count":1}])",
                            R"([{"kind":"cut","match":"PUT","count":2}])",
                            R"([{"kind":"lose","match":"","count":2}])"}) {
    SCOPED_TRACE(fault);
    swift_.breakWith(fault);
    const auto name = put(std::string("some bytes ") + fault);
    ASSERT_TRUE(name) << name.error().message;
    swift_.breakWith(fault);
    EXPECT_EQ(read(*name).value(), std::string("some bytes ") + fault);
    swift_.breakWith(fault);
    EXPECT_TRUE(await(blobs_->removed(*name)));
  }
  swift_.breakWith(R"([{"kind":"cut_answer","match":"GET","count":2}])");
  const auto name = put("cut");
  EXPECT_EQ(read(name.value()).value(), "cut");
}

TEST_F(BucketTest, FaultsOfPartsAreOvercome) {
  const std::string bytes = large();
  swift_.breakWith(R"([{"kind":"status","status":503,"match":"?uploads=","count":1},)"
                   R"({"kind":"cut","match":"partNumber=1","count":1},)"
                   R"({"kind":"lose","match":"partNumber=2","count":1},)"
                   R"({"kind":"lose","match":"?uploadId=","count":2}])");
  const auto name = put(bytes);
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_TRUE(read(*name).value() == bytes);
}

TEST_F(BucketTest, AStoreThatGoesOnFailingIsReportedAfterTheAttempts) {
  swift_.breakWith(R"([{"kind":"status","status":503,"match":"","count":1000}])");
  const auto name = put("x");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Code::kUnavailable);
  EXPECT_THAT(name.error().message, HasSubstr("putting a blob into S3"));
  EXPECT_THAT(name.error().message, HasSubstr("HTTP status 503"));
  const std::string seen = swift_.seen();
  size_t puts = 0;
  for (size_t at = seen.find("PUT"); at != std::string::npos; at = seen.find("PUT", at + 1))
    puts++;
  EXPECT_EQ(puts, 3U);
  const auto opened = await(blobs_->open({"acme", std::string(64, 'a')}));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kUnavailable) << "nobody knows whether it is there";
}

TEST_F(BucketTest, ALateStoreIsGivenUp) {
  S3BlobsOptions options = options_;
  options.client.timeout = Millis(200);
  options.client.attempts = 1;
  open(options);
  swift_.breakWith(R"([{"kind":"hang","match":"","count":1000}])");
  const auto name = put("x");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Code::kUnavailable);
}

TEST_F(BucketTest, AHostileAnswerIsRefused) {
  const BlobName name = put(large()).value();
  const auto reader = await(blobs_->open(name)).value();
  // All of a huge body, in place of the range that was asked for.
  swift_.breakWith(R"([{"kind":"status","status":200,"body":")" + std::string(3 * kMiB, 'x') +
                   R"(","match":"GET","count":1000}])");
  EXPECT_EQ(await(reader->read(0, 10)).error().code, Code::kUnavailable);
  swift_.breakWith(R"([{"kind":"status","status":206,"body":"short","match":"GET","count":1000}])");
  EXPECT_EQ(await(reader->read(0, 10)).error().code, Code::kUnavailable);
  swift_.breakWith(R"([{"kind":"status","status":302,"body":"","match":"GET","count":1000}])");
  EXPECT_EQ(await(reader->read(0, 10)).error().code, Code::kUnavailable);
  EXPECT_EQ(await(blobs_->open(name)).error().code, Code::kUnavailable);
}

TEST_F(BucketTest, AfterACrashKeepsWhatIsNamedAndRemovesTheRest) {
  const auto leave = [&](std::string_view bytes, bool finish) {
    // Never destroyed, as in a killed process.
    static auto& gone = *new std::vector<std::unique_ptr<BlobWriter>>;
    const auto& writer = gone.emplace_back(blobs_->create("acme").value());
    EXPECT_TRUE(writer->write(bytes));
    return finish ? await(writer->finish()).value() : "";
  };
  const std::string named = leave("named", true);
  const std::string unnamed = leave("unnamed", true);
  leave("half", false);
  EXPECT_EQ(objects().size(), 2U);
  auto before = std::move(blobs_);
  std::ignore = before.release();  // its writers live on
  reopen();
  ASSERT_TRUE(
      blobs_->recover([&](const BlobName& name) -> Result<bool> { return name.sha256 == named; }));
  EXPECT_EQ(objects().size(), 1U);
  EXPECT_EQ(read({"acme", named}).value(), "named");
  EXPECT_EQ(await(blobs_->open({"acme", unnamed})).error().code, Code::kNotFound);
  EXPECT_EQ(dir_.files(), 0U);
}

TEST_F(BucketTest, WithoutTheStoreAStartLeavesSpoolFilesForTheNext) {
  {
    auto writer = blobs_->create("acme").value();
    ASSERT_TRUE(writer->write("unnamed"));
    ASSERT_TRUE(await(writer->finish()));
    blobs_->stop();  // the service ends before a record names the blob
  }
  reopen();
  const auto nothing = [](const BlobName&) -> Result<bool> { return false; };
  swift_.breakWith(R"([{"kind":"status","status":503,"match":"","count":1000}])");
  EXPECT_TRUE(blobs_->recover(nothing)) << "the service starts";
  swift_.breakWith("[]");
  EXPECT_EQ(objects().size(), 1U);
  reopen();
  EXPECT_TRUE(blobs_->recover(nothing));
  EXPECT_TRUE(objects().empty());
  EXPECT_EQ(dir_.files(), 0U);
}

TEST_F(BucketTest, AForgottenTenantLosesItsObjectsAsSoonAsTheStoreAnswers) {
  const BlobName name = put("secret").value();
  ASSERT_TRUE(put("theirs", "rival"));
  swift_.breakWith(R"([{"kind":"status","status":503,"match":"","count":1000}])");
  ASSERT_TRUE(await(blobs_->forget("acme"))) << "the key is gone";
  EXPECT_EQ(await(blobs_->open(name)).error().code, Code::kNotFound);
  swift_.breakWith("[]");
  EXPECT_EQ(objects().size(), 2U);
  reopen();
  EXPECT_EQ(await(blobs_->sweep()).value(), 1U);
  EXPECT_EQ(objects().size(), 1U);
  EXPECT_EQ(await(blobs_->sweep()).value(), 0U);
  EXPECT_EQ(dir_.files(), 0U) << "no note is left";
}

TEST_F(BucketTest, OnlyOldUploadsAreAborted) {
  S3Client client(options_.client);
  ASSERT_TRUE(client.begin(prefix() + "abandoned"));
  EXPECT_EQ(await(blobs_->sweep()).value(), 0U);
  EXPECT_EQ(uploads(), 1U);
  S3BlobsOptions options = options_;
  options.abandoned_us = -5'000'000;  // Swift rounds the time of an upload up to seconds
  open(options);
  EXPECT_EQ(await(blobs_->sweep()).value(), 1U);
  EXPECT_EQ(uploads(), 0U);
}

TEST_F(BucketTest, TheBlobsOfADirectoryMoveIn) {
  boost::asio::thread_pool background(1);
  std::vector<BlobName> names;
  {
    const auto local = openLocalBlobs(*keyring_, model::Durability::kProcess, background).value();
    for (const std::string& bytes : {std::string("one"), std::string("two"), large()}) {
      auto writer = local->create("acme").value();
      ASSERT_TRUE(writer->write(bytes));
      names.push_back({"acme", await(writer->finish()).value()});
    }
  }
  reopen();
  const auto all = [](const BlobName&) -> Result<bool> { return true; };
  swift_.breakWith(R"([{"kind":"status","status":503,"match":"PUT","count":1000}])");
  EXPECT_FALSE(blobs_->recover(all)) << "blobs that nobody could read";
  swift_.breakWith("[]");
  ASSERT_TRUE(blobs_->recover(all));
  EXPECT_EQ(read(names[0]).value(), "one");
  EXPECT_EQ(read(names[1]).value(), "two");
  EXPECT_TRUE(read(names[2]).value() == large());
  EXPECT_EQ(dir_.files(), 0U);
}

TEST_F(BucketTest, PartsAndConnectionsAreBounded) {
  S3BlobsOptions options = options_;
  options.parts_at_once = 2;
  open(options);
  swift_.breakWith(R"([{"kind":"slow","seconds":0.2,"match":"partNumber","count":100}])");
  ASSERT_TRUE(put(large(21 * kMiB)));
  EXPECT_THAT(swift_.seen(), HasSubstr("\"part\": 2"));
}

}  // namespace

std::unique_ptr<Blobs> openOwnedBucket(boost::asio::io_context& io, boost::asio::thread_pool&) {
  return std::make_unique<OwnedBucket>(io);
}

}  // namespace cloister::artifacts
