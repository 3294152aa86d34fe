// The effects of the header's functions, on the store of the command line.
#define _GNU_SOURCE // memmem
#include "check.h"

static void data(benthic_pool *pool) {
  char buffer[64];
  size_t len = 99;
  uint64_t size = 0, modified = 0, version = 0, next = 0;
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_read(pool, "a", 0, buffer, 8, &len, &error));
  CHECK(len == 99);
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_stat(pool, "a", &size, &modified, &version, &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_remove(pool, "a", &error));
  OK(benthic_write_full(pool, "a", "0123456789", 10, &error));
  OK(benthic_write(pool, "a", 2, "xy", 2, &error));
  OK(benthic_append(pool, "a", "\0z", 2, &error));
  OK(benthic_read(pool, "a", 0, buffer, sizeof buffer, &len, &error));
  CHECK(len == 12 && memcmp(buffer, "01xy456789\0z", 12) == 0);
  OK(benthic_read(pool, "a", 10, buffer, sizeof buffer, &len, &error));
  CHECK(len == 2);
  OK(benthic_read(pool, "a", 100, buffer, sizeof buffer, &len, &error));
  CHECK(len == 0);
  OK(benthic_read(pool, "a", 0, NULL, 0, &len, &error));
  OK(benthic_stat(pool, "a", &size, &modified, &version, &error));
  CHECK(size == 12 && modified > 1700000000000000000u && version > 0);
  OK(benthic_append(pool, "a", NULL, 0, &error));
  OK(benthic_append(pool, "a", "1", 1, &error));
  OK(benthic_stat(pool, "a", NULL, NULL, &next, &error));
  CHECK(next > version);
  OK(benthic_remove(pool, "a", &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_remove(pool, "a", &error));
}

