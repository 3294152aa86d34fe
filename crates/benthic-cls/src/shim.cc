// The layer between ceph-osd and Rust. It moves buffers and makes no decisions. src/ffi.rs declares
// the same functions.
//
// - A result is 0, or the negative errno that ceph-osd returned. No exception leaves a function:
//   out of memory becomes -ENOMEM, any other exception -EREMOTEIO.
// - Offsets and lengths are bytes. The caller keeps them within an object (128 MiB), so they fit
//   ceph-osd's int.
// - Pointer arguments are borrowed for the call. `context` is the context that ceph-osd passed to
//   the method, valid until the method returns.
// - The only state is `call_rust`, which is set once. There are no threads.
#include <rados/objclass.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>

using ceph::bufferlist;
using context_t = cls_method_context_t;
using entries_t = std::map<std::string, bufferlist>;

// ceph-osd 16.2 exports these functions, but no public header declares them.
namespace ceph {
class real_clock;
}
using real_time = std::chrono::time_point<ceph::real_clock, std::chrono::duration<uint64_t, std::nano>>;
extern int cls_cxx_stat2(context_t, uint64_t* size, real_time* mtime);
extern int cls_cxx_write_full(context_t, bufferlist*);
extern int cls_cxx_truncate(context_t, int size);
extern int cls_cxx_write_zero(context_t, int offset, int len);
extern int cls_cxx_getxattrs(context_t, entries_t*);
extern int cls_cxx_map_get_vals(context_t, const std::string& after, const std::string& prefix, uint64_t entries_max,
                                entries_t*, bool* more);
extern int cls_cxx_map_get_vals_by_keys(context_t, const std::set<std::string>&, entries_t*);
extern int cls_cxx_map_set_vals(context_t, const entries_t*);
extern int cls_cxx_map_remove_key(context_t, const std::string&);
extern int cls_cxx_map_clear(context_t);

extern "C" {
// Ceph's entity_inst_t: the sender's type and number, then its address. The real address has 36
// bytes; nothing here reads it.
struct benthic_sender {
  uint8_t type;
  int64_t number;
  char address[240];
};
int cls_get_request_origin(context_t, benthic_sender*);

// Borrowed bytes. `data` may be any pointer if `len` is 0.
struct benthic_slice {
  const char* data;
  size_t len;
};
struct benthic_entry {
  benthic_slice key;
  benthic_slice value;
};
// Bytes that `owner` keeps alive until benthic_cls_free(owner).
struct benthic_buffer {
  const char* data;
  size_t len;
  void* owner;
};
// Takes a copy of one entry; `sink` belongs to the caller. Does not unwind.
typedef void (*benthic_take)(void* sink, benthic_slice key, benthic_slice value);
// Runs the method that was registered with this index. The method passes `output` to
// benthic_cls_output, also on an error: the OSD sends both to the client. Returns 0 or a negative
// errno. Does not unwind.
typedef int (*benthic_call)(size_t index, void* context, benthic_slice input, void* output);
struct benthic_method {
  const char* name;  // ends with NUL, copied by ceph-osd
  int flags;         // CLS_METHOD_RD, CLS_METHOD_WR
};
}

