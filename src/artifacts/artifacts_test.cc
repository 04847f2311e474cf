// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "artifacts/blobs_suite.h"
#include "artifacts/links.h"
#include "artifacts/s3/swift_testing.h"
#include "artifacts/sealed_file.h"
#include "artifacts/tenant_cipher.h"
#include "base/file.h"

namespace cloister::artifacts {
namespace {

namespace fs = std::filesystem;

class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "blobs-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { fs::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Blobs in a directory, opened like the service does.
struct Local {
  Local(const std::string& dir, const std::vector<Secret>& masters,
        boost::asio::thread_pool& background,
        model::Durability durability = model::Durability::kProcess)
      : keyring(Keyring::open(dir, masters).value()),
        blobs(openLocalBlobs(*keyring, durability, background).value()) {}
  std::unique_ptr<Keyring> keyring;
  std::unique_ptr<Blobs> blobs;
};

// Blobs with a directory of their own.
class OwnedBlobs : public Blobs {
 public:
  OwnedBlobs(model::Durability durability, boost::asio::thread_pool& background)
      : local_(dir_.path(), {Secret::random()}, background, durability) {}
  Result<std::unique_ptr<BlobWriter>> create(const std::string& tenant) override {
    return local_.blobs->create(tenant);
  }
  Task<Result<std::unique_ptr<BlobReader>>> open(BlobName name) override {
    return local_.blobs->open(std::move(name));
  }
  void remove(const BlobName& name, std::function<void(Result<>)> done) override {
    local_.blobs->remove(name, std::move(done));
  }
  Task<Result<>> forget(std::string tenant) override {
    return local_.blobs->forget(std::move(tenant));
  }
  Result<> recover(const Named& named) override { return local_.blobs->recover(named); }

 private:
  TempDir dir_;
  Local local_;
};

template <model::Durability kDurability>
std::unique_ptr<Blobs> openOwned(boost::asio::io_context&, boost::asio::thread_pool& background) {
  return std::make_unique<OwnedBlobs>(kDurability, background);
}

INSTANTIATE_TEST_SUITE_P(Local, BlobsSuite,
                         ::testing::Values(&openOwned<model::Durability::kProcess>,
                                           &openOwned<model::Durability::kPower>));
INSTANTIATE_TEST_SUITE_P(S3, BlobsSuite, ::testing::Values(&openOwnedBucket));

class LocalBlobs : public ::testing::Test {
 protected:
  void open() {
    local_.reset();
    local_.emplace(dir_.path(), std::vector{master_}, background_);
  }
  template <class T>
  T await(Task<T> task) {
    return async::runTask(io_, std::move(task));
  }
  std::string put(std::string_view bytes, const std::string& tenant = "acme") {
    auto writer = local_->blobs->create(tenant).value();
    EXPECT_TRUE(writer->write(bytes));
    return await(writer->finish()).value();
  }
  Result<std::string> read(const std::string& sha256, uint64_t offset = 0, size_t n = SIZE_MAX) {
    const auto reader = TRY(await(local_->blobs->open({"acme", sha256})));
    return await(reader->read(offset, n));
  }
  // Files of blobs and of unfinished blobs: all but the keys.
  std::vector<std::string> files() {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
      if (entry.is_regular_file() && entry.path().filename() != "key") {
        paths.push_back(entry.path().string());
      }
    }
    return paths;
  }
  static std::string contentOf(const std::string& path) { return base::readFile(path).value(); }
  static void setContent(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(base::writeFileAtomic(path, bytes, 0600));
  }
  std::string errorOf(const std::string& sha256) {
    const auto bytes = read(sha256);
    EXPECT_FALSE(bytes);
    return bytes ? "" : bytes.error().message;
  }