static void compound(benthic_pool *pool) {
  benthic_write_op *write = NULL;
  uint64_t version = 0, seen = 0;
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_write_op_create(write, true, &error));
  OK(benthic_write_op_write(write, 4, "data", 4, &error));
  OK(benthic_write_op_truncate(write, 6, &error));
  OK(benthic_write_op_set_xattr(write, "x", "one", 3, &error));
  OK(benthic_write_op_set_xattr(write, "y", "", 0, &error));
  OK(benthic_write_op_omap_set(write, "k1", 2, "v1", 2, &error));
  OK(benthic_write_op_omap_set(write, "k\0", 2, "\0v", 2, &error));
  OK(benthic_write_op_omap_set(write, "k3", 2, "v3", 2, &error));
  OK(benthic_write_op_omap_remove(write, "k3", 2, &error));
  OK(benthic_write_op_run(pool, "b", write, &version, &error));
  CHECK(version > 0);
  EXPECT(BENTHIC_KIND_ALREADY_EXISTS, benthic_write_op_run(pool, "b", write, &seen, &error));
  CHECK(seen == 0);
  CHECK(benthic_write_op_free(write) == 0);

  benthic_read_op *read = NULL;
  benthic_reply *reply = NULL;
  const void *bytes = NULL, *key = NULL, *value = NULL;
  size_t len = 0, key_len = 0, value_len = 0, count = 0;
  bool more = true;
  uint64_t size = 0, modified = 0;
  OK(benthic_read_op_new(&read, &error));
  OK(benthic_read_op_assert_exists(read, &error));
  OK(benthic_read_op_assert_version(read, version, &error));
  OK(benthic_read_op_compare_xattr(read, "x", BENTHIC_COMPARISON_GREATER, "onD", 3, &error));
  OK(benthic_read_op_compare_omap(read, "k1", 2, "v1", 2, &error));
  OK(benthic_read_op_read(read, 0, 100, &error));
  OK(benthic_read_op_stat(read, &error));
  OK(benthic_read_op_get_xattr(read, "x", &error));
  OK(benthic_read_op_list_xattrs(read, &error));
  OK(benthic_read_op_omap_get(read, "k\0", 2, &error));
  OK(benthic_read_op_omap_get(read, "k3", 2, &error));
  OK(benthic_read_op_omap_range(read, NULL, 0, "k", 1, 1, &error));
  OK(benthic_read_op_omap_range(read, "k\0", 2, NULL, 0, 10, &error));
  OK(benthic_read_op_exec(read, "digest", "compute", "sha256", 6, &error));
  OK(benthic_read_op_run(pool, "b", read, &reply, &error));
  OK(benthic_reply_version(reply, &seen, &error));
  CHECK(seen == version);
  OK(benthic_reply_data(reply, 0, &bytes, &len, &error));
  CHECK(len == 6 && memcmp(bytes, "\0\0\0\0da", 6) == 0);
  OK(benthic_reply_stat(reply, 1, &size, &modified, &error));
  CHECK(size == 6);
  OK(benthic_reply_data(reply, 2, &bytes, &len, &error));
  CHECK(len == 3 && memcmp(bytes, "one", 3) == 0);
  OK(benthic_reply_count(reply, 3, &count, &more, &error));
  CHECK(count == 2 && !more);
  OK(benthic_reply_entry(reply, 3, 1, &key, &key_len, &value, &value_len, &error));
  CHECK(key_len == 1 && memcmp(key, "y", 1) == 0 && value_len == 0);
  OK(benthic_reply_count(reply, 4, &count, &more, &error));
  CHECK(count == 1 && !more);
  OK(benthic_reply_entry(reply, 4, 0, &key, &key_len, &value, &value_len, &error));
  CHECK(key_len == 2 && memcmp(key, "k\0", 2) == 0 && value_len == 2 && memcmp(value, "\0v", 2) == 0);
  OK(benthic_reply_count(reply, 5, &count, &more, &error));
  CHECK(count == 0);
  OK(benthic_reply_count(reply, 6, &count, &more, &error));
  CHECK(count == 1 && more);
  OK(benthic_reply_count(reply, 7, &count, &more, &error));
  CHECK(count == 1 && !more);
  OK(benthic_reply_entry(reply, 7, 0, &key, &key_len, &value, &value_len, &error));
  CHECK(key_len == 2 && memcmp(key, "k1", 2) == 0);
  OK(benthic_reply_data(reply, 8, &bytes, &len, &error));
  CHECK(len > 0);
  EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, benthic_reply_data(reply, 9, &bytes, &len, &error));
  EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, benthic_reply_data(reply, 1, &bytes, &len, &error));
  EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, benthic_reply_stat(reply, 0, &size, &modified, &error));
  EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, benthic_reply_count(reply, 0, &count, &more, &error));
  EXPECT(BENTHIC_KIND_INVALID_ARGUMENT,
         benthic_reply_entry(reply, 3, 2, &key, &key_len, &value, &value_len, &error));
  CHECK(benthic_reply_free(reply) == 0);

  // Each guard that fails.
  CHECK(benthic_read_op_free(read) == 0);
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_write_op_assert_version(write, version + 1, &error));
  OK(benthic_write_op_append(write, "!", 1, &error));
  EXPECT(BENTHIC_KIND_CONFLICT, benthic_write_op_run(pool, "b", write, NULL, &error));
  CHECK(benthic_write_op_free(write) == 0);
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_write_op_compare_xattr(write, "x", BENTHIC_COMPARISON_NOT_EQUAL, "one", 3, &error));
  OK(benthic_write_op_remove(write, &error));
  EXPECT(BENTHIC_KIND_CONFLICT, benthic_write_op_run(pool, "b", write, NULL, &error));
  CHECK(benthic_write_op_free(write) == 0);
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_write_op_compare_omap(write, "k1", 2, "v2", 2, &error));
  OK(benthic_write_op_omap_clear(write, &error));
  EXPECT(BENTHIC_KIND_CONFLICT, benthic_write_op_run(pool, "b", write, NULL, &error));
  CHECK(benthic_write_op_free(write) == 0);
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_write_op_assert_exists(write, &error));
  OK(benthic_write_op_append(write, "!", 1, &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_write_op_run(pool, "none", write, NULL, &error));
  CHECK(benthic_write_op_free(write) == 0);
  OK(benthic_stat(pool, "b", &size, NULL, &seen, &error));
  CHECK(size == 6 && seen == version);

  // The rest of the steps.
  OK(benthic_write_op_new(&write, &error));
  OK(benthic_write_op_write_full(write, "12345678", 8, &error));
  OK(benthic_write_op_zero(write, 2, 2, &error));
  OK(benthic_write_op_remove_xattr(write, "x", &error));
  OK(benthic_write_op_omap_clear(write, &error));
  OK(benthic_write_op_set_buffered(write, &error));
  OK(benthic_write_op_run(pool, "b", write, &version, &error));
  CHECK(benthic_write_op_free(write) == 0);
  OK(benthic_read_op_new(&read, &error));
  OK(benthic_read_op_list_xattrs(read, &error));
  OK(benthic_read_op_omap_range(read, NULL, 0, NULL, 0, 10, &error));
  OK(benthic_read_op_read(read, 0, 8, &error));
  OK(benthic_read_op_run(pool, "b", read, &reply, &error));
  CHECK(benthic_read_op_free(read) == 0);
  OK(benthic_reply_count(reply, 0, &count, &more, &error));
  CHECK(count == 1);
  OK(benthic_reply_count(reply, 1, &count, &more, &error));
  CHECK(count == 0);
  OK(benthic_reply_data(reply, 2, &bytes, &len, &error));
  CHECK(len == 8 && memcmp(bytes, "12\0\0005678", 8) == 0);
  CHECK(benthic_reply_free(reply) == 0);
}

