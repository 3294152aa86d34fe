// librados' C API on the store of the command line: calls that python3-rados and fio do not try.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
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

// As in librados.h, which need not be installed.
typedef void *handle;
typedef void (*callback)(handle completion, void *context);
int rados_create2(handle *cluster, const char *ceph, const char *name, uint64_t flags);
int rados_conf_set(handle cluster, const char *option, const char *value);
int rados_conf_get(handle cluster, const char *option, char *buffer, size_t len);
int rados_conf_read_file(handle cluster, const char *path);
int rados_connect(handle cluster);
void rados_shutdown(handle cluster);
int rados_pool_create(handle cluster, const char *name);
int rados_pool_list(handle cluster, char *buffer, size_t len);
int64_t rados_pool_lookup(handle cluster, const char *name);
int rados_pool_delete(handle cluster, const char *name);
int rados_ioctx_create(handle cluster, const char *name, handle *io);
int rados_ioctx_create2(handle cluster, int64_t id, handle *io);
handle rados_ioctx_get_cluster(handle io);
int rados_ioctx_get_pool_name(handle io, char *buffer, unsigned len);
void rados_ioctx_destroy(handle io);
int rados_ioctx_pool_stat(handle io, uint64_t stats[16]);
int rados_application_enable(handle io, const char *application, int force);
int rados_application_list(handle io, char *values, size_t *len);
int rados_application_metadata_get(handle io, const char *application, const char *key, char *value, size_t *len);
int rados_application_metadata_set(handle io, const char *application, const char *key, const char *value);
int rados_application_metadata_remove(handle io, const char *application, const char *key);
int rados_application_metadata_list(handle io, const char *application, char *keys, size_t *keys_len, char *values,
                                    size_t *values_len);
int rados_mon_command(handle cluster, const char **command, size_t count, const char *in, size_t in_len, char **out,
                      size_t *out_len, char **status, size_t *status_len);
void rados_buffer_free(char *buffer);
int rados_lock_shared(handle io, const char *object, const char *name, const char *cookie, const char *tag,
                      const char *description, const void *duration, uint8_t flags);
int rados_break_lock(handle io, const char *object, const char *name, const char *client, const char *cookie);
ssize_t rados_list_lockers(handle io, const char *object, const char *name, int *exclusive, char *tag, size_t *tag_len,
                           char *clients, size_t *clients_len, char *cookies, size_t *cookies_len, char *addresses,
                           size_t *addresses_len);
int rados_nobjects_list_next2(handle list, const char **name, const char **key, const char **space, size_t *name_len,
                              size_t *key_len, size_t *space_len);
int rados_ioctx_snap_create(handle io, const char *name);
int rados_write(handle io, const char *object, const char *data, size_t len, uint64_t offset);
int rados_writesame(handle io, const char *object, const char *data, size_t len, size_t write_len, uint64_t offset);
int rados_read(handle io, const char *object, char *buffer, size_t len, uint64_t offset);
int rados_getxattr(handle io, const char *object, const char *name, char *buffer, size_t len);
int rados_setxattr(handle io, const char *object, const char *name, const char *data, size_t len);
int rados_stat(handle io, const char *object, uint64_t *size, int64_t *modified);
int rados_remove(handle io, const char *object);
int rados_cmpext(handle io, const char *object, const char *data, size_t len, uint64_t offset);
int rados_exec(handle io, const char *object, const char *class_name, const char *method, const char *input,
               size_t in_len, char *output, size_t out_len);
