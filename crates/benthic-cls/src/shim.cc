// What stands between ceph-osd and Rust. It moves buffers and decides nothing; src/ffi.rs declares the same functions.
//
// - A result is 0 or the negative errno that ceph-osd answered. No exception leaves a function: -ENOMEM if there is no
//   memory, -EREMOTEIO for any other.
// - Offsets and lengths are bytes. The caller keeps them within an object (128 MiB), so they fit ceph-osd's int.
// - Pointers that come in are borrowed for the call. `context` is what ceph-osd gave the method, valid until it returns.
// - No state but `call_rust`, which is set once; no threads.
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

// Exported by ceph-osd 16.2, in no public header.
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
// Bytes of somebody else. `data` may be anything if `len` is 0.
struct benthic_slice {
  const char* data;
  size_t len;
};
struct benthic_entry {
  benthic_slice key;
  benthic_slice value;
};
// Bytes that `owner` keeps until benthic_cls_free(owner).
struct benthic_buffer {
  const char* data;
  size_t len;
  void* owner;
};
// Takes a copy of one entry; `sink` is the caller's own. Does not unwind.
typedef void (*benthic_take)(void* sink, benthic_slice key, benthic_slice value);
// Runs the method that was registered with this index; `output` goes to benthic_cls_output. Gives 0 or a negative
// errno. Does not unwind.
typedef int (*benthic_call)(size_t index, void* context, benthic_slice input, void* output);
struct benthic_method {
  const char* name;  // ends with NUL, copied by ceph-osd
  int flags;         // CLS_METHOD_RD, CLS_METHOD_WR
};
}

// All that is not a function for Rust has internal linkage: two of our libraries in one OSD must not share any of it.
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

// c_str() joins the pieces of the list, by copying if there are several.
benthic_slice slice_of(bufferlist& list) { return {list.length() ? list.c_str() : nullptr, list.length()}; }

void give(entries_t& entries, benthic_take take, void* sink) {
  for (auto& [key, value] : entries) take(sink, {key.data(), key.size()}, slice_of(value));
}

// Gives the bytes of `list` to the caller without a copy where they are in one piece.
void give(std::unique_ptr<bufferlist> list, benthic_buffer* buffer) {
  benthic_slice slice = slice_of(*list);
  *buffer = {slice.data, slice.len, list.release()};
}

// ceph-osd calls a method without telling which, so each has a function of its own.
template <size_t index>
int trampoline(context_t context, bufferlist* input, bufferlist* output) {
  return guarded([&] { return call_rust(index, context, slice_of(*input), output); });
}

template <size_t... indices>
constexpr std::array<cls_method_cxx_call_t, sizeof...(indices)> all_trampolines(std::index_sequence<indices...>) {
  return {{trampoline<indices>...}};
}

// 256 for the methods of a library, and two for those that every library has.
constexpr auto trampolines = all_trampolines(std::make_index_sequence<258>{});

}  // namespace

