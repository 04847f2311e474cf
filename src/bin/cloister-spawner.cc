// SPDX-License-Identifier: Apache-2.0
// cloister-spawner: makes the sandboxes of a node, which starts it, and never anybody else.
#include "confine/become_spawner.h"

int main() {
  cloister::runtime::becomeSpawner();
}