  TempDir dir_;
  Secret master_ = Secret::random();
  boost::asio::io_context io_;
  boost::asio::thread_pool background_{1};
  std::optional<Local> local_;
};

constexpr size_t kHeader = 24;
constexpr size_t kSealed = kChunk + 16;
constexpr size_t kFooter = 56;

TEST_F(LocalBlobs, NothingOnDiskTellsContentOrTenant) {
  open();
  const std::string secret = "the quick brown fox";
  std::string large;
  while (large.size() < 3 * kChunk)
    large += secret;
  put(secret, "tenant-name");
  put(large, "tenant-name");
  const auto half = local_->blobs->create("tenant-name").value();
  ASSERT_TRUE(half->write(large));
  size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
    const std::string path = entry.path().string();
    EXPECT_EQ(path.find(base::sha256Hex(secret).substr(2)), std::string::npos);
    EXPECT_EQ(path.find("tenant-name"), std::string::npos);
    if (!entry.is_regular_file()) continue;
    seen++;
    const std::string bytes = contentOf(path);
    EXPECT_EQ(bytes.find("quick"), std::string::npos) << path;
    EXPECT_EQ(bytes.find("tenant-name"), std::string::npos) << path;
  }
  EXPECT_EQ(seen, 4U);  // two blobs, half a blob, the key
}

TEST_F(LocalBlobs, TheSameContentOfTwoTenantsLooksDifferent) {
  open();
  put("same", "acme");
  put("same", "rival");
  const auto paths = files();
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_NE(fs::path(paths[0]).filename(), fs::path(paths[1]).filename());
  EXPECT_NE(contentOf(paths[0]), contentOf(paths[1]));
}

TEST_F(LocalBlobs, EveryFlippedByteIsFound) {
  open();
  const std::string digest = put("0123456789");
  const std::string path = files().at(0);
  const std::string whole = contentOf(path);
  ASSERT_EQ(whole.size(), kHeader + 10 + 16 + kFooter);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    setContent(path, bytes);
    EXPECT_FALSE(read(digest)) << at;
  }
  setContent(path, whole);
  EXPECT_EQ(read(digest).value(), "0123456789");
}

TEST_F(LocalBlobs, ADamagedChunkIsNamedAndTheOthersCanBeRead) {
  open();
  const std::string bytes(4 * kChunk, 'x');
  const std::string digest = put(bytes);
  const std::string path = files().at(0);
  std::string damaged = contentOf(path);
  damaged[kHeader + 2 * kSealed + 100] ^= 1;
  setContent(path, damaged);
  EXPECT_NE(errorOf(digest).find("chunk 2 is damaged"), std::string::npos) << errorOf(digest);
  EXPECT_EQ(read(digest, 0, 2 * kChunk).value().size(), 2 * kChunk);
  EXPECT_EQ(read(digest, 3 * kChunk, kChunk).value().size(), kChunk);
}

TEST_F(LocalBlobs, ChunksCannotBeSwappedCutOffRepeatedOrMixed) {
  open();
  std::string bytes(4 * kChunk, 'a');
  const std::string digest = put(bytes);
  const std::string path = files().at(0);
  const std::string whole = contentOf(path);
  const auto chunk = [&](size_t n) { return whole.substr(kHeader + n * kSealed, kSealed); };
  const std::string header = whole.substr(0, kHeader);
  const std::string footer = whole.substr(whole.size() - kFooter);
  const auto refused = [&](const std::string& changed, const std::string& why) {
    setContent(path, changed);
    const std::string error = errorOf(digest);
    EXPECT_NE(error.find(why), std::string::npos) << error;
  };
  refused(header + chunk(1) + chunk(0) + chunk(2) + chunk(3) + footer, "chunk 0 is damaged");
  refused(header + chunk(0) + chunk(1) + chunk(2) + footer, "not all there");
  refused(header + chunk(0) + chunk(1) + chunk(2) + chunk(3) + chunk(3) + footer, "too many");
  refused(header + chunk(0) + chunk(1) + chunk(2).substr(0, 100), "cut off in chunk 2");
  refused(header + footer, "not all there");
  refused(whole.substr(0, 10), "cut off in its header");
  refused("", "cut off in its header");
  refused(whole.substr(0, whole.size() - 1), "cut off in chunk 4");
  bytes[0] = 'b';
  put(bytes);
  const auto paths = files();
  ASSERT_EQ(paths.size(), 2U);
  const std::string other = contentOf(paths[0] == path ? paths[1] : paths[0]);
  refused(header + other.substr(kHeader, kSealed) + chunk(1) + chunk(2) + chunk(3) + footer,
          "chunk 0 is damaged");
  refused(other, "in its place is " + base::sha256Hex(bytes));
  put(std::string(4 * kChunk, 'a'));
  EXPECT_TRUE(read(digest)) << "writing it again heals it";
}