uint64_t rados_get_last_version(handle io);
int rados_aio_create_completion(void *context, callback complete, callback safe, handle *completion);
int rados_aio_wait_for_complete(handle completion);
int rados_aio_wait_for_complete_and_cb(handle completion);
int rados_aio_is_complete(handle completion);
int rados_aio_get_return_value(handle completion);
void rados_aio_release(handle completion);
int rados_aio_append(handle io, const char *object, handle completion, const char *data, size_t len);
int rados_aio_read(handle io, const char *object, handle completion, char *buffer, size_t len, uint64_t offset);
int rados_aio_flush(handle io);
handle rados_create_write_op(void);
void rados_release_write_op(handle op);
void rados_write_op_create(handle op, int exclusive, const char *category);
void rados_write_op_write_full(handle op, const char *data, size_t len);
void rados_write_op_append(handle op, const char *data, size_t len);
void rados_write_op_assert_version(handle op, uint64_t version);
void rados_write_op_cmpext(handle op, const char *data, size_t len, uint64_t offset, int *result);
void rados_write_op_omap_set(handle op, const char *const *keys, const char *const *values, const size_t *lens, size_t count);
void rados_write_op_omap_cmp(handle op, const char *key, uint8_t operator, const char *value, size_t len, int *result);
void rados_write_op_set_flags(handle op, int flags);
int rados_write_op_operate(handle op, handle io, const char *object, int64_t *modified, int flags);
handle rados_create_read_op(void);
void rados_release_read_op(handle op);
void rados_read_op_omap_get_vals2(handle op, const char *after, const char *prefix, uint64_t max, handle *list,
                                  unsigned char *more, int *result);
int rados_read_op_operate(handle op, handle io, const char *object, int flags);
int rados_omap_get_next(handle list, char **key, char **value, size_t *len);
void rados_omap_get_end(handle list);
int rados_nobjects_list_open(handle io, handle *list);
int rados_nobjects_list_next(handle list, const char **name, const char **key, const char **namespace);
void rados_nobjects_list_close(handle list);

enum { THREADS = 8, ROUNDS = 50 };

static void operations(handle io) {
  char buffer[64];
  uint64_t size = 0;
  int64_t modified = 0;
  CHECK(rados_read(io, "a", buffer, 8, 0) == -ENOENT);
  CHECK(rados_stat(io, "a", &size, &modified) == -ENOENT && rados_remove(io, "a") == -ENOENT);
  CHECK(rados_writesame(io, "a", "ab", 2, 8, 1) == 0 && rados_writesame(io, "a", "abc", 3, 8, 1) == -EINVAL);
  CHECK(rados_read(io, "a", buffer, sizeof buffer, 0) == 9 && memcmp(buffer, "\0abababab", 9) == 0);
  CHECK(rados_stat(io, "a", &size, &modified) == 0 && size == 9 && modified > 1700000000);
  CHECK(rados_stat(io, "a", NULL, NULL) == 0);
  CHECK(rados_cmpext(io, "a", "abX", 3, 1) == -4095 - 2 && rados_cmpext(io, "a", "ab\0\0", 4, 7) == 0);
  CHECK(rados_getxattr(io, "a", "x", buffer, 8) == -ENODATA);
  CHECK(rados_setxattr(io, "a", "x", "12345", 5) == 0);
  CHECK(rados_getxattr(io, "a", "x", buffer, 4) == -ERANGE && rados_getxattr(io, "a", "x", buffer, 5) == 5);
  CHECK(rados_exec(io, "a", "digest", "compute", "md5", 3, buffer, 8) == -ERANGE);
  CHECK(rados_exec(io, "a", "digest", "compute", "md5", 3, buffer, sizeof buffer) == 32);
  CHECK(rados_exec(io, "a", "no", "no", NULL, 0, buffer, 8) == -EOPNOTSUPP);
  // As with Ceph's own class.
  CHECK(rados_exec(io, "a", "hello", "say_hello", NULL, 0, buffer, sizeof buffer) == 13);
  CHECK(rados_exec(io, "a", "hello", "say_hello", "nose", 4, buffer, sizeof buffer) == 12);
  CHECK(memcmp(buffer, "Hello, nose!", 12) == 0);

  // A read of more than one operation of a store, of one version.
  static char large[65 << 20], found[65 << 20];
  for (size_t at = 0; at < sizeof large; at++) large[at] = (char)(at * 31 >> 7);
  size_t half = sizeof large / 2;
  CHECK(rados_write(io, "large", large, half, 0) == 0);
  CHECK(rados_write(io, "large", large + half, sizeof large - half, half) == 0);
  CHECK(rados_read(io, "large", found, sizeof found, 0) == (int)sizeof found);
  CHECK(memcmp(large, found, sizeof found) == 0);
  CHECK(rados_remove(io, "large") == 0);
}

