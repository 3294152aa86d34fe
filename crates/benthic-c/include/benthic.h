/* Benthic for C: programmable object storage, on the embedded engine and on Ceph.
 *
 * Made from the functions in src/ffi; do not edit. docs/guide/c.md is the guide.
 *
 * Every function that can fail returns 0 (BENTHIC_KIND_OK) or the kind of the error, and stores an error
 * object in `*error`, unless `error` is NULL. The caller frees the error object. After a failure, no other
 * result was stored. No function uses errno.
 *
 * A handle looks like a pointer and is none: the library looks it up. So a handle that is NULL, closed or of
 * another type is the error BENTHIC_KIND_INVALID_ARGUMENT. All functions may be called by any number of
 * threads at the same time, also with the same handle.
 *
 * The caller promises the rest: a pointer is NULL, or valid for as many bytes as the call says; a text ends
 * with a NUL and is UTF-8. A pointer that is NULL where a function needs one is an error.
 *
 * A process that was forked after its parent used a store cannot use stores; calls fail with
 * BENTHIC_KIND_INVALID_ARGUMENT.
 */

#ifndef BENTHIC_H
#define BENTHIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The result of a function: 0 for success, otherwise how the caller should react. The numbers are
// the exit statuses of the `benthic` program.
typedef enum {
  BENTHIC_KIND_OK = 0,
  // The pool, object, attribute or key does not exist.
  BENTHIC_KIND_NOT_FOUND = 3,
  // An exclusive creation found an existing item.
  BENTHIC_KIND_ALREADY_EXISTS = 4,
  // A guard failed because another client changed the object. Read the object again, then
  // decide.
  BENTHIC_KIND_CONFLICT = 5,
  // The request is invalid; a retry will not help.
  BENTHIC_KIND_INVALID_ARGUMENT = 6,
  // This engine, class or version lacks the feature.
  BENTHIC_KIND_UNSUPPORTED = 7,
  // The caller lacks the permission.
  BENTHIC_KIND_PERMISSION_DENIED = 8,
  // The store is unreachable or accepts no writes, or the operation was cancelled. Nothing was
  // done.
  BENTHIC_KIND_UNAVAILABLE = 9,
  // Another client is using the item, or too many operations are in flight. Retry later.
  BENTHIC_KIND_BUSY = 10,
  // A limit on size, count, time, memory or space was exceeded. Nothing was stored.
  BENTHIC_KIND_LIMIT_EXCEEDED = 11,
  // Stored bytes are damaged. Damaged bytes are never returned.
  BENTHIC_KIND_CORRUPT = 12,
  // A class method failed. The object is unchanged.
  BENTHIC_KIND_CLASS_FAILED = 13,
  // A write may or may not have happened. Read the object to find out; do not retry blindly.
  BENTHIC_KIND_OUTCOME_UNKNOWN = 14,
  // A bug in Benthic.
  BENTHIC_KIND_INTERNAL = 15,
} benthic_kind;

// How a guard compares the stored value with the given one: stored OP given, bytewise.
typedef enum {
  BENTHIC_COMPARISON_EQUAL = 0,
  BENTHIC_COMPARISON_NOT_EQUAL = 1,
  BENTHIC_COMPARISON_GREATER = 2,
  BENTHIC_COMPARISON_GREATER_OR_EQUAL = 3,
  BENTHIC_COMPARISON_LESS = 4,
  BENTHIC_COMPARISON_LESS_OR_EQUAL = 5,
} benthic_comparison;

// An operation that was started.
typedef struct benthic_completion benthic_completion;

// An error.
typedef struct benthic_error benthic_error;

// A page of a listing.
typedef struct benthic_page benthic_page;

// An open pool, and the namespace of its objects.
typedef struct benthic_pool benthic_pool;

// A compound read operation.
typedef struct benthic_read_op benthic_read_op;

// The results of an operation.
typedef struct benthic_reply benthic_reply;

// An open store.
typedef struct benthic_store benthic_store;

// A compound write operation.
typedef struct benthic_write_op benthic_write_op;

