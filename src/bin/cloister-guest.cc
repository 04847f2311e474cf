// SPDX-License-Identifier: Apache-2.0
// cloister-guest: pid 1 of a virtual machine that the node makes, or of a container ("container").
// Never started by hand.
#include <string_view>

#include "guest/guest.h"
#include "wire/guest.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == cloister::wire::guest::kContainer) {
    cloister::guest::runInContainer();
  }
  cloister::guest::run();
}
