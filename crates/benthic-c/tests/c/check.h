// Checks for test programs: the first one that fails ends the program.
#ifndef CHECK_H
#define CHECK_H

#include <benthic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

// Expects the kind of a call, and an error object exactly if the call failed.
#define EXPECT(wanted, call)                                                     \
  do {                                                                           \
    error = NULL;                                                                \
    int32_t kind_ = (call);                                                      \
    if (kind_ != (wanted) || (kind_ == 0) != (error == NULL) ||                  \
        (error && benthic_error_kind(error) != kind_)) {                         \
      fprintf(stderr, "%s:%d: %s returned %d: %s\n", __FILE__, __LINE__, #call,   \
              kind_, error ? benthic_error_message(error) : "no error");         \
      exit(1);                                                                   \
    }                                                                            \
    CHECK(benthic_error_free(error) == 0);                                       \
  } while (0)

#define OK(call) EXPECT(BENTHIC_KIND_OK, call)

static benthic_error *error;

// Opens the store of the command line, with an empty pool of this name.
static inline benthic_pool *open_pool(const char *uri, const char *name, benthic_store **store) {
  OK(benthic_store_open(uri, true, store, &error));
  OK(benthic_pool_create(*store, name, &error));
  benthic_pool *pool = NULL;
  OK(benthic_pool_open(*store, name, NULL, &pool, &error));
  return pool;
}

// Closes both and removes the pool.
static inline void close_pool(benthic_store *store, benthic_pool *pool, const char *name) {
  CHECK(benthic_pool_close(pool) == 0);
  OK(benthic_pool_remove(store, name, &error));
  OK(benthic_store_close(store, &error));
}

#endif
