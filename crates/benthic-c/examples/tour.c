// A tour of Benthic's C API: a compound write with a guard, a method of a class beside the data, an
// operation that completes while the program does something else, and a listing.
//
//     cc -I include examples/tour.c -L DIRECTORY -lbenthic -o tour
//     LD_LIBRARY_PATH=DIRECTORY ./tour file:./benthic-data
#include <benthic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program if a call failed.
static void check(int32_t kind, benthic_error **error, const char *call) {
  if (kind == BENTHIC_KIND_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, benthic_kind_name(kind), benthic_error_message(*error));
  exit(kind);
}

int main(int argc, char **argv) {
  const char *uri = argc > 1 ? argv[1] : "mem:";
  benthic_error *error = NULL;
  benthic_store *store = NULL;
  check(benthic_store_open(uri, true, &store, &error), &error, "open the store");

  int32_t kind = benthic_pool_create(store, "tour", &error);
  if (kind == BENTHIC_KIND_ALREADY_EXISTS)
    benthic_error_free(error);
  else
    check(kind, &error, "create the pool");
  benthic_pool *pool = NULL;
  check(benthic_pool_open(store, "tour", NULL, &pool, &error), &error, "open the pool");

  // All steps happen, or none: data, an attribute and an omap entry.
  benthic_write_op *write = NULL;
  check(benthic_write_op_new(&write, &error), &error, "make an operation");
  check(benthic_write_op_write_full(write, "hello, world", 12, &error), &error, "add data");
  check(benthic_write_op_set_xattr(write, "language", "en", 2, &error), &error, "add an attribute");
  check(benthic_write_op_omap_set(write, "seen", 4, "1", 1, &error), &error, "add an omap entry");
  uint64_t version = 0;
  check(benthic_write_op_run(pool, "greeting", write, &version, &error), &error, "write");
  benthic_write_op_free(write);

  // A guard: the write happens only if the object still has the version that this program saw.
  check(benthic_write_op_new(&write, &error), &error, "make an operation");
  check(benthic_write_op_assert_version(write, version, &error), &error, "add a guard");
  check(benthic_write_op_append(write, "!", 1, &error), &error, "add data");
  check(benthic_write_op_run(pool, "greeting", write, NULL, &error), &error, "append");
  kind = benthic_write_op_run(pool, "greeting", write, NULL, &error);
  if (kind != BENTHIC_KIND_CONFLICT) check(kind ? kind : 1, &error, "append to an old version");
  printf("the second append failed, as it must: %s\n", benthic_error_message(error));
  benthic_error_free(error);
  benthic_write_op_free(write);

  // A method of a class runs beside the data: only the hash travels.
  benthic_reply *reply = NULL;
  check(benthic_exec(pool, "greeting", "digest", "sha256", NULL, 0, &reply, &error), &error, "exec");
  const void *data = NULL;
  size_t len = 0;
  check(benthic_reply_data(reply, 0, &data, &len, &error), &error, "read the reply");
  printf("sha256 = %.*s\n", (int)len, (const char *)data);
  benthic_reply_free(reply);

  // A read in the background: the size and the data, of one state of the object.
  benthic_read_op *read = NULL;
  benthic_completion *completion = NULL;
  check(benthic_read_op_new(&read, &error), &error, "make an operation");
  check(benthic_read_op_stat(read, &error), &error, "add a stat");
  check(benthic_read_op_read(read, 0, 1024, &error), &error, "add a read");
  check(benthic_read_op_start(pool, "greeting", read, NULL, NULL, &completion, &error), &error, "start");
  benthic_read_op_free(read);
  bool complete = false;
  check(benthic_completion_wait(completion, -1, &complete, &error), &error, "wait");
  check(benthic_completion_result(completion, &reply, &error), &error, "read in the background");
  benthic_completion_free(completion);
  uint64_t size = 0, modified = 0;
  check(benthic_reply_stat(reply, 0, &size, &modified, &error), &error, "read the reply");
  check(benthic_reply_data(reply, 1, &data, &len, &error), &error, "read the reply");
  printf("%llu bytes: %.*s\n", (unsigned long long)size, (int)len, (const char *)data);
  benthic_reply_free(reply);

  // A listing, page after page.
  const void *after = NULL;
  size_t after_bytes = 0;
  benthic_page *page = NULL;
  do {
    benthic_page *next = NULL;
    check(benthic_list(pool, NULL, false, after, after_bytes, 100, &next, &error), &error, "list");
    benthic_page_free(page);
    page = next;
    size_t count = 0;
    check(benthic_page_count(page, &count, &error), &error, "read the page");
    for (size_t at = 0; at < count; at++) {
      const char *namespace = NULL, *name = NULL;
      check(benthic_page_entry(page, at, &namespace, &name, &error), &error, "read the page");
      printf("object %s\n", name);
    }
    check(benthic_page_next(page, &after, &after_bytes, &error), &error, "read the page");
  } while (after != NULL);
  benthic_page_free(page);

  benthic_pool_close(pool);
  check(benthic_store_close(store, &error), &error, "close the store");
  return 0;
}