static void compound(handle io) {
  handle op = rados_create_write_op();
  int result = 1;
  rados_write_op_create(op, 1, NULL);
  rados_write_op_write_full(op, "one", 3);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == 0);
  uint64_t version = rados_get_last_version(io);
  // Running an operation empties it.
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == 0);
  rados_write_op_create(op, 0, NULL);
  rados_write_op_set_flags(op, 1);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == -EEXIST);
  rados_write_op_create(op, 0, NULL);
  rados_write_op_set_flags(op, 2);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == -EOPNOTSUPP);
  rados_write_op_assert_version(op, version - 1);
  rados_write_op_append(op, "!", 1);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == -ERANGE);
  rados_write_op_assert_version(op, version + 1);
  rados_write_op_append(op, "!", 1);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == -EOVERFLOW);
  rados_write_op_assert_version(op, version);
  rados_write_op_cmpext(op, "onX", 3, 0, &result);
  rados_write_op_append(op, "!", 1);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == -4095 - 2 && result == -4095 - 2);
  // A missing object reads as zeros, and the condition holds until the write.
  rados_write_op_cmpext(op, "\0", 1, 0, &result);
  rados_write_op_write_full(op, "new", 3);
  CHECK(rados_write_op_operate(op, io, "d", NULL, 0) == 0 && result == 0);
  const char *keys[] = {"a", "b", "c"}, *values[] = {"1", "2", ""};
  size_t lens[] = {1, 1, 0};
  rados_write_op_omap_set(op, keys, values, lens, 3);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == 0);
  rados_write_op_omap_cmp(op, "b", 3, "1", 1, &result);
  rados_write_op_append(op, "!", 1);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == 0 && result == 0);
  rados_write_op_omap_cmp(op, "b", 5, "1", 1, &result);
  rados_write_op_append(op, "!", 1);
  CHECK(rados_write_op_operate(op, io, "c", NULL, 0) == -ECANCELED);
  rados_release_write_op(op);

  handle read = rados_create_read_op(), list = NULL;
  unsigned char more = 9;
  char *key = NULL, *value = NULL;
  size_t len = 9;
  rados_read_op_omap_get_vals2(read, "a", NULL, 1, &list, &more, &result);
  CHECK(rados_read_op_operate(read, io, "c", 0) == 0 && more == 1 && result == 0);
  CHECK(rados_omap_get_next(list, &key, &value, &len) == 0 && strcmp(key, "b") == 0 && len == 1 && *value == '2');
  CHECK(rados_omap_get_next(list, &key, &value, &len) == 0 && key == NULL);
  rados_omap_get_end(list);
  rados_release_read_op(read);
}

static void *increments(void *io) {
  // A read, a condition and a write: none of the increments is lost.
  for (int round = 0; round < ROUNDS;) {
    int number = 0, result = 0;
    CHECK(rados_read(io, "number", (char *)&number, sizeof number, 0) == sizeof number);
    handle op = rados_create_write_op();
    rados_write_op_cmpext(op, (char *)&number, sizeof number, 0, &result);
    number++;
    rados_write_op_write_full(op, (char *)&number, sizeof number);
    int code = rados_write_op_operate(op, io, "number", NULL, 0);
    CHECK(code == 0 || code <= -4095);
    round += code == 0;
    rados_release_write_op(op);
  }
  return NULL;
}

struct again {
  handle io;
  char data[8];
  int calls;
};

// Calls the library again, and waits for it.
static void complete(handle completion, void *context) {
  struct again *again = context;
  CHECK(rados_aio_is_complete(completion) == 1);
  CHECK(rados_read(again->io, "log", again->data, 4, 0) == 4);
  again->calls++;
}

