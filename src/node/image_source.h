// SPDX-License-Identifier: Apache-2.0
// ImageSource over the node's store of images (images/store.h). Other processes write to the store,
// so each query reads the store's current contents. One thread.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "images/store.h"
#include "model/language.h"
#include "sandbox/image/image_source.h"

namespace cloister::node {

class StoredImages final : public runtime::ImageSource {
 public:
  // `languages` must outlive the object.
  StoredImages(images::Store store, const model::LanguageSet& languages);

  std::shared_ptr<const std::vector<model::OfferedImage>> offered() override;
  Result<runtime::ImageFiles> open(const std::string& digest) override;
  Result<std::vector<std::string>> env(const model::ImageRef& image) override;

 private:
  // The time of the last change of names, as far as visible.
  struct Stamp {
    ino_t inode = 0;
    timespec written{};
    bool settled = false;  // long enough ago for another change to show

    friend bool operator==(const Stamp& a, const Stamp& b) {
      return a.inode == b.inode && a.written.tv_sec == b.written.tv_sec &&
             a.written.tv_nsec == b.written.tv_nsec;
    }
  };
  [[nodiscard]] Stamp stamp() const;
  void list();
  model::OfferedImage describe(const images::Found& found);

  images::Store store_;
  const model::LanguageSet& languages_;
  Stamp listed_;
  std::vector<images::Found> found_;
  std::shared_ptr<const std::vector<model::OfferedImage>> offered_;
  std::map<std::string, std::string> complained_;  // name → why the image is unusable
};

}  // namespace cloister::node
