// Creates a pool, or checks that its objects have a number of bytes: `pool STORE POOL [BYTES]`.
#define _GNU_SOURCE
#include "check.h"

int main(int argc, char **argv) {
  CHECK(argc == 3 || argc == 4);
  benthic_store *store = NULL;
  benthic_pool *pool = NULL;
  OK(benthic_store_open(argv[1], argc == 3, &store, &error));
  if (argc == 3) OK(benthic_pool_create(store, argv[2], &error));
  OK(benthic_pool_open(store, argv[2], NULL, &pool, &error));
  benthic_page *page = NULL;
  size_t count = 0;
  uint64_t all = 0, size = 0;
  OK(benthic_list(pool, NULL, false, NULL, 0, 1000, &page, &error));
  OK(benthic_page_count(page, &count, &error));
  for (size_t at = 0; at < count; at++) {
    const char *namespace = NULL, *name = NULL;
    OK(benthic_page_entry(page, at, &namespace, &name, &error));
    OK(benthic_stat(pool, name, &size, NULL, NULL, &error));
    all += size;
  }
  CHECK(all == (argc == 4 ? strtoull(argv[3], NULL, 10) : 0));
  OK(benthic_store_close(store, &error));
  return 0;
}