static void classes(benthic_store *store, benthic_pool *pool) {
  benthic_reply *reply = NULL;
  const void *bytes = NULL;
  size_t len = 0;
  OK(benthic_store_classes(store, &reply, &error));
  OK(benthic_reply_data(reply, 0, &bytes, &len, &error));
  CHECK(len > 2 && ((const char *)bytes)[0] == '[');
  CHECK(benthic_reply_free(reply) == 0);
  OK(benthic_write_full(pool, "c", "abc", 3, &error));
  OK(benthic_exec(pool, "c", "digest", "sha256", NULL, 0, &reply, &error));
  OK(benthic_reply_data(reply, 0, &bytes, &len, &error));
  CHECK(len == 64 && memcmp(bytes, "ba7816bf8f01cfea", 16) == 0);
  CHECK(benthic_reply_free(reply) == 0);
  EXPECT(BENTHIC_KIND_UNSUPPORTED, benthic_exec(pool, "c", "digest", "nonsense", NULL, 0, &reply, &error));
  EXPECT(BENTHIC_KIND_UNSUPPORTED, benthic_exec(pool, "c", "nonsense", "a", NULL, 0, &reply, &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_exec(pool, "no", "digest", "sha256", NULL, 0, &reply, &error));
  OK(benthic_exec(pool, "new", "hello", "record", "me", 2, &reply, &error));
  OK(benthic_reply_data(reply, 0, &bytes, &len, &error));
  CHECK(len > 2 && memmem(bytes, len, "me", 2) != NULL);
  CHECK(benthic_reply_free(reply) == 0);
  EXPECT(BENTHIC_KIND_CLASS_FAILED, benthic_exec(pool, "c", "hello", "panic", NULL, 0, &reply, &error));
}

static void pools(benthic_store *store, const char *name) {
  benthic_page *page = NULL;
  benthic_pool *pool = NULL;
  size_t count = 0;
  bool found = false;
  const char *namespace = NULL, *entry = NULL;
  OK(benthic_pool_list(store, &page, &error));
  OK(benthic_page_count(page, &count, &error));
  for (size_t at = 0; at < count; at++) {
    OK(benthic_page_entry(page, at, &namespace, &entry, &error));
    found = found || strcmp(entry, name) == 0;
  }
  CHECK(found);
  CHECK(benthic_page_free(page) == 0);
  EXPECT(BENTHIC_KIND_ALREADY_EXISTS, benthic_pool_create(store, name, &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_pool_remove(store, "c-none", &error));
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_pool_open(store, "c-none", NULL, &pool, &error));
  EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, benthic_pool_open(store, "a/b", NULL, &pool, &error));
  CHECK(pool == NULL);
}