TEST_F(LocalBlobs, ARangeReadsOnlyTheChunksItTouches) {
  open();
  const std::string digest = put(std::string(10 * kChunk, 'x'));
  const std::string path = files().at(0);
  std::string damaged = contentOf(path);
  for (const size_t chunk : {0UL, 1UL, 4UL, 9UL})
    damaged[kHeader + chunk * kSealed] ^= 1;
  setContent(path, damaged);
  EXPECT_TRUE(read(digest, 2 * kChunk, 2 * kChunk));
  EXPECT_FALSE(read(digest, 2 * kChunk, 2 * kChunk + 1));
}

TEST_F(LocalBlobs, AfterACrashKeepsWhatIsNamedAndRemovesTheRest) {
  open();
  const std::string kept = put("kept");
  const auto leave = [&](std::string_view bytes, bool finish) {
    // Never destroyed, as in a killed process.
    static auto& gone = *new std::vector<std::unique_ptr<BlobWriter>>;
    const auto& writer = gone.emplace_back(local_->blobs->create("acme").value());
    EXPECT_TRUE(writer->write(bytes));
    return finish ? await(writer->finish()).value() : "";
  };
  const std::string named = leave("named", true);
  const std::string unnamed = leave("unnamed", true);
  leave("half", false);
  EXPECT_EQ(files().size(), 6U);
  open();
  std::vector<std::string> asked;
  ASSERT_TRUE(local_->blobs->recover([&](const BlobName& name) -> Result<bool> {
    EXPECT_EQ(name.tenant, "acme");
    asked.push_back(name.sha256);
    return name.sha256 == named;
  }));
  EXPECT_EQ(asked.size(), 2U);
  EXPECT_EQ(files().size(), 2U);
  EXPECT_EQ(read(kept).value(), "kept");
  EXPECT_EQ(read(named).value(), "named");
  EXPECT_EQ(await(local_->blobs->open({"acme", unnamed})).error().code, Code::kNotFound);
}

TEST_F(LocalBlobs, AnAbandonedWriterLeavesNothing) {
  open();
  ASSERT_TRUE(local_->blobs->create("acme").value()->write(std::string(3 * kChunk, 'x')));
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalBlobs, NobodyElseMayRead) {
  open();
  put("x");
  for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
    struct stat status{};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, entry.is_directory() ? 0700U : 0600U) << entry.path();
  }
}

TEST_F(LocalBlobs, RefusesAStoreThatIsNotEncrypted) {
  const std::string digest = base::sha256Hex("x");
  fs::create_directories(dir_.path() + "/" + digest.substr(0, 2));
  const auto keyring = Keyring::open(dir_.path(), {master_});
  ASSERT_FALSE(keyring);
  EXPECT_NE(keyring.error().message.find("unencrypted artifacts"), std::string::npos);
}

