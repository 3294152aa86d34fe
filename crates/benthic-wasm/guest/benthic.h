/* Benthic's functions for a class in C or C++. `benthic class new --lang c` or `cpp` copies this file into a project.
 *
 * BENTHIC_METHOD(count) { ... } defines a method, which class.json describes. It returns 0, or the errno
 * of an error: 2 not found, 5 class failed, 16 busy, 17 already exists, 22 invalid argument, 27 limit
 * exceeded. A method reads before it writes. All its changes take effect together, or none does if it
 * fails. The output of a method that writes is dropped: it stores its result in an attribute
 * (result_xattr in class.json).
 *
 * A function returns a negative errno, or the length of its result; benthic_take fetches the result. A
 * list of entries is a count (uint32_t), then key and value of each, each after its length (uint32_t). */

#ifndef BENTHIC_H
#define BENTHIC_H

#include <stdint.h>

#ifdef __cplusplus
#define BENTHIC_METHOD(name) extern "C" __attribute__((export_name(#name))) int32_t name(void)
#else
#define BENTHIC_METHOD(name) __attribute__((export_name(#name))) int32_t name(void)
#endif
#define BENTHIC_IMPORT(name) __attribute__((import_module("benthic_1"), import_name(#name)))

#ifdef __cplusplus
extern "C" {
#endif

/* The input of the call. */
BENTHIC_IMPORT(input) int64_t benthic_input(void);
/* Copies a part of the last result. */
BENTHIC_IMPORT(take) void benthic_take(void *to, uint32_t offset, uint32_t len);
/* Appends to the output of the call. */
BENTHIC_IMPORT(output) int64_t benthic_output(const void *from, uint32_t len);
/* Sets the message of the error that the method is about to return. */
BENTHIC_IMPORT(fail) void benthic_fail(const void *text, uint32_t len);
/* Level: 0 debug, 1 info. */
BENTHIC_IMPORT(log) void benthic_log(uint32_t level, const void *text, uint32_t len);

/* Result: size in bytes and time of the last change in ns since 1970, both uint64_t. */
BENTHIC_IMPORT(stat) int64_t benthic_stat(void);
/* Result: data; short if the range crosses the end of the object. */
BENTHIC_IMPORT(read) int64_t benthic_read(uint64_t offset, uint64_t len);
BENTHIC_IMPORT(get_xattr) int64_t benthic_get_xattr(const void *name, uint32_t len);
/* Result: entries. */
BENTHIC_IMPORT(list_xattrs) int64_t benthic_list_xattrs(void);
/* The keys are a count and the keys, each after its length. Result: entries. */
BENTHIC_IMPORT(omap_get) int64_t benthic_omap_get(const void *keys, uint32_t len);
/* Result: 1 if there are more, else 0 (uint8_t); entries. For the first page, after is (void *)-1. */
BENTHIC_IMPORT(omap_range) int64_t benthic_omap_range(const void *after, uint32_t after_len, const void *prefix,
                                                      uint32_t prefix_len, uint32_t entries_max);

BENTHIC_IMPORT(create) int64_t benthic_create(uint32_t exclusive);
BENTHIC_IMPORT(write) int64_t benthic_write(uint64_t offset, const void *data, uint32_t len);
BENTHIC_IMPORT(write_full) int64_t benthic_write_full(const void *data, uint32_t len);
/* A second run appends again. */
BENTHIC_IMPORT(append) int64_t benthic_append(const void *data, uint32_t len);
BENTHIC_IMPORT(truncate) int64_t benthic_truncate(uint64_t size);
BENTHIC_IMPORT(zero) int64_t benthic_zero(uint64_t offset, uint64_t len);
BENTHIC_IMPORT(remove) int64_t benthic_remove(void);
BENTHIC_IMPORT(set_xattr) int64_t benthic_set_xattr(const void *name, uint32_t name_len, const void *value,
                                                    uint32_t value_len);
BENTHIC_IMPORT(omap_set) int64_t benthic_omap_set(const void *entries, uint32_t len);
BENTHIC_IMPORT(omap_remove) int64_t benthic_omap_remove(const void *keys, uint32_t len);
BENTHIC_IMPORT(omap_clear) int64_t benthic_omap_clear(void);
/* Calls a method of a native class, such as digest, beside the same object. Result: its output. */
BENTHIC_IMPORT(call) int64_t benthic_call(const void *class_name, uint32_t class_len, const void *method,
                                          uint32_t method_len, const void *input, uint32_t input_len);

/* Reads data into a buffer. */
static inline int64_t benthic_read_into(uint64_t offset, void *to, uint32_t len) {
    int64_t read = benthic_read(offset, len);
    if (read > 0)
        benthic_take(to, 0, (uint32_t)read);
    return read;
}

/* The parts of an input that is a list: the results for a method that merges them (benthic map --reduce), or
 * the caller's input and the other objects that class.json declares for the method. Begin with
 * benthic_results_begin. Each benthic_results_next returns 1 and sets where benthic_take finds the next
 * part, or returns 0 after the last one. Both return a negative errno if the input is not such a list.
 * Call only benthic_take meanwhile, because the list stays with the host. */
struct benthic_results {
    uint32_t offset, len;       /* the result */
    uint32_t left, input_bytes; /* results after it, and the size of the list */
};

static inline int64_t benthic_results_begin(struct benthic_results *list) {
    int64_t input_bytes = benthic_input();
    if (input_bytes < 4)
        return -22;
    benthic_take(&list->left, 0, 4);
    list->offset = 4;
    list->len = 0;
    list->input_bytes = (uint32_t)input_bytes;
    return 0;
}

static inline int64_t benthic_results_next(struct benthic_results *list) {
    if (list->left == 0)
        return 0;
    uint32_t at = list->offset + list->len;
    if (list->input_bytes - at < 4)
        return -22;
    benthic_take(&list->len, at, 4);
    list->offset = at + 4;
    list->left--;
    return list->len <= list->input_bytes - list->offset ? 1 : -22;
}

#ifdef __cplusplus
}
#endif

#endif