static void in_flight(handle io) {
  handle completion = NULL, other = NULL;
  struct again again = {.io = io};
  CHECK(rados_aio_create_completion(&again, complete, complete, &completion) == 0);
  CHECK(rados_aio_append(io, "log", completion, "0000", 4) == 0);
  CHECK(rados_aio_wait_for_complete_and_cb(completion) == 0 && again.calls == 2);
  CHECK(rados_aio_get_return_value(completion) == 0);
  rados_aio_release(completion);
  // More than may be in flight: the library waits for room, and keeps the order.
  for (int number = 1; number < 3000; number++) {
    char text[8];
    snprintf(text, sizeof text, "%04d", number);
    CHECK(rados_aio_create_completion(NULL, NULL, NULL, &completion) == 0);
    CHECK(rados_aio_append(io, "log", completion, text, 4) == 0);
    rados_aio_release(completion);
  }
  static char log[4 * 3000 + 1];
  CHECK(rados_aio_create_completion(NULL, NULL, NULL, &other) == 0);
  CHECK(rados_aio_read(io, "log", other, log, sizeof log, 0) == 0);
  CHECK(rados_aio_wait_for_complete(other) == 0);
  CHECK(rados_aio_get_return_value(other) == 4 * 3000);
  for (int number = 0; number < 3000; number++) CHECK(strtol(strndupa(log + 4 * number, 4), NULL, 10) == number);
  rados_aio_release(other);
  CHECK(rados_aio_flush(io) == 0);
}

static void applications(handle io) {
  char keys[64], values[64], name[130];
  size_t len = sizeof keys, values_len = sizeof values;
  uint64_t before[16], after[16];
  CHECK(rados_ioctx_pool_stat(io, before) == 0);
  CHECK(rados_application_list(io, keys, &len) == 0 && len == 0);
  CHECK(rados_application_metadata_set(io, "app1", "key", "value") == -ENOENT);
  CHECK(rados_application_enable(io, "app1", 0) == 0 && rados_application_enable(io, "app1", 0) == 0);
  CHECK(rados_application_enable(io, "app2", 0) == -EPERM && rados_application_enable(io, "app2", 1) == 0);
  len = 9;
  CHECK(rados_application_list(io, keys, &len) == -ERANGE && len == 10);
  CHECK(rados_application_list(io, keys, &len) == 0 && len == 10 && memcmp(keys, "app1\0app2", 10) == 0);

  len = sizeof keys;
  CHECK(rados_application_metadata_list(io, "none", keys, &len, values, &values_len) == -ENOENT);
  CHECK(rados_application_metadata_list(io, "app1", keys, &len, values, &values_len) == 0 && len == 0 && values_len == 0);
  CHECK(rados_application_metadata_set(io, "app1", "k2", "") == 0 && rados_application_metadata_set(io, "app1", "k1", "v1") == 0);
  len = 6, values_len = 3;
  CHECK(rados_application_metadata_list(io, "app1", keys, &len, values, &values_len) == -ERANGE && len == 6 && values_len == 4);
  CHECK(rados_application_metadata_list(io, "app1", keys, &len, values, &values_len) == 0 && len == 6 && values_len == 4);
  CHECK(memcmp(keys, "k1\0k2", 6) == 0 && memcmp(values, "v1\0", 4) == 0);
  CHECK(rados_application_metadata_get(io, "app1", "k1", values, &values_len) == 0 && values_len == 3);
  CHECK(strcmp(values, "v1") == 0);
  CHECK(rados_application_metadata_remove(io, "app1", "k1") == 0 && rados_application_metadata_remove(io, "app1", "k1") == 0);
  CHECK(rados_application_metadata_get(io, "app1", "k1", values, &values_len) == -ENOENT);
  CHECK(rados_application_metadata_remove(io, "none", "k1") == -ENOENT);

  CHECK(rados_application_enable(io, "app3", 1) == 0 && rados_application_enable(io, "app4", 1) == 0);
  CHECK(rados_application_enable(io, "app5", 1) == -EINVAL);
  CHECK(rados_application_enable(io, "", 1) == -EINVAL && rados_application_enable(io, NULL, 1) == -EINVAL);
  memset(name, 'x', sizeof name);
  name[129] = 0;
  CHECK(rados_application_metadata_set(io, "app1", name, "v") == -EINVAL && rados_application_metadata_set(io, "app1", "k3", name) == -EINVAL);
  CHECK(rados_application_metadata_set(io, "app1", name + 1, "v") == 0);
  for (int number = 2; number < 64; number++) {
    snprintf(name, sizeof name, "%d", number);
    CHECK(rados_application_metadata_set(io, "app1", name, "v") == 0);
  }
  CHECK(rados_application_metadata_set(io, "app1", "64", "v") == -EINVAL);
  CHECK(rados_application_list(io, keys, NULL) == -EINVAL);
  // They are not objects of the program.
  CHECK(rados_ioctx_pool_stat(io, after) == 0 && memcmp(before, after, sizeof before) == 0);
}