static void listing(benthic_store *store, const char *pool_name) {
  benthic_pool *pool = NULL, *other = NULL;
  OK(benthic_pool_open(store, pool_name, "list", &pool, &error));
  OK(benthic_pool_open(store, pool_name, "list2", &other, &error));
  for (int at = 0; at < 25; at++) {
    char name[16];
    snprintf(name, sizeof name, "%c-%02d", at % 5 ? 'a' : 'b', at);
    OK(benthic_write_full(pool, name, name, 4, &error));
  }
  OK(benthic_write_full(other, "x", "", 0, &error));
  int seen = 0, pages = 0;
  const void *after = NULL;
  size_t after_bytes = 0;
  benthic_page *page = NULL;
  do {
    benthic_page *next = NULL;
    OK(benthic_list(pool, "a-", false, after, after_bytes, 3, &next, &error));
    CHECK(benthic_page_free(page) == 0);
    page = next;
    size_t count = 0;
    OK(benthic_page_count(page, &count, &error));
    CHECK(count <= 3);
    for (size_t at = 0; at < count; at++) {
      const char *namespace = NULL, *name = NULL;
      OK(benthic_page_entry(page, at, &namespace, &name, &error));
      CHECK(strcmp(namespace, "list") == 0 && name[0] == 'a');
      seen++;
    }
    const char *none = NULL;
    EXPECT(BENTHIC_KIND_INVALID_ARGUMENT, benthic_page_entry(page, count, &none, &none, &error));
    pages++;
    OK(benthic_page_next(page, &after, &after_bytes, &error));
  } while (after != NULL);
  CHECK(benthic_page_free(page) == 0);
  CHECK(seen == 20 && pages >= 7);
  size_t count = 0;
  OK(benthic_list(pool, NULL, true, NULL, 0, 1000, &page, &error));
  OK(benthic_page_count(page, &count, &error));
  CHECK(count >= 26);
  CHECK(benthic_page_free(page) == 0);
  CHECK(benthic_pool_close(pool) == 0 && benthic_pool_close(other) == 0);
  // Single objects of tables and other structures are not for programs.
  OK(benthic_pool_open(store, pool_name, "benthic.tables", &pool, &error));
  EXPECT(BENTHIC_KIND_PERMISSION_DENIED, benthic_write_full(pool, "t", "", 0, &error));
  CHECK(benthic_pool_close(pool) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *name = "c-operations";
  benthic_store *store = NULL;
  benthic_pool *pool = open_pool(argv[1], name, &store);
  CHECK(strlen(benthic_version()) > 0);
  CHECK(strcmp(benthic_kind_name(BENTHIC_KIND_NOT_FOUND), "not_found") == 0);
  CHECK(benthic_kind_name(1) == NULL);
  data(pool);
  compound(pool);
  classes(store, pool);
  pools(store, name);
  listing(store, name);
  OK(benthic_store_flush(store, &error));
  OK(benthic_pool_remove(store, name, &error));
  size_t len = 0;
  EXPECT(BENTHIC_KIND_NOT_FOUND, benthic_read(pool, "b", 0, NULL, 0, &len, &error));
  OK(benthic_pool_create(store, name, &error));
  close_pool(store, pool, name);
  return 0;
}
