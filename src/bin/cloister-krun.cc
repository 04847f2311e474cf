// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "krun/driver.h"

int main(int argc, char** argv) {
  return cloister::krun::drive(
      std::span(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0));
}
