// Calls that no program should make: each is an error, and none has an effect.
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED(call) EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, call)

// A text of this length at the end of a page, before memory that nobody may read.
static const char *at_the_edge(size_t len) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t size = (len / page + 2) * page;
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  CHECK(mprotect(memory + size - page, page, PROT_NONE) == 0);
  char *text = memory + size - page - len;
  memset(text, 'a', len);
  return text;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *name = "c-hostile";
  benthic_store *store = NULL, *no_store = NULL;
  benthic_pool *pool = open_pool(argv[1], name, &store), *no_pool = NULL;
  benthic_write_op *write = NULL;
  benthic_read_op *read = NULL;
  benthic_reply *reply = NULL;
  benthic_completion *completion = NULL;
  benthic_page *page = NULL;
  char buffer[8];
  size_t len = 7;
  bool flag = false;
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_read_op_new(&read, &error));

  // NULL, in each place.
  REFUSED(benthic_store_open(NULL, true, &no_store, &error));
  REFUSED(benthic_store_open("mem:", true, NULL, &error));
  REFUSED(benthic_store_open("", true, &no_store, &error));
  REFUSED(benthic_store_open("http://x", true, &no_store, &error));
  REFUSED(benthic_pool_open(NULL, name, NULL, &no_pool, &error));
  REFUSED(benthic_pool_open(store, NULL, NULL, &no_pool, &error));
  REFUSED(benthic_pool_open(store, name, NULL, NULL, &error));
  REFUSED(benthic_pool_create(store, NULL, &error));
  REFUSED(benthic_pool_create(store, "", &error));
  REFUSED(benthic_pool_list(store, NULL, &error));
  REFUSED(benthic_read(NULL, "a", 0, buffer, 8, &len, &error));
  REFUSED(benthic_read(pool, NULL, 0, buffer, 8, &len, &error));
  REFUSED(benthic_read(pool, "a", 0, buffer, 8, NULL, &error));
  REFUSED(benthic_write_full(pool, "a", NULL, 1, &error));
  REFUSED(benthic_write_full(pool, "", "a", 1, &error));
  REFUSED(benthic_write_full(pool, "\xff\xfe", "a", 1, &error));
  REFUSED(benthic_exec(pool, "a", NULL, "b", NULL, 0, &reply, &error));
  REFUSED(benthic_exec(pool, "a", "b", NULL, NULL, 0, &reply, &error));
  REFUSED(benthic_exec(pool, "a", "hello", "say_hello", NULL, 5, &reply, &error));
  REFUSED(benthic_exec(pool, "a", "hello", "say_hello", NULL, 0, NULL, &error));
  REFUSED(benthic_read_op_new(NULL, &error));
  REFUSED(benthic_read_op_get_xattr(read, NULL, &error));
  REFUSED(benthic_read_op_omap_get(read, NULL, 1, &error));
  REFUSED(benthic_read_op_compare_xattr(read, "a", 6, "", 0, &error));
  REFUSED(benthic_read_op_compare_xattr(read, "a", -1, "", 0, &error));
  REFUSED(benthic_read_op_run(pool, "a", NULL, &reply, &error));
  REFUSED(benthic_read_op_run(pool, "a", read, NULL, &error));
  REFUSED(benthic_read_op_start(pool, "a", read, NULL, NULL, NULL, &error));
  REFUSED(benthic_list(pool, NULL, false, NULL, 0, 10, NULL, &error));
  REFUSED(benthic_list(pool, NULL, false, "nonsense", 8, 10, &page, &error));
  REFUSED(benthic_reply_data(NULL, 0, (const void **)&reply, &len, &error));
  REFUSED(benthic_page_count(NULL, &len, &error));
  REFUSED(benthic_completion_wait(NULL, 0, &flag, &error));
  CHECK(no_store == NULL && no_pool == NULL && reply == NULL && page == NULL && len == 7);

  // Without a place for the error, the kind remains.
  CHECK(benthic_pool_create(store, NULL, NULL) == BENTHIC_KIND_INVALID_ARGUMENT);
  CHECK(benthic_error_kind(NULL) == BENTHIC_KIND_INVALID_ARGUMENT && benthic_error_message(NULL) == NULL);

  // Freeing NULL does nothing.
  CHECK(benthic_error_free(NULL) == 0 && benthic_reply_free(NULL) == 0 && benthic_page_free(NULL) == 0);
  CHECK(benthic_pool_close(NULL) == 0 && benthic_completion_free(NULL) == 0);
  CHECK(benthic_read_op_free(NULL) == 0 && benthic_write_op_free(NULL) == 0);
  OK(benthic_store_close(NULL, &error));

  // Handles of another type, invented ones, and addresses.
  REFUSED(benthic_pool_create((benthic_store *)pool, "x", &error));
  REFUSED(benthic_read((benthic_pool *)store, "a", 0, buffer, 8, &len, &error));
  REFUSED(benthic_read((benthic_pool *)buffer, "a", 0, buffer, 8, &len, &error));
  REFUSED(benthic_read((benthic_pool *)(uintptr_t)12345, "a", 0, buffer, 8, &len, &error));
  REFUSED(benthic_read((benthic_pool *)UINTPTR_MAX, "a", 0, buffer, 8, &len, &error));
  REFUSED(benthic_read_op_stat((benthic_read_op *)write, &error));
  REFUSED(benthic_write_op_remove((benthic_write_op *)read, &error));
  CHECK(benthic_pool_close((benthic_pool *)store) == BENTHIC_KIND_INVALID_ARGUMENT);
  CHECK(benthic_reply_free((benthic_reply *)pool) == BENTHIC_KIND_INVALID_ARGUMENT);
  REFUSED(benthic_store_close((benthic_store *)pool, &error));

  // Lengths.
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_read(pool, "a", 0, buffer, SIZE_MAX, &len, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_write_full(pool, "a", buffer, SIZE_MAX, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_write(pool, "a", UINT64_MAX, buffer, 8, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_append(pool, "a", buffer, (size_t)1 << 40, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED,
         benthic_exec(pool, "a", "hello", "say_hello", buffer, SIZE_MAX / 2, &reply, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_write_op_omap_set(write, "k", 1, buffer, SIZE_MAX, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_read_op_read(read, 0, SIZE_MAX, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_list(pool, NULL, false, buffer, SIZE_MAX, 1, &page, &error));

  // Texts without a NUL: no more is read than the longest valid text has.
  const char *endless = at_the_edge(4097);
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_store_open(endless, true, &no_store, &error));
  endless = at_the_edge(2049);
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_write_full(pool, endless, "", 0, &error));
  endless = at_the_edge(129);
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_pool_create(store, endless, &error));
  endless = at_the_edge(257);
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_pool_open(store, name, endless, &no_pool, &error));
  endless = at_the_edge(101);
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_read_op_get_xattr(read, endless, &error));
  endless = at_the_edge(65);
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_exec(pool, "a", endless, "b", NULL, 0, &reply, &error));

  // Operations without an end.
  for (int at = 0; at < 1024; at++) OK(benthic_read_op_stat(read, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_read_op_stat(read, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_read_op_assert_exists(read, &error));
  static char data[16 << 20];
  for (int at = 0; at < 4; at++) OK(benthic_write_op_append(write, data, sizeof data, &error));
  EXPECT(BENTHIC_KIND_LIMIT_EXCEEDED, benthic_write_op_append(write, data, sizeof data, &error));
  CHECK(benthic_write_op_free(write) == 0 && benthic_read_op_free(read) == 0);

  // None of that had an effect.
  OK(benthic_list(pool, NULL, true, NULL, 0, 10, &page, &error));
  OK(benthic_page_count(page, &len, &error));
  CHECK(len == 0);
  CHECK(benthic_page_free(page) == 0);

  // Closed handles.
  CHECK(benthic_page_free(page) == BENTHIC_KIND_INVALID_ARGUMENT);
  REFUSED(benthic_page_count(page, &len, &error));
  REFUSED(benthic_write_op_remove(write, &error));
  CHECK(benthic_write_op_free(write) == BENTHIC_KIND_INVALID_ARGUMENT);
  CHECK(benthic_completion_free(completion) == 0);
  OK(benthic_write_op_new(&write, &error));

  // A process that was forked has none of the library's threads.
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    REFUSED(benthic_write_full(pool, "a", "", 0, &error));
    REFUSED(benthic_store_open("mem:", true, &no_store, &error));
    REFUSED(benthic_write_op_start(pool, "a", write, NULL, NULL, &completion, &error));
    CHECK(completion == NULL);
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

  OK(benthic_pool_remove(store, name, &error));
  OK(benthic_store_close(store, &error));
  REFUSED(benthic_store_close(store, &error));
  REFUSED(benthic_pool_list(store, &page, &error));
  REFUSED(benthic_write_full(pool, "a", "", 0, &error));
  REFUSED(benthic_write_op_start(pool, "a", write, NULL, NULL, &completion, &error));
  REFUSED(benthic_list(pool, NULL, false, NULL, 0, 10, &page, &error));
  CHECK(benthic_pool_close(pool) == 0);
  CHECK(benthic_pool_close(pool) == BENTHIC_KIND_INVALID_ARGUMENT);
  return 0;
}