static char output[512], status[512];

static int command(handle cluster, const char *text) {
  char *out = output, *message = status;
  size_t out_len = 9, message_len = 9;
  int code = rados_mon_command(cluster, &text, 1, NULL, 0, &out, &out_len, &message, &message_len);
  CHECK(out_len < sizeof output && message_len < sizeof status);
  snprintf(output, sizeof output, "%.*s", (int)out_len, out ? out : "");
  snprintf(status, sizeof status, "%.*s", (int)message_len, message ? message : "");
  rados_buffer_free(out);
  rados_buffer_free(message);
  return code;
}

// The holders of a lock; the caller gets them, or the lengths that it needs.
static void locks(handle io) {
  char tag[8], clients[64], cookies[64], addresses[8];
  size_t tag_len = sizeof tag, clients_len = sizeof clients, cookies_len = 5, addresses_len = sizeof addresses;
  int exclusive = -1;
#define LIST(object)                                                                                             \
  rados_list_lockers(io, object, "lock", &exclusive, tag, &tag_len, clients, &clients_len, cookies, &cookies_len, \
                     addresses, &addresses_len)
  CHECK(LIST("absent") == -ENOENT);
  CHECK(rados_lock_shared(io, "a", "lock", "one", "", "", NULL, 0) == 0);
  CHECK(rados_lock_shared(io, "a", "lock", "two", "", "", NULL, 0) == 0);
  CHECK(LIST("a") == -ERANGE && cookies_len == 8 && tag_len == 1);
  tag_len = sizeof tag, clients_len = sizeof clients, addresses_len = sizeof addresses;
  CHECK(LIST("a") == 2 && exclusive == 0 && tag_len == 1 && !*tag);
  CHECK(cookies_len == 8 && memcmp(cookies, "one\0two", 8) == 0);
  CHECK(addresses_len == 2 && memcmp(addresses, "\0", 2) == 0);
  CHECK(clients_len == 2 * (strlen(clients) + 1) && memcmp(clients, "client.", 7) == 0);
  CHECK(rados_break_lock(io, "a", "lock", "somebody", "one") == -EINVAL);
  CHECK(rados_break_lock(io, "a", "lock", clients, "three") == -ENOENT);
  CHECK(rados_break_lock(io, "a", "lock", clients, "one") == 0 && rados_break_lock(io, "a", "lock", clients, "two") == 0);
  CHECK(LIST("a") == 0 && clients_len == 0);
}