extern "C" {

// How many methods benthic_cls_register takes.
size_t benthic_cls_methods_max() { return trampolines.size(); }

// Registers a library and its methods; only from __cls_init. `library` (ends with NUL) is the NAME of libcls_NAME.so.
// -E2BIG for too many methods and -EINVAL if ceph-osd refuses the name, both before anything is registered; -EINVAL if it
// refuses a method.
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

// A line for the OSD's log, kept if debug_objclass is at least `level`; 0 is an error.
void benthic_cls_log(int level, benthic_slice message) {
  guarded([&] { return cls_log(level, "<cls> %.*s", static_cast<int>(message.len), message.data); });
}

// Appends a copy to the method's output.
int benthic_cls_output(void* output, benthic_slice data) {
  return guarded([&] {
    static_cast<bufferlist*>(output)->append(list_of(data));
    return 0;
  });
}

// Ends a benthic_buffer. From any thread.
void benthic_cls_free(void* owner) { delete static_cast<bufferlist*>(owner); }

// Size and modification time (ns since 1970, UTC), with the operation's changes so far. -ENOENT.
int benthic_cls_stat(void* context, uint64_t* size_bytes, uint64_t* modified_unix_ns) {
  return guarded([&] {
    real_time modified;
    int result = cls_cxx_stat2(context, size_bytes, &modified);
    *modified_unix_ns = modified.time_since_epoch().count();
    return result;
  });
}

// Data before the operation; short at the end. `len_bytes` is not 0, which ceph-osd takes for "to the end". A missing
// object reads as empty.
int benthic_cls_read(void* context, uint64_t offset_bytes, uint64_t len_bytes, benthic_buffer* buffer) {
  return guarded([&] {
    if (len_bytes == 0) return -EINVAL;
    auto list = std::make_unique<bufferlist>();
    int result = cls_cxx_read(context, offset_bytes, len_bytes, list.get());
    if (result >= 0) give(std::move(list), buffer);
    return result;
  });
}

// An attribute before the operation. -ENODATA; -ENOENT for a missing object.
int benthic_cls_get_xattr(void* context, benthic_slice name, benthic_buffer* buffer) {
  return guarded([&] {
    auto list = std::make_unique<bufferlist>();
    int result = cls_cxx_getxattr(context, string_of(name).c_str(), list.get());
    if (result >= 0) give(std::move(list), buffer);
    return result;
  });
}

// All attributes before the operation. -ENOENT.
int benthic_cls_list_xattrs(void* context, benthic_take take, void* sink) {
  return guarded([&] {
    entries_t entries;
    int result = cls_cxx_getxattrs(context, &entries);
    if (result >= 0) give(entries, take, sink);
    return result;
  });
}

// Those of the keys that are there, before the operation, in order. A missing object has none.
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

// Entries before the operation, in order: at most `entries_max` (1 at least) behind `after` that start with `prefix`.
// `more` tells whether there are others behind. A missing object has none.
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

// Makes the object exist. -EEXIST if exclusive and it does.
int benthic_cls_create(void* context, bool exclusive) {
  return guarded([&] { return cls_cxx_create(context, exclusive); });
}

// Writes a copy of `data`, which is not empty: an empty write would let an object grow and spoil its checksum.
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

// Cuts or extends, to less than 128 MiB. Nothing on a missing object.
int benthic_cls_truncate(void* context, uint64_t size_bytes) {
  return guarded([&] { return cls_cxx_truncate(context, size_bytes); });
}

// Zeros a range. `len_bytes` is not 0, at which ceph-osd aborts.
int benthic_cls_zero(void* context, uint64_t offset_bytes, uint64_t len_bytes) {
  return guarded([&] { return len_bytes ? cls_cxx_write_zero(context, offset_bytes, len_bytes) : -EINVAL; });
}

// -ENOENT.
int benthic_cls_remove(void* context) {
  return guarded([&] { return cls_cxx_remove(context); });
}

// Sets an attribute to a copy of `value`; the name has no NUL.
int benthic_cls_set_xattr(void* context, benthic_slice name, benthic_slice value) {
  return guarded([&] {
    bufferlist list = list_of(value);
    return cls_cxx_setxattr(context, string_of(name).c_str(), &list);
  });
}

// Sets copies of the entries, of which there is 1 at least.
int benthic_cls_omap_set(void* context, const benthic_entry* entries, size_t count) {
  return guarded([&] {
    entries_t copies;
    for (size_t index = 0; index < count; index++)
      copies[string_of(entries[index].key)] = list_of(entries[index].value);
    return cls_cxx_map_set_vals(context, &copies);
  });
}

// Removes one key; a missing one is no error. -ENOENT for a missing object.
int benthic_cls_omap_remove(void* context, benthic_slice key) {
  return guarded([&] { return cls_cxx_map_remove_key(context, string_of(key)); });
}

// Removes all entries. -ENOENT for a missing object.
int benthic_cls_omap_clear(void* context) {
  return guarded([&] { return cls_cxx_map_clear(context); });
}

}  // extern "C"
