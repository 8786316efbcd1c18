// SPDX-License-Identifier: Apache-2.0
// A pool's creation and first malloc touch few pages of memory: each costs the process a page fault, which on
// a virtual machine takes 1 to 3 us.
#include <stdlib.h>
#include <sys/resource.h>

#include "support/check.h"

static long faults(void) {
  struct rusage usage;
  REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

// Of a new pool and its first malloc. Their blocks stay, so that nothing is touched already.
static long faults_of_first_malloc(void) {
  const long before = faults();
  new_block(new_pool(0), 1 << 20);
  return faults() - before;
}

static void at_most(const char* what, long measured, long most) {
  if (measured <= most) return;
  fprintf(stderr, "%s: %ld page faults, more than %ld\n", what, measured, most);
  ++check_failures;
}

int main(void) {
  // From here on the C library takes what is smaller than this from memory that it has, and clears it.
  free(malloc(4 << 20));
  // Of these, some 20 are of code, and 10 of the first stack that is taken.
  at_most("the process's first malloc", faults_of_first_malloc(), 75);
  at_most("a pool's first malloc", faults_of_first_malloc(), 40);
  return check_failures != 0;
}
