// Operations in flight: callbacks, also ones that call the library, waiting, cancelling, and many threads.
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 100 };

struct state {
  benthic_pool *pool;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int calls;
  int failures;
};

static void called(struct state *state, bool good) {
  pthread_mutex_lock(&state->lock);
  state->calls++;
  state->failures += !good;
  pthread_cond_broadcast(&state->changed);
  pthread_mutex_unlock(&state->lock);
}

static void wait_for(struct state *state, int calls) {
  pthread_mutex_lock(&state->lock);
  while (state->calls < calls) pthread_cond_wait(&state->changed, &state->lock);
  CHECK(state->calls == calls && state->failures == 0);
  state->calls = 0;
  pthread_mutex_unlock(&state->lock);
}

// Calls the library again: waits for an operation, and starts another one.
static void again(benthic_completion *completion, void *context) {
  struct state *state = context;
  benthic_error *failure = NULL;
  benthic_reply *reply = NULL;
  char buffer[8];
  size_t len = 0;
  bool complete = false;
  bool good = benthic_completion_wait(completion, 0, &complete, &failure) == 0 && complete;
  good = good && benthic_completion_result(completion, &reply, &failure) == 0;
  good = good && benthic_reply_free(reply) == 0;
  good = good && benthic_read(state->pool, "a", 0, buffer, 8, &len, &failure) == 0 && len == 3;
  good = good && benthic_completion_free(completion) == 0;
  called(state, good);
}

static void first(benthic_completion *completion, void *context) {
  struct state *state = context;
  benthic_error *failure = NULL;
  benthic_write_op *op = NULL;
  benthic_completion *second = NULL;
  bool good = benthic_write_op_new(&op, &failure) == 0;
  good = good && benthic_write_op_write_full(op, "two", 3, &failure) == 0;
  good = good && benthic_write_op_start(state->pool, "a", op, again, state, &second, &failure) == 0;
  good = good && benthic_write_op_free(op) == 0 && benthic_completion_free(completion) == 0;
  called(state, good);
}

static void *many(void *context) {
  struct state *state = context;
  for (int round = 0; round < ROUNDS; round++) {
    benthic_error *failure = NULL;
    benthic_write_op *op = NULL;
    benthic_completion *completion = NULL;
    benthic_reply *reply = NULL;
    bool complete = false;
    CHECK(benthic_write_op_new(&op, &failure) == 0);
    CHECK(benthic_write_op_append(op, "x", 1, &failure) == 0);
    CHECK(benthic_write_op_start(state->pool, "many", op, NULL, NULL, &completion, &failure) == 0);
    CHECK(benthic_completion_wait(completion, -1, &complete, &failure) == 0 && complete);
    CHECK(benthic_completion_result(completion, &reply, &failure) == 0);
    CHECK(benthic_reply_free(reply) == 0);
    CHECK(benthic_completion_free(completion) == 0);
    CHECK(benthic_write_op_free(op) == 0);
  }
  return NULL;
}

static void done(benthic_completion *completion, void *context) {
  called(context, benthic_completion_free(completion) == 0);
}

// Starts operations until the library refuses more. Every one that was started completes.
static void flood(struct state *state, const char *uri) {
  benthic_write_op *op = NULL;
  static char data[65536];
  OK(benthic_write_op_new(&op, &error));
  OK(benthic_write_op_write(op, 0, data, sizeof data, &error));
  int started = 0;
  int32_t kind = 0;
  while (kind == 0 && started < 100000) {
    benthic_completion *completion = NULL;
    kind = benthic_write_op_start(state->pool, "flood", op, done, state, &completion, &error);
    if (kind == 0) started++;
    else CHECK(completion == NULL && benthic_error_kind(error) == kind);
  }
  // The memory engine may be faster than this loop.
  if (strcmp(uri, "mem:") != 0) CHECK(kind == BENTHIC_KIND_BUSY && started >= 1024);
  if (kind) CHECK(benthic_error_free(error) == 0);
  wait_for(state, started);
  CHECK(benthic_write_op_free(op) == 0);
}

static void cancel(struct state *state) {
  benthic_completion *completion = NULL;
  benthic_reply *reply = NULL;
  bool complete = false;
  OK(benthic_exec_start(state->pool, "a", "digest", "sha256", NULL, 0, NULL, NULL, &completion, &error));
  OK(benthic_completion_cancel(completion, &error));
  OK(benthic_completion_wait(completion, -1, &complete, &error));
  CHECK(complete);
  // It may have been complete already.
  int32_t kind = benthic_completion_result(completion, &reply, &error);
  CHECK(kind == 0 || kind == BENTHIC_KIND_OUTCOME_UNKNOWN);
  CHECK(kind == 0 ? benthic_reply_free(reply) == 0 : benthic_error_free(error) == 0);
  OK(benthic_completion_cancel(completion, &error));
  CHECK(benthic_completion_result(completion, &reply, NULL) == kind);
  if (kind == 0) CHECK(benthic_reply_free(reply) == 0);
  CHECK(benthic_completion_free(completion) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *name = "c-completions";
  benthic_store *store = NULL;
  struct state state = {.pool = open_pool(argv[1], name, &store)};
  pthread_mutex_init(&state.lock, NULL);
  pthread_cond_init(&state.changed, NULL);

  benthic_write_op *op = NULL;
  benthic_completion *completion = NULL;
  OK(benthic_write_op_new(&op, &error));
  OK(benthic_write_op_write_full(op, "one", 3, &error));
  OK(benthic_write_op_start(state.pool, "a", op, first, &state, &completion, &error));
  CHECK(benthic_write_op_free(op) == 0);
  wait_for(&state, 2);
  CHECK(benthic_completion_free(completion) == BENTHIC_KIND_INVALID_ARGUMENT);

  // The error of an operation.
  benthic_read_op *read = NULL;
  benthic_reply *reply = NULL;
  bool complete = false;
  OK(benthic_read_op_new(&read, &error));
  OK(benthic_read_op_stat(read, &error));
  OK(benthic_read_op_start(state.pool, "none", read, NULL, NULL, &completion, &error));
  OK(benthic_completion_wait(completion, -1, &complete, &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_completion_result(completion, &reply, &error));
  CHECK(benthic_completion_free(completion) == 0);
  CHECK(benthic_read_op_free(read) == 0);

  pthread_t threads[THREADS];
  for (int at = 0; at < THREADS; at++) CHECK(pthread_create(&threads[at], NULL, many, &state) == 0);
  for (int at = 0; at < THREADS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
  uint64_t size = 0;
  OK(benthic_stat(state.pool, "many", &size, NULL, NULL, &error));
  CHECK(size == THREADS * ROUNDS);

  flood(&state, argv[1]);
  cancel(&state);
  close_pool(store, state.pool, name);
  return 0;
}