static void commands(handle cluster) {
  const char *create = "{\"prefix\": \"osd pool create\", \"pool\": \"\\u9ec5\", \"pg_num\": 16}";
  CHECK(command(cluster, create) == 0 && strcmp(status, "pool '\xe9\xbb\x85' created") == 0 && !*output);
  CHECK(command(cluster, create) == 0 && strcmp(status, "pool '\xe9\xbb\x85' already exists") == 0);
  CHECK(command(cluster, "{\"prefix\": \"osd pool ls\"}") == 0 && strcmp(output, "pool\n\xe9\xbb\x85\n") == 0);
  CHECK(command(cluster, "{\"prefix\": \"osd pool ls\", \"format\": \"json\"}") == 0);
  CHECK(strcmp(output, "[\"pool\",\"\xe9\xbb\x85\"]") == 0);
  const char *enable = "{\"prefix\": \"osd pool application enable\", \"pool\": \"\\u9ec5\", \"app\": \"rbd\"}";
  CHECK(command(cluster, enable) == 0 && strstr(status, "enabled"));
  CHECK(command(cluster, "{\"prefix\": \"osd pool application enable\", \"pool\": \"none\", \"app\": \"rbd\"}") == -ENOENT);
  CHECK(rados_pool_delete(cluster, "\xe9\xbb\x85") == 0);

  // A promise that a directory cannot keep has no effect.
  CHECK(command(cluster, "{\"prefix\": \"osd pool create\", \"pool\": \"b\", \"size\": 3}") == -EOPNOTSUPP);
  CHECK(command(cluster, "{\"prefix\": \"osd pool create\", \"pool\": \"b\", \"pool_type\": \"erasure\"}") == -EOPNOTSUPP);
  CHECK(rados_pool_lookup(cluster, "b") == -ENOENT);
  CHECK(command(cluster, "{\"prefix\": \"osd pool create\", \"pool\": \"a/b\"}") == -EINVAL);
  CHECK(command(cluster, "{\"prefix\": \"mon dump\"}") == -EOPNOTSUPP && strstr(status, "monitors") && !*output);
  CHECK(command(cluster, "mon dump") == -EINVAL && command(cluster, "{}") == -EINVAL && command(cluster, NULL) == -EINVAL);
  CHECK(rados_mon_command(cluster, NULL, 1, NULL, 0, NULL, NULL, NULL, NULL) == -EINVAL);
}

