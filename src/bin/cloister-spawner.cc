// SPDX-License-Identifier: Apache-2.0
// cloister-spawner: makes the sandboxes of a node. Only the node starts this program.
#include "confine/become_spawner.h"

int main() {
  cloister::runtime::becomeSpawner();
}