// Writes fail half-way as on a full disk: the kernel takes no more than the file-size limit.
class SmallFiles {
 public:
  SmallFiles() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{4, before_.rlim_max};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST_F(LocalBlobs, AFailedWriteIsNeverFinished) {
  open();
  put("a key there is");
  const size_t before = files().size();
  {
    const SmallFiles full;
    auto writer = local_->blobs->create("acme").value();
    EXPECT_FALSE(writer->write(std::string(2 * kChunk, 'x')));
    EXPECT_FALSE(writer->write(""));
    EXPECT_FALSE(await(writer->finish()));
    auto small = local_->blobs->create("acme").value();
    EXPECT_TRUE(small->write("x")) << "nothing was sealed yet";
    EXPECT_FALSE(await(small->finish()));
  }
  EXPECT_EQ(files().size(), before);
}

TEST_F(LocalBlobs, AnotherMasterKeyOpensNothing) {
  open();
  put("x");
  const auto keyring = Keyring::open(dir_.path(), {Secret::random()});
  ASSERT_FALSE(keyring);
  EXPECT_NE(keyring.error().message.find("another master key"), std::string::npos);
}

TEST_F(LocalBlobs, TheMasterKeyCanBeChanged) {
  open();
  const std::string digest = put("x");
  const std::string before = contentOf(files().at(0));
  const Secret next = Secret::random();
  local_.emplace(dir_.path(), std::vector{next, master_}, background_);
  EXPECT_EQ(read(digest).value(), "x");
  local_.emplace(dir_.path(), std::vector{next}, background_);
  EXPECT_EQ(read(digest).value(), "x");
  EXPECT_EQ(contentOf(files().at(0)), before) << "only the key is wrapped anew";
  EXPECT_FALSE(Keyring::open(dir_.path(), {master_}));
}

TEST_F(LocalBlobs, AKeyIsBoundToItsDirectory) {
  open();
  put("x", "acme");
  put("x", "rival");
  const std::string a = local_->keyring->find("acme")->dir + "/key";
  const std::string b = local_->keyring->find("rival")->dir + "/key";
  const std::string key = contentOf(a);
  setContent(a, contentOf(b));
  setContent(b, key);
  EXPECT_FALSE(Keyring::open(dir_.path(), {master_}));
}

TEST_F(LocalBlobs, FinishesToForgetATenant) {
  open();
  put("x");
  const std::string dir = local_->keyring->find("acme")->dir;
  fs::rename(dir, dir + ".gone");  // the state after a crash in the middle
  open();
  EXPECT_EQ(local_->keyring->find("acme"), nullptr);
  EXPECT_TRUE(files().empty());
}

TEST_F(LocalBlobs, ADirectoryWithoutItsKeyIsNotPassedOver) {
  open();
  put("x");
  const std::string dir = local_->keyring->find("acme")->dir;
  fs::remove(dir + "/key");
  const auto keyring = Keyring::open(dir_.path(), {master_});
  ASSERT_FALSE(keyring);
  EXPECT_NE(keyring.error().message.find("is missing"), std::string::npos);
  fs::remove_all(dir);
  fs::create_directory(dir);
  std::ofstream(dir + "/key.Ab12xy") << "half of a key";
  EXPECT_TRUE(Keyring::open(dir_.path(), {master_})) << "a crash before there was a key";
  EXPECT_FALSE(fs::exists(dir));
}

TEST(MasterKeys, AreReadLineByLine) {
  const TempDir dir;
  const std::string path = dir.path() + "/master";
  ASSERT_TRUE(ensureMasterKey(path));
  ASSERT_EQ(readMasterKeys(path)->size(), 1U);
  const std::string first = base::readFile(path).value();
  ASSERT_TRUE(ensureMasterKey(path));
  EXPECT_EQ(base::readFile(path).value(), first);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_TRUE(
      base::writeFileAtomic(path, base::toBase64(std::string(32, 'a')) + "\n\n" + first, 0600));
  ASSERT_EQ(readMasterKeys(path)->size(), 2U);
  EXPECT_EQ(readMasterKeys(path)->front().view(), std::string(32, 'a'));
  ASSERT_TRUE(base::writeFileAtomic(path, first + "short\n", 0600));
  EXPECT_NE(readMasterKeys(path).error().message.find("line 2"), std::string::npos);
  ASSERT_TRUE(base::writeFileAtomic(path, "\n", 0600));
  EXPECT_FALSE(readMasterKeys(path));
}

TEST_F(LocalBlobs, ALinkIsGoodForWhatItNamesAlone) {
  open();
  const auto keys = local_->keyring->of("acme").value();
  const auto others = local_->keyring->of("rival").value();
  const Link link{"acme", "art_1", 1000, "key_1"};
  const std::string signature = signLink(*keys, link);
  EXPECT_TRUE(verifyLink(*keys, link, signature));
  EXPECT_FALSE(verifyLink(*others, link, signature));
  EXPECT_FALSE(verifyLink(*keys, {"acme", "art_2", 1000, "key_1"}, signature));
  EXPECT_FALSE(verifyLink(*keys, {"acme", "art_1", 1000, "key_2"}, signature));
  EXPECT_FALSE(verifyLink(*keys, {"acme", "art_1", 1000, ""}, signature));
  EXPECT_FALSE(verifyLink(*keys, {"acme", "art_1", 1001, "key_1"}, signature));
  EXPECT_FALSE(verifyLink(*keys, {"rival", "art_1", 1000, "key_1"}, signature));
  EXPECT_FALSE(verifyLink(*keys, link, ""));
  EXPECT_FALSE(verifyLink(*keys, link, signature + "0"));
  for (size_t at = 0; at < signature.size(); ++at) {
    std::string forged = signature;
    forged[at] = forged[at] == '0' ? '1' : '0';
    EXPECT_FALSE(verifyLink(*keys, link, forged));
  }
  const PortLink port{"acme", "ses_1", 80, 1000, "key_1"};
  const std::string of_port = signPortLink(*keys, port);
  EXPECT_TRUE(verifyPortLink(*keys, port, of_port));
  EXPECT_FALSE(verifyPortLink(*keys, {"acme", "ses_1", 80, 1000, "key_2"}, of_port));
}

class TenantCipherTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    cipher_ = std::make_unique<TenantCipher>(Keyring::open(dir_.path(), {master_}).value());
  }

  TempDir dir_;
  Secret master_ = Secret::random();
  std::unique_ptr<TenantCipher> cipher_;
};