// Everything except the functions for Rust has internal linkage: two of our libraries in one OSD
// must share nothing.
namespace {

benthic_call call_rust = nullptr;

template <typename Body>
int guarded(Body body) noexcept {
  try {
    int result = body();
    return result < 0 ? result : 0;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (...) {
    return -EREMOTEIO;
  }
}

std::string string_of(benthic_slice slice) { return slice.len ? std::string(slice.data, slice.len) : std::string(); }

bufferlist list_of(benthic_slice slice) {
  bufferlist list;
  if (slice.len) list.append(ceph::bufferptr(slice.data, slice.len));
  return list;
}

// c_str() joins the pieces of the list; with several pieces it copies them.
benthic_slice slice_of(bufferlist& list) { return {list.length() ? list.c_str() : nullptr, list.length()}; }

void give(entries_t& entries, benthic_take take, void* sink) {
  for (auto& [key, value] : entries) take(sink, {key.data(), key.size()}, slice_of(value));
}

// Hands the bytes of `list` to the caller, without a copy if they are in one piece.
void give(std::unique_ptr<bufferlist> list, benthic_buffer* buffer) {
  benthic_slice slice = slice_of(*list);
  *buffer = {slice.data, slice.len, list.release()};
}

// ceph-osd does not tell a function which method it was called for, so each method has its own
// function.
template <size_t index>
int trampoline(context_t context, bufferlist* input, bufferlist* output) {
  return guarded([&] { return call_rust(index, context, slice_of(*input), output); });
}

template <size_t... indices>
constexpr std::array<cls_method_cxx_call_t, sizeof...(indices)> all_trampolines(std::index_sequence<indices...>) {
  return {{trampoline<indices>...}};
}

// 256 methods of a library, plus three that every library has.
constexpr auto trampolines = all_trampolines(std::make_index_sequence<259>{});

}  // namespace

extern "C" {

// The number of methods that benthic_cls_register accepts.
size_t benthic_cls_methods_max() { return trampolines.size(); }

// Registers a library and its methods; call it only from __cls_init. `library` (ends with NUL) is
// the NAME of libcls_NAME.so. Returns -E2BIG for too many methods and -EINVAL if ceph-osd refuses
// the name, in both cases before it registers anything; -EINVAL if ceph-osd refuses a method.
int benthic_cls_register(const char* library, const benthic_method* methods, size_t count, benthic_call call) {
  return guarded([&] {
    if (count > trampolines.size()) return -E2BIG;
    cls_handle_t handle = nullptr;
    cls_register(library, &handle);
    if (!handle) return -EINVAL;
    call_rust = call;
    for (size_t index = 0; index < count; index++) {
      cls_method_handle_t method = nullptr;
      cls_register_cxx_method(handle, methods[index].name, methods[index].flags, trampolines[index], &method);
      if (!method) return -EINVAL;
    }
    return 0;
  });
}

// Writes a line to the OSD's log if debug_objclass is at least `level`; level 0 is for errors.
void benthic_cls_log(int level, benthic_slice message) {
  guarded([&] { return cls_log(level, "<cls> %.*s", static_cast<int>(message.len), message.data); });
}

// Appends a copy of `data` to the method's output.
int benthic_cls_output(void* output, benthic_slice data) {
  return guarded([&] {
    static_cast<bufferlist*>(output)->append(list_of(data));
    return 0;
  });
}

// Frees the owner of a benthic_buffer. Any thread may call it.
void benthic_cls_free(void* owner) { delete static_cast<bufferlist*>(owner); }

// The type (8 is a client) and the number of the process that sent the operation.
int benthic_cls_sender(void* context, uint8_t* type, int64_t* number) {
  return guarded([&] {
    benthic_sender sender{};
    int result = cls_get_request_origin(context, &sender);
    *type = sender.type;
    *number = sender.number;
    return result;
  });
}

// Size and modification time (ns since 1970, UTC), including the operation's changes so far.
// -ENOENT for a missing object.
int benthic_cls_stat(void* context, uint64_t* size_bytes, uint64_t* modified_unix_ns) {
  return guarded([&] {
    real_time modified;
    int result = cls_cxx_stat2(context, size_bytes, &modified);
    *modified_unix_ns = modified.time_since_epoch().count();
    return result;
  });
}

// Reads data as it was before the operation; shorter at the object's end. `len_bytes` must not be
// 0, which ceph-osd takes for "to the end". A missing object reads as empty.
int benthic_cls_read(void* context, uint64_t offset_bytes, uint64_t len_bytes, benthic_buffer* buffer) {
  return guarded([&] {
    if (len_bytes == 0) return -EINVAL;
    auto list = std::make_unique<bufferlist>();
    int result = cls_cxx_read(context, offset_bytes, len_bytes, list.get());
    if (result >= 0) give(std::move(list), buffer);
    return result;
  });
}

// Reads an attribute as it was before the operation. -ENODATA for a missing attribute, -ENOENT for
// a missing object.
int benthic_cls_get_xattr(void* context, benthic_slice name, benthic_buffer* buffer) {
  return guarded([&] {
    auto list = std::make_unique<bufferlist>();
    int result = cls_cxx_getxattr(context, string_of(name).c_str(), list.get());
    if (result >= 0) give(std::move(list), buffer);
    return result;
  });
}

// Lists all attributes as they were before the operation. -ENOENT for a missing object.
int benthic_cls_list_xattrs(void* context, benthic_take take, void* sink) {
  return guarded([&] {
    entries_t entries;
    int result = cls_cxx_getxattrs(context, &entries);
    if (result >= 0) give(entries, take, sink);
    return result;
  });
}

// The entries of those keys that exist, as they were before the operation, in key order. None for a
// missing object.
int benthic_cls_omap_get(void* context, const benthic_slice* keys, size_t count, benthic_take take, void* sink) {
  return guarded([&] {
    std::set<std::string> wanted;
    for (size_t index = 0; index < count; index++) wanted.insert(string_of(keys[index]));
    entries_t entries;
    int result = cls_cxx_map_get_vals_by_keys(context, wanted, &entries);
    if (result >= 0) give(entries, take, sink);
    return result;
  });
}

// Lists entries as they were before the operation, in key order: at most `entries_max` (at least 1)
// after `after` that start with `prefix`. `more` tells whether further entries follow. A missing
// object has none.
int benthic_cls_omap_range(void* context, benthic_slice after, benthic_slice prefix, uint64_t entries_max, bool* more,
                           benthic_take take, void* sink) {
  return guarded([&] {
    entries_t entries;
    *more = false;
    int result = cls_cxx_map_get_vals(context, string_of(after), string_of(prefix), entries_max, &entries, more);
    if (result >= 0) give(entries, take, sink);
    return result;
  });
}

// Creates the object if it is missing. -EEXIST if `exclusive` and the object exists.
int benthic_cls_create(void* context, bool exclusive) {
  return guarded([&] { return cls_cxx_create(context, exclusive); });
}

// Writes a copy of `data`, which must not be empty: ceph-osd would extend the object for an empty
// write and corrupt its checksum.
int benthic_cls_write(void* context, uint64_t offset_bytes, benthic_slice data) {
  return guarded([&] {
    if (data.len == 0) return -EINVAL;
    bufferlist list = list_of(data);
    return cls_cxx_write(context, offset_bytes, data.len, &list);
  });
}

// Replaces all data with a copy of `data`.
int benthic_cls_write_full(void* context, benthic_slice data) {
  return guarded([&] {
    bufferlist list = list_of(data);
    return cls_cxx_write_full(context, &list);
  });
}

// Truncates or extends the object to `size_bytes`, less than 128 MiB. Does nothing on a missing
// object.
int benthic_cls_truncate(void* context, uint64_t size_bytes) {
  return guarded([&] { return cls_cxx_truncate(context, size_bytes); });
}

// Zeroes a range. `len_bytes` must not be 0: ceph-osd would abort.
int benthic_cls_zero(void* context, uint64_t offset_bytes, uint64_t len_bytes) {
  return guarded([&] { return len_bytes ? cls_cxx_write_zero(context, offset_bytes, len_bytes) : -EINVAL; });
}

// Removes the object. -ENOENT for a missing object.
int benthic_cls_remove(void* context) {
  return guarded([&] { return cls_cxx_remove(context); });
}

// Sets an attribute to a copy of `value`. The name must not contain a NUL.
int benthic_cls_set_xattr(void* context, benthic_slice name, benthic_slice value) {
  return guarded([&] {
    bufferlist list = list_of(value);
    return cls_cxx_setxattr(context, string_of(name).c_str(), &list);
  });
}

// Sets copies of at least one entry.
int benthic_cls_omap_set(void* context, const benthic_entry* entries, size_t count) {
  return guarded([&] {
    entries_t copies;
    for (size_t index = 0; index < count; index++)
      copies[string_of(entries[index].key)] = list_of(entries[index].value);
    return cls_cxx_map_set_vals(context, &copies);
  });
}

// Removes one key; a missing key is no error. -ENOENT for a missing object.
int benthic_cls_omap_remove(void* context, benthic_slice key) {
  return guarded([&] { return cls_cxx_map_remove_key(context, string_of(key)); });
}

// Removes all entries. -ENOENT for a missing object.
int benthic_cls_omap_clear(void* context) {
  return guarded([&] { return cls_cxx_map_clear(context); });
}

}  // extern "C"