static void hostile(handle cluster, handle io) {
  char buffer[8];
  handle made = NULL;
  CHECK(rados_create2(&made, "ceph", "nonsense", 0) == -EINVAL && rados_create2(NULL, "ceph", "client.a", 0) == -EINVAL);
  CHECK(rados_ioctx_create(NULL, "pool", &made) == -EINVAL && rados_ioctx_create(io, "pool", &made) == -EINVAL);
  CHECK(rados_ioctx_create(cluster, NULL, &made) == -EINVAL && rados_ioctx_create(cluster, "none", &made) == -ENOENT);
  CHECK(rados_ioctx_create(cluster, "pool", NULL) == -EINVAL && made == NULL);
  CHECK(rados_read(NULL, "a", buffer, 8, 0) == -EINVAL && rados_read(cluster, "a", buffer, 8, 0) == -EINVAL);
  CHECK(rados_read(buffer, "a", buffer, 8, 0) == -EINVAL && rados_read(io, NULL, buffer, 8, 0) == -EINVAL);
  CHECK(rados_read(io, "a", NULL, 8, 0) == -EINVAL && rados_write(io, "a", NULL, 8, 0) == -EINVAL);
  CHECK(rados_write(io, "", "a", 1, 0) == -EINVAL && rados_write(io, "\xff", "a", 1, 0) == -EINVAL);
  CHECK(rados_write(io, "a", buffer, SIZE_MAX, 0) == -EFBIG && rados_write(io, "a", buffer, 8, UINT64_MAX) == -EFBIG);
  CHECK(rados_read(io, "a", buffer, 0, UINT64_MAX) == 0);
  CHECK(rados_aio_append(io, "a", NULL, "a", 1) == -EINVAL && rados_aio_wait_for_complete(io) == -EINVAL);
  CHECK(rados_omap_get_next(NULL, NULL, NULL, NULL) == -EINVAL && rados_nobjects_list_open(NULL, &made) == -EINVAL);
  rados_write_op_append(NULL, "a", 1);
  rados_release_write_op(io);
  rados_aio_release(cluster);
  rados_ioctx_destroy(NULL);
  rados_shutdown(NULL);
  handle op = rados_create_write_op();
  rados_write_op_append(op, NULL, 1);
  rados_write_op_append(op, "a", 1);
  CHECK(rados_write_op_operate(op, io, "hostile", NULL, 0) == -EINVAL);
  rados_write_op_append(op, buffer, SIZE_MAX);
  CHECK(rados_write_op_operate(op, io, "hostile", NULL, 0) == -EFBIG);
  rados_write_op_omap_set(op, NULL, NULL, NULL, SIZE_MAX);
  CHECK(rados_write_op_operate(op, io, "hostile", NULL, 0) == -EFBIG);
  rados_release_write_op(op);
  rados_release_write_op(op);
  CHECK(rados_write_op_operate(op, io, "hostile", NULL, 0) == -EINVAL);
  CHECK(rados_stat(io, "hostile", NULL, NULL) == -ENOENT);
  CHECK(rados_ioctx_snap_create(io, "snap") == -EOPNOTSUPP);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  handle cluster = NULL, io = NULL, other = NULL;
  char buffer[64];
  CHECK(rados_create2(&cluster, "ceph", "client.admin", 0) == 0);
  CHECK(rados_connect(cluster) == -ENOENT);
  CHECK(rados_pool_create(cluster, "pool") == -ENOTCONN);
  CHECK(rados_conf_read_file(cluster, "/nonexistent/ceph.conf") == -ENOENT);
  CHECK(rados_conf_get(cluster, "benthic_store", buffer, 8) == -ENOENT);
  // Our library would find itself instead of Ceph's.
  CHECK(rados_conf_set(cluster, "benthic_store", "ceph:") == 0 && rados_connect(cluster) == -EOPNOTSUPP);
  CHECK(rados_conf_set(cluster, "benthic-store", argv[1]) == 0);
  CHECK(rados_conf_get(cluster, "benthic_store", buffer, 2) == -ENAMETOOLONG);
  CHECK(rados_connect(cluster) == 0 && rados_connect(cluster) == -EEXIST);
  CHECK(rados_pool_create(cluster, "pool") == 0 && rados_pool_create(cluster, "pool") == -EEXIST);
  CHECK(rados_pool_list(cluster, NULL, 0) == 6);
  CHECK(rados_pool_list(cluster, buffer, sizeof buffer) == 6 && memcmp(buffer, "pool\0\0", 6) == 0);
  CHECK(rados_ioctx_create(cluster, "pool", &io) == 0);
  CHECK(rados_ioctx_create2(cluster, rados_pool_lookup(cluster, "pool"), &other) == 0);
  CHECK(rados_ioctx_get_cluster(io) == cluster);
  CHECK(rados_ioctx_get_pool_name(other, buffer, 4) == -ERANGE && rados_ioctx_get_pool_name(other, buffer, 5) == 4);
  operations(io);
  compound(io);
  in_flight(io);
  hostile(cluster, io);
  locks(io);
  applications(io);
  commands(cluster);

  CHECK(rados_write(io, "number", "\0\0\0\0", 4, 0) == 0);
  pthread_t threads[THREADS];
  for (int at = 0; at < THREADS; at++) CHECK(pthread_create(&threads[at], NULL, increments, at % 2 ? io : other) == 0);
  for (int at = 0; at < THREADS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
  int number = 0;
  CHECK(rados_read(io, "number", (char *)&number, 4, 0) == 4 && number == THREADS * ROUNDS);

  int count = 0;
  handle list = NULL;
  const char *name = NULL, *namespace = NULL;
  CHECK(rados_nobjects_list_open(io, &list) == 0);
  while (rados_nobjects_list_next(list, &name, NULL, &namespace) == 0) count += *name && !*namespace;
  CHECK(count == 5); // a, c, d, log and number
  rados_nobjects_list_close(list);
  size_t name_len = 9, key_len = 9, space_len = 9;
  CHECK(rados_nobjects_list_open(io, &list) == 0);
  CHECK(rados_nobjects_list_next2(list, &name, NULL, NULL, &name_len, &key_len, &space_len) == 0);
  CHECK(name_len == strlen(name) && key_len == 0 && space_len == 0);
  rados_nobjects_list_close(list);
  rados_ioctx_destroy(other);
  CHECK(rados_pool_delete(cluster, "pool") == 0);
  CHECK(rados_read(io, "a", buffer, 8, 0) == -ENOENT);
  rados_ioctx_destroy(io);
  rados_shutdown(cluster);
  CHECK(rados_pool_create(cluster, "pool") == -EINVAL);
  return 0;
}