TEST_F(TenantCipherTest, GivesBackWhatItEncryptedInItsPlaceAlone) {
  const std::string plain("secret\0text", 11);
  const std::string one = cipher_->encrypt("acme", "record 1", plain).value();
  EXPECT_NE(one, cipher_->encrypt("acme", "record 1", plain).value()) << "two that look alike";
  EXPECT_EQ(one.find("secret"), std::string::npos);
  open();  // as at the next start
  EXPECT_EQ(cipher_->decrypt("acme", "record 1", one).value(), plain);
  EXPECT_EQ(cipher_->decrypt("acme", "record 2", one).error().code, Code::kInternal);
  for (size_t i = 0; i < one.size(); ++i) {
    std::string changed = one;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(cipher_->decrypt("acme", "record 1", changed)) << i;
    EXPECT_FALSE(cipher_->decrypt("acme", "record 1", one.substr(0, i))) << i;
  }
}

TEST_F(TenantCipherTest, TwoKeysOfOneTenantAreRefused) {
  ASSERT_TRUE(cipher_->encrypt("acme", "x", "y"));
  const TempDir elsewhere;
  TenantCipher other(Keyring::open(elsewhere.path(), {master_}).value());
  ASSERT_TRUE(other.encrypt("acme", "x", "y"));
  fs::copy(elsewhere.path(), dir_.path(), fs::copy_options::recursive);
  const auto both = Keyring::open(dir_.path(), {master_});
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, ::testing::HasSubstr("a key of tenant \"acme\" too"));
}

TEST_F(TenantCipherTest, ATenantHasAKeyOfItsOwn) {
  EXPECT_FALSE(cipher_->has("acme"));
  EXPECT_EQ(cipher_->decrypt("acme", "x", "y").error().code, Code::kInvalid);
  const std::string of_acme = cipher_->encrypt("acme", "x", "y").value();
  const std::string of_other = cipher_->encrypt("other", "x", "y").value();
  EXPECT_TRUE(cipher_->has("acme"));
  EXPECT_FALSE(cipher_->decrypt("other", "x", of_acme));
  EXPECT_EQ(cipher_->decrypt("other", "x", of_other).value(), "y");
}

}  // namespace
}  // namespace cloister::artifacts