// The library calls this function when an operation is complete, also after a failure or a
// cancellation. It calls it once, on a thread of the library, perhaps before the function that
// started the operation returns. The callback may call all functions of the library. A store calls
// one callback at a time, so a callback that waits delays the others.
typedef void (*benthic_completion_callback)(benthic_completion *completion, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the name of the library's build, such as "0.1.0+815.g4fc735709c06".
const char *benthic_version(void);

// Returns the name of a kind, such as "not_found"; NULL if there is no such kind.
const char *benthic_kind_name(int32_t kind);

// Returns the kind of an error: one of `BENTHIC_KIND_*`. The kind of a handle that is not open is
// `BENTHIC_KIND_INVALID_ARGUMENT`.
int32_t benthic_error_kind(const benthic_error *error);

// Returns the message of an error: the operation, what failed, the next step if there is one, and
// the values as key=value. It is valid until the error is freed. Returns NULL if the handle is not
// open.
const char *benthic_error_message(const benthic_error *error);

// Frees an error. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is
// not open.
int32_t benthic_error_free(benthic_error *error);

// Opens a store: `file:DIR`, `mem:`, or `ceph:` with options, such as
// `ceph:?conf=FILE&id=client.x`. With `create`, it creates a store in a directory that has
// none. Any number of processes can open the same directory.
int32_t benthic_store_open(const char *uri, bool create, benthic_store **store, benthic_error **error);

// Closes a store. Afterwards all acknowledged writes are on disk. Handles of the store's pools
// stay open, and calls with them fail. Operations in flight still become complete, and their
// callbacks run. Does nothing for NULL.
int32_t benthic_store_close(benthic_store *store, benthic_error **error);

// Waits until every write acknowledged before this call is durable. Only buffered writes need
// this.
int32_t benthic_store_flush(benthic_store *store, benthic_error **error);

// Describes the classes of a store as a JSON text, which is the reply's output of step 0.
int32_t benthic_store_classes(benthic_store *store, benthic_reply **json, benthic_error **error);

// Creates a pool.
int32_t benthic_pool_create(benthic_store *store, const char *name, benthic_error **error);

// Removes a pool with all its objects.
int32_t benthic_pool_remove(benthic_store *store, const char *name, benthic_error **error);

// Lists the names of all pools, sorted, as one page.
int32_t benthic_pool_list(benthic_store *store, benthic_page **page, benthic_error **error);

// Opens a pool, and a namespace in it; NULL is the default namespace. After the pool is
// removed, calls with the handle fail with `BENTHIC_KIND_NOT_FOUND`.
int32_t benthic_pool_open(benthic_store *store,
                          const char *name,
                          const char *namespace_,
                          benthic_pool **pool,
                          benthic_error **error);

// Closes the handle of a pool. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if
// the handle is not open.
int32_t benthic_pool_close(benthic_pool *pool);

// Reads data from an offset into memory of the caller. Stores the number of bytes, which is
// smaller than `len_bytes` at the end of the object.
int32_t benthic_read(benthic_pool *pool,
                     const char *object,
                     uint64_t offset_bytes,
                     void *data,
                     size_t len_bytes,
                     size_t *read_bytes,
                     benthic_error **error);

// Writes data at an offset. The write is durable.
int32_t benthic_write(benthic_pool *pool,
                      const char *object,
                      uint64_t offset_bytes,
                      const void *data,
                      size_t len_bytes,
                      benthic_error **error);

// Replaces an object's data. Attributes and omap are kept. The write is durable.
int32_t benthic_write_full(benthic_pool *pool,
                           const char *object,
                           const void *data,
                           size_t len_bytes,
                           benthic_error **error);

// Writes data at the end of an object. The write is durable.
int32_t benthic_append(benthic_pool *pool,
                       const char *object,
                       const void *data,
                       size_t len_bytes,
                       benthic_error **error);

// Stores the size of an object, the time of its last change in nanoseconds since 1970 (UTC),
// and its version. A pointer that is NULL is left out.
int32_t benthic_stat(benthic_pool *pool,
                     const char *object,
                     uint64_t *size_bytes,
                     uint64_t *modified_unix_ns,
                     uint64_t *version,
                     benthic_error **error);

// Removes an object. The removal is durable.
int32_t benthic_remove(benthic_pool *pool, const char *object, benthic_error **error);

// Runs a method of a class beside an object, and waits for it. The method's output is the
// reply's output of step 0. If the method keeps its result in an attribute, as methods that
// write do, the output is the value of this attribute. The class is one of the store, or a
// WebAssembly class that was deployed to the pool.
int32_t benthic_exec(benthic_pool *pool,
                     const char *object,
                     const char *class_name,
                     const char *method,
                     const void *input,
                     size_t len_bytes,
                     benthic_reply **reply,
                     benthic_error **error);

// Creates a compound read operation without steps. All its guards and steps see one state of
// the object. It fails at the first guard or step that fails. Each function below adds a guard
// or a step; what it gets is copied. Steps count from 0 in the order in which they are added;
// each has one output in the reply.
int32_t benthic_read_op_new(benthic_read_op **op, benthic_error **error);

// Frees an operation. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle
// is not open.
int32_t benthic_read_op_free(benthic_read_op *op);

// Adds a guard: the object exists. Otherwise the operation fails with
// `BENTHIC_KIND_NOT_FOUND`.
int32_t benthic_read_op_assert_exists(benthic_read_op *op, benthic_error **error);

// Adds a guard: the object has this version. Otherwise the operation fails with
// `BENTHIC_KIND_CONFLICT`.
int32_t benthic_read_op_assert_version(benthic_read_op *op, uint64_t version, benthic_error **error);

// Adds a guard on the value of an attribute. A missing attribute compares as an empty value.
// `comparison` is one of `BENTHIC_COMPARISON_*`. Otherwise the operation fails with
// `BENTHIC_KIND_CONFLICT`.
int32_t benthic_read_op_compare_xattr(benthic_read_op *op,
                                      const char *name,
                                      int32_t comparison,
                                      const void *value,
                                      size_t value_bytes,
                                      benthic_error **error);

// Adds a guard: the value of an omap key equals the given one. A missing key counts as an
// empty value. Otherwise the operation fails with `BENTHIC_KIND_CONFLICT`.
int32_t benthic_read_op_compare_omap(benthic_read_op *op,
                                     const void *key,
                                     size_t key_bytes,
                                     const void *value,
                                     size_t value_bytes,
                                     benthic_error **error);

// Adds a step: reads data from an offset. The output is short at the end of the object.
int32_t benthic_read_op_read(benthic_read_op *op,
                             uint64_t offset_bytes,
                             size_t len_bytes,
                             benthic_error **error);

// Adds a step: the size and the time of the last change; see `benthic_reply_stat`.
int32_t benthic_read_op_stat(benthic_read_op *op, benthic_error **error);

// Adds a step: the value of an attribute. A missing attribute fails with
// `BENTHIC_KIND_NOT_FOUND`.
int32_t benthic_read_op_get_xattr(benthic_read_op *op, const char *name, benthic_error **error);

// Adds a step: all attributes, as entries.
int32_t benthic_read_op_list_xattrs(benthic_read_op *op, benthic_error **error);

// Adds a step: the entry of an omap key. A missing key gives no entry.
int32_t benthic_read_op_omap_get(benthic_read_op *op,
                                 const void *key,
                                 size_t key_bytes,
                                 benthic_error **error);

// Adds a step: a page of omap entries in the bytewise order of keys, only of keys after
// `after` and with `prefix`. An `after` or `prefix` that is empty selects all. A page has at
// most `entries_max` entries, and no more than the limits of the engine.
int32_t benthic_read_op_omap_range(benthic_read_op *op,
                                   const void *after,
                                   size_t after_bytes,
                                   const void *prefix,
                                   size_t prefix_bytes,
                                   size_t entries_max,
                                   benthic_error **error);

// Adds a step: the output of a method of one of the store's classes that does not write.
int32_t benthic_read_op_exec(benthic_read_op *op,
                             const char *class_name,
                             const char *method,
                             const void *input,
                             size_t len_bytes,
                             benthic_error **error);

// Runs an operation and waits for it. The operation can be used again.
int32_t benthic_read_op_run(benthic_pool *pool,
                            const char *object,
                            const benthic_read_op *op,
                            benthic_reply **reply,
                            benthic_error **error);

// Creates a compound write operation without steps. All guards hold and all steps happen, or
// nothing changes. Each function below adds a guard or a step; what it gets is copied. The
// operation is durable when it is complete, unless it is buffered.
int32_t benthic_write_op_new(benthic_write_op **op, benthic_error **error);

// Frees an operation. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle
// is not open.
int32_t benthic_write_op_free(benthic_write_op *op);

// Adds a guard: the object exists. Otherwise the operation fails with
// `BENTHIC_KIND_NOT_FOUND`.
int32_t benthic_write_op_assert_exists(benthic_write_op *op, benthic_error **error);

// Adds a guard: the object has this version. Otherwise the operation fails with
// `BENTHIC_KIND_CONFLICT`.
int32_t benthic_write_op_assert_version(benthic_write_op *op, uint64_t version, benthic_error **error);

// Adds a guard on the value of an attribute. A missing attribute compares as an empty value.
// `comparison` is one of `BENTHIC_COMPARISON_*`. Otherwise the operation fails with
// `BENTHIC_KIND_CONFLICT`.
int32_t benthic_write_op_compare_xattr(benthic_write_op *op,
                                       const char *name,
                                       int32_t comparison,
                                       const void *value,
                                       size_t value_bytes,
                                       benthic_error **error);

// Adds a guard: the value of an omap key equals the given one. A missing key counts as an
// empty value. Otherwise the operation fails with `BENTHIC_KIND_CONFLICT`.
int32_t benthic_write_op_compare_omap(benthic_write_op *op,
                                      const void *key,
                                      size_t key_bytes,
                                      const void *value,
                                      size_t value_bytes,
                                      benthic_error **error);

// Lets the engine acknowledge the operation before it is durable. A later
// `benthic_store_flush` or durable operation makes it durable. On Ceph every write is durable.
int32_t benthic_write_op_set_buffered(benthic_write_op *op, benthic_error **error);

// Adds a step: creates the object if it is missing. If `exclusive`, an existing object fails
// with `BENTHIC_KIND_ALREADY_EXISTS`.
int32_t benthic_write_op_create(benthic_write_op *op, bool exclusive, benthic_error **error);

// Adds a step: writes data at an offset.
int32_t benthic_write_op_write(benthic_write_op *op,
                               uint64_t offset_bytes,
                               const void *data,
                               size_t len_bytes,
                               benthic_error **error);

// Adds a step: replaces all data. Attributes and omap are kept.
int32_t benthic_write_op_write_full(benthic_write_op *op,
                                    const void *data,
                                    size_t len_bytes,
                                    benthic_error **error);

// Adds a step: writes data at the end of the object.
int32_t benthic_write_op_append(benthic_write_op *op,
                                const void *data,
                                size_t len_bytes,
                                benthic_error **error);

// Adds a step: cuts the data, or extends it with zeros. On a missing object the step does
// nothing.
int32_t benthic_write_op_truncate(benthic_write_op *op, uint64_t size_bytes, benthic_error **error);

// Adds a step: makes a range of at least one byte read as zeros. If the range reaches the end
// of the object, the object is truncated to the offset.
int32_t benthic_write_op_zero(benthic_write_op *op,
                              uint64_t offset_bytes,
                              uint64_t len_bytes,
                              benthic_error **error);

// Adds a step: removes the object. A missing object fails with `BENTHIC_KIND_NOT_FOUND`.
int32_t benthic_write_op_remove(benthic_write_op *op, benthic_error **error);

// Adds a step: sets an attribute.
int32_t benthic_write_op_set_xattr(benthic_write_op *op,
                                   const char *name,
                                   const void *value,
                                   size_t value_bytes,
                                   benthic_error **error);

// Adds a step: removes an attribute. A missing attribute is not an error.
int32_t benthic_write_op_remove_xattr(benthic_write_op *op, const char *name, benthic_error **error);

// Adds a step: sets an omap entry. Entries that are added one after the other are one step.
int32_t benthic_write_op_omap_set(benthic_write_op *op,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes,
                                  benthic_error **error);

// Adds a step: removes an omap key. A missing key is not an error. Keys that are added one
// after the other are one step.
int32_t benthic_write_op_omap_remove(benthic_write_op *op,
                                     const void *key,
                                     size_t key_bytes,
                                     benthic_error **error);

// Adds a step: removes all omap entries.
int32_t benthic_write_op_omap_clear(benthic_write_op *op, benthic_error **error);

// Adds a step: runs a method of one of the store's classes. An operation has at most one such
// step, and it must be the first one.
int32_t benthic_write_op_exec(benthic_write_op *op,
                              const char *class_name,
                              const char *method,
                              const void *input,
                              size_t len_bytes,
                              benthic_error **error);

// Runs an operation and waits for it. Stores the version of the object after the operation,
// unless `version` is NULL. The operation can be used again.
int32_t benthic_write_op_run(benthic_pool *pool,
                             const char *object,
                             const benthic_write_op *op,
                             uint64_t *version,
                             benthic_error **error);

// Stores the version of the object: for a read operation the one that was read, for a write
// operation the one that it made. It is 0 for a method call.
int32_t benthic_reply_version(const benthic_reply *reply, uint64_t *version, benthic_error **error);

// Stores the bytes that a step returned: data, the value of an attribute, or the output of a
// method. The first step of an operation is step 0.
int32_t benthic_reply_data(const benthic_reply *reply,
                           size_t step,
                           const void **data,
                           size_t *len_bytes,
                           benthic_error **error);

// Stores what a step `stat` returned: the size, and the time of the last change in nanoseconds
// since 1970 (UTC).
int32_t benthic_reply_stat(const benthic_reply *reply,
                           size_t step,
                           uint64_t *size_bytes,
                           uint64_t *modified_unix_ns,
                           benthic_error **error);

// Stores the number of entries that a step returned: attributes or omap entries. `more`
// becomes true if more omap entries follow the last one; the next page is the one after its
// key.
int32_t benthic_reply_count(const benthic_reply *reply,
                            size_t step,
                            size_t *count,
                            bool *more,
                            benthic_error **error);

// Stores an entry that a step returned, in the bytewise order of keys: an omap key or the name
// of an attribute, without a NUL at its end, and the value.
int32_t benthic_reply_entry(const benthic_reply *reply,
                            size_t step,
                            size_t at,
                            const void **key,
                            size_t *key_bytes,
                            const void **value,
                            size_t *value_bytes,
                            benthic_error **error);

// Frees a reply. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is
// not open.
int32_t benthic_reply_free(benthic_reply *reply);

// Lists a page of a pool's objects in the namespace of the handle, or in all namespaces that
// Benthic does not reserve.
//
// `prefix` selects names; NULL selects all. `after` is the token of the previous page, and
// NULL for the first page. A page has at most `objects_max` objects, and no more than a limit
// of the engine. A page that is not the last may be empty.
int32_t benthic_list(benthic_pool *pool,
                     const char *prefix,
                     bool all_namespaces,
                     const void *after,
                     size_t after_bytes,
                     size_t objects_max,
                     benthic_page **page,
                     benthic_error **error);

// Stores the number of entries of a page.
int32_t benthic_page_count(const benthic_page *page, size_t *count, benthic_error **error);

// Stores an entry of a page: the namespace, which is empty for the default one, and the name.
// The texts are valid until the page is freed.
int32_t benthic_page_entry(const benthic_page *page,
                           size_t at,
                           const char **namespace_,
                           const char **name,
                           benthic_error **error);

// Stores the token with which the listing continues; NULL if the page is the last. The token
// is valid until the page is freed. A copy of it is valid for the pool at any time, also after
// a restart.
int32_t benthic_page_next(const benthic_page *page,
                          const void **after,
                          size_t *after_bytes,
                          benthic_error **error);

// Frees a page. Does nothing for NULL. Returns `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is
// not open.
int32_t benthic_page_free(benthic_page *page);

// Starts a read operation. The operation may be changed and used again at once.
int32_t benthic_read_op_start(benthic_pool *pool,
                              const char *object,
                              const benthic_read_op *op,
                              benthic_completion_callback callback,
                              void *context,
                              benthic_completion **completion,
                              benthic_error **error);

// Starts a write operation. The operation may be changed and used again at once. Operations on
// one object that are in flight at the same time may run in any order.
int32_t benthic_write_op_start(benthic_pool *pool,
                               const char *object,
                               const benthic_write_op *op,
                               benthic_completion_callback callback,
                               void *context,
                               benthic_completion **completion,
                               benthic_error **error);

// Starts a method of a class beside an object; see `benthic_exec`.
int32_t benthic_exec_start(benthic_pool *pool,
                           const char *object,
                           const char *class_name,
                           const char *method,
                           const void *input,
                           size_t len_bytes,
                           benthic_completion_callback callback,
                           void *context,
                           benthic_completion **completion,
                           benthic_error **error);

// Waits until an operation is complete, at most for `timeout_ms`; a negative time-out waits as
// long as it takes. `complete` becomes true if the operation is complete. The callback may run
// later.
int32_t benthic_completion_wait(const benthic_completion *completion,
                                int64_t timeout_ms,
                                bool *complete,
                                benthic_error **error);

// Returns the outcome of an operation that is complete: stores its reply, or fails with the
// operation's error. The caller frees the reply. Fails with `BENTHIC_KIND_BUSY` while the
// operation is in flight.
int32_t benthic_completion_result(const benthic_completion *completion,
                                  benthic_reply **reply,
                                  benthic_error **error);

// Ends an operation early, unless it is complete. The operation then fails: a read operation
// with `BENTHIC_KIND_UNAVAILABLE`, any other one with `BENTHIC_KIND_OUTCOME_UNKNOWN`, because
// it may have happened. The callback runs as always.
int32_t benthic_completion_cancel(const benthic_completion *completion, benthic_error **error);

// Frees a completion. An operation in flight goes on, and its callback runs; the handle that the
// callback gets is then not open any more. Does nothing for NULL. Returns
// `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is not open.
int32_t benthic_completion_free(benthic_completion *completion);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BENTHIC_H */
