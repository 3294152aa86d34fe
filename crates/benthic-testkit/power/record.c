// A library for LD_PRELOAD between a process and its files. It records every change below one directory in order, and
// fails the calls that a test selects. crates/benthic-testkit/src/power loads it.
//
//   BENTHIC_POWER_DIR     the directory, absolute and without symbolic links
//   BENTHIC_POWER_RECORD  the record; src/power/record.rs reads it
//   BENTHIC_POWER_MARKS   a file; each write to it becomes a mark in the record
//   BENTHIC_POWER_FAULT   KIND:NTH:ERRNO, e.g. `w:7:28`; see `fault`
//
// A lock covers each call together with its line in the record, so that the lines have the order of the effects. A sync
// has two lines and does nothing else, because the disk is simulated from the record. The library aborts the process at
// a call that it cannot record.

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    OPEN = 1, CLOSE, WRITE, SIZE, ALLOCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC_BEGIN, SYNC_END, MARK, DUP, FAULT
};
enum { CREATED = 1, TRUNCATED = 2 };
enum { FDS = 65536, NONE = 0, STORE = 1, MARKS = 2 };

struct line {
    uint32_t kind, thread;
    int32_t fd;
    uint32_t path_len, path2_len, data_len;
    int64_t a, b;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char of[FDS];        // The kind of each open file: NONE, STORE or MARKS.
static char full[FDS];      // Files whose next write fails, after a short write.
static const char *dir, *marks;
static size_t dir_len;
static int record = -1;
static char fault_kind;
static long fault_nth;
static int fault_errno;
static int64_t syncs;

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })
#define RAW(...) REAL(syscall)(__VA_ARGS__)

static void abort_at(const char *what) {
    dprintf(2, "power: the recorder does not support %s\n", what);
    abort();
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("BENTHIC_POWER_RECORD"), *fault = getenv("BENTHIC_POWER_FAULT");
    dir = getenv("BENTHIC_POWER_DIR");
    marks = getenv("BENTHIC_POWER_MARKS");
    if (!path || !dir || !marks) return;
    dir_len = strlen(dir);
    record = RAW(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (record < 0) abort_at("this path of the record");
    if (fault && sscanf(fault, "%c:%ld:%d", &fault_kind, &fault_nth, &fault_errno) != 3) abort_at("a malformed fault");
}

static void put(const void *bytes, size_t len) {
    for (const char *at = bytes; len;) {
        ssize_t n = REAL(write)(record, at, len);
        if (n <= 0) abort_at("a failed write of the record");
        at += n;
        len -= n;
    }
}

static void add_line(enum kind kind, int fd, int64_t a, int64_t b, const char *path, const char *path2,
                     const void *data, size_t data_len) {
    struct line line = { kind, (uint32_t)RAW(SYS_gettid), fd, path ? strlen(path) : 0, path2 ? strlen(path2) : 0,
                         data_len, a, b };
    put(&line, sizeof line);
    put(path, line.path_len);
    put(path2, line.path2_len);
    put(data, data_len);
}

static int store(int fd) { return fd >= 0 && fd < FDS && of[fd] == STORE; }

static int below(const char *path) {
    return dir && !strncmp(path, dir, dir_len) && (path[dir_len] == '/' || !path[dir_len]);
}

// Resolves a path to an absolute one. Returns 0 if it is not below the directory.
static int resolve(int at, const char *path, char *out) {
    if (record < 0 || !path) return 0;
    if (path[0] == '/' || at == AT_FDCWD) {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t len = readlink(link, out, PATH_MAX - 1);
        if (len < 0) return 0;
        snprintf(out + len, PATH_MAX - len, "/%s", path);
    }
    if (!below(out)) return 0;
    if (strstr(out, "/../") || strstr(out, "/./")) abort_at("a path with dots");
    size_t len = strlen(out);
    while (len > 1 && out[len - 1] == '/') out[--len] = 0;
    return 1;
}

// Returns whether the call must fail: the NTH call of the fault's KIND. Kinds: `w` write, `W` write of only the first
// half (the file's next write fails), `s` sync of a file, `d` sync of a directory, `r` read, `o` creation of a file or
// directory, `n` rename, `u` unlink, `t` truncate, `a` allocate.
static int fault(char kind, int fd, const char *path) {
    if (kind != fault_kind || fault_nth <= 0 || --fault_nth) return 0;
    add_line(FAULT, fd, kind, fault_errno, path, 0, 0, 0);
    errno = fault_errno;
    return 1;
}

#define LOCK pthread_mutex_lock(&lock)
#define RETURN(value) do { int e_ = errno; pthread_mutex_unlock(&lock); errno = e_; return value; } while (0)

static int do_open(int at, const char *path, int flags, mode_t mode) {
    char name[PATH_MAX];
    if (record >= 0 && path && !strcmp(path, marks)) {
        int fd = REAL(openat)(at, path, flags, mode);
        if (fd >= 0 && fd < FDS) of[fd] = MARKS;
        return fd;
    }
    if (!resolve(at, path, name)) return REAL(openat)(at, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE) abort_at("a file without a name");
    LOCK;
    struct stat old;
    int is_new = stat(name, &old) != 0;
    if ((flags & O_CREAT) && is_new && fault('o', -1, name)) RETURN(-1);
    int fd = REAL(openat)(at, path, flags, mode);
    if (fd >= FDS) abort_at("so many open files");
    if (fd >= 0) {
        of[fd] = STORE;
        full[fd] = 0;
        add_line(OPEN, fd, (is_new ? CREATED : 0) | (flags & O_TRUNC ? TRUNCATED : 0), 0, name, 0, 0, 0);
    }
    RETURN(fd);
}

#define MODE(last) ({ mode_t mode_ = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, last); \
    mode_ = va_arg(list, int); va_end(list); } mode_; })
int open(const char *path, int flags, ...) { return do_open(AT_FDCWD, path, flags, MODE(flags)); }
int open64(const char *path, int flags, ...) { return do_open(AT_FDCWD, path, flags, MODE(flags)); }
int openat(int at, const char *path, int flags, ...) { return do_open(at, path, flags, MODE(flags)); }
int openat64(int at, const char *path, int flags, ...) { return do_open(at, path, flags, MODE(flags)); }
int creat(const char *path, mode_t mode) { return do_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int close(int fd) {
    if (fd < 0 || fd >= FDS || !of[fd]) return REAL(close)(fd);
    LOCK;
    if (of[fd] == STORE) add_line(CLOSE, fd, 0, 0, 0, 0, 0, 0);
    of[fd] = NONE;
    RETURN(REAL(close)(fd));
}

// closedir() closes the file of the directory without a call of close().
int closedir(DIR *stream) {
    int fd = dirfd(stream);
    if (!store(fd)) return REAL(closedir)(stream);
    LOCK;
    add_line(CLOSE, fd, 0, 0, 0, 0, 0, 0);
    of[fd] = NONE;
    RETURN(REAL(closedir)(stream));
}

static int do_dup(int fd, int twin) {
    if (twin >= 0 && twin < FDS && fd >= 0 && fd < FDS && of[fd]) {
        of[twin] = of[fd];
        full[twin] = 0;
        if (of[fd] == STORE) add_line(DUP, fd, twin, 0, 0, 0, 0, 0);
    }
    return twin;
}
int dup(int fd) { LOCK; RETURN(do_dup(fd, REAL(dup)(fd))); }
int dup2(int fd, int to) { if (store(fd) || store(to)) abort_at("dup2"); return REAL(dup2)(fd, to); }
int dup3(int fd, int to, int flags) { if (store(fd) || store(to)) abort_at("dup3"); return REAL(dup3)(fd, to, flags); }
int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) return REAL(fcntl)(fd, command, argument);
    LOCK;
    RETURN(do_dup(fd, REAL(fcntl)(fd, command, argument)));
}
int fcntl64(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return fcntl(fd, command, argument);
}

// Writes at an offset, or at the current position (-1), and records the write.
static ssize_t do_write(int fd, const void *data, size_t len, int64_t offset) {
    LOCK;
    if (full[fd]) {
        full[fd] = 0;
        errno = fault_errno;
        RETURN(-1);
    }
    if (fault('w', fd, 0)) RETURN(-1);
    if (len > 1 && fault('W', fd, 0)) {
        full[fd] = fault_errno != 0;
        len /= 2;
    }
    int64_t at = offset;
    if (offset < 0) {
        struct stat now;
        int flags = REAL(fcntl)(fd, F_GETFL, 0L);
        at = flags & O_APPEND ? (fstat(fd, &now), now.st_size) : lseek(fd, 0, SEEK_CUR);
    }
    ssize_t n = offset < 0 ? REAL(write)(fd, data, len) : REAL(pwrite)(fd, data, len, offset);
    if (n > 0) add_line(WRITE, fd, at, 0, 0, 0, data, n);
    RETURN(n);
}

ssize_t write(int fd, const void *data, size_t len) {
    if (fd >= 0 && fd < FDS && of[fd] == MARKS) {
        LOCK;
        add_line(MARK, fd, 0, 0, 0, 0, data, len);
        RETURN((ssize_t)len);
    }
    return store(fd) ? do_write(fd, data, len, -1) : REAL(write)(fd, data, len);
}
ssize_t pwrite(int fd, const void *data, size_t len, off_t at) {
    return store(fd) ? do_write(fd, data, len, at) : REAL(pwrite)(fd, data, len, at);
}
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at) { return pwrite(fd, data, len, at); }

static ssize_t do_writev(int fd, const struct iovec *parts, int count, int64_t offset) {
    size_t len = 0;
    for (int i = 0; i < count; i++) len += parts[i].iov_len;
    char *whole = malloc(len ? len : 1), *end = whole;
    for (int i = 0; i < count; i++) end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
    ssize_t n = do_write(fd, whole, len, offset);
    int e = errno;
    free(whole);
    errno = e;
    return n;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return store(fd) ? do_writev(fd, parts, count, -1) : REAL(writev)(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return store(fd) ? do_writev(fd, parts, count, at) : REAL(pwritev)(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return pwritev(fd, parts, count, at); }
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    if (store(fd) && flags) abort_at("pwritev2 with flags");
    return store(fd) ? do_writev(fd, parts, count, at) : REAL(pwritev2)(fd, parts, count, at, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    return pwritev2(fd, parts, count, at, flags);
}

// Copies in the kernel fail as on a file system without them, so that callers fall back to writes.
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t len, unsigned flags) {
    if (store(to)) { errno = EXDEV; return -1; }
    return REAL(copy_file_range)(from, from_at, to, to_at, len, flags);
}
ssize_t sendfile(int to, int from, off_t *at, size_t len) {
    if (store(to)) { errno = EINVAL; return -1; }
    return RAW(SYS_sendfile, to, from, at, len);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t len) { return sendfile(to, from, at, len); }
ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t len, unsigned flags) {
    if (store(to)) { errno = EINVAL; return -1; }
    return RAW(SYS_splice, from, from_at, to, to_at, len, flags);
}

#define READ(call) if (store(fd)) { LOCK; int failed = fault('r', fd, 0); pthread_mutex_unlock(&lock); \
    if (failed) { errno = fault_errno; return -1; } } return call
ssize_t read(int fd, void *data, size_t len) { READ(REAL(read)(fd, data, len)); }
ssize_t pread(int fd, void *data, size_t len, off_t at) { READ(REAL(pread)(fd, data, len, at)); }
ssize_t pread64(int fd, void *data, size_t len, off64_t at) { READ(REAL(pread)(fd, data, len, at)); }
ssize_t readv(int fd, const struct iovec *parts, int count) { READ(REAL(readv)(fd, parts, count)); }

int ftruncate(int fd, off_t size) {
    if (!store(fd)) return REAL(ftruncate)(fd, size);
    LOCK;
    if (fault('t', fd, 0)) RETURN(-1);
    int outcome = REAL(ftruncate)(fd, size);
    if (!outcome) add_line(SIZE, fd, size, 0, 0, 0, 0, 0);
    RETURN(outcome);
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int truncate(const char *path, off_t size) {
    if (below(path)) abort_at("truncate by name");
    return REAL(truncate)(path, size);
}
int truncate64(const char *path, off64_t size) { return truncate(path, size); }

int fallocate(int fd, int mode, off_t at, off_t len) {
    if (!store(fd)) return REAL(fallocate)(fd, mode, at, len);
    LOCK;
    if (fault('a', fd, 0)) RETURN(-1);
    int outcome = REAL(fallocate)(fd, mode, at, len);
    if (!outcome) add_line(ALLOCATE, fd, at, len, 0, 0, &mode, sizeof mode);
    RETURN(outcome);
}
int fallocate64(int fd, int mode, off64_t at, off64_t len) { return fallocate(fd, mode, at, len); }
int posix_fallocate(int fd, off_t at, off_t len) { return fallocate(fd, 0, at, len) ? errno : 0; }
int posix_fallocate64(int fd, off64_t at, off64_t len) { return posix_fallocate(fd, at, len); }

static int do_sync(int fd) {
    struct stat what;
    LOCK;
    int64_t sync = ++syncs;
    int is_dir = !fstat(fd, &what) && S_ISDIR(what.st_mode);
    add_line(SYNC_BEGIN, fd, sync, 0, 0, 0, 0, 0);
    int failed = fault(is_dir ? 'd' : 's', fd, 0);
    pthread_mutex_unlock(&lock);
    struct timespec disk = { 0, 100000 };
    nanosleep(&disk, 0);
    LOCK;
    add_line(SYNC_END, fd, sync, failed ? fault_errno : 0, 0, 0, 0, 0);
    errno = fault_errno;
    RETURN(failed ? -1 : 0);
}
int fsync(int fd) { return store(fd) ? do_sync(fd) : REAL(fsync)(fd); }
int fdatasync(int fd) { return store(fd) ? do_sync(fd) : REAL(fdatasync)(fd); }
// sync_file_range() does not promise durability, so the record does not count it as a sync.
int sync_file_range(int fd, off64_t at, off64_t len, unsigned flags) {
    return store(fd) ? 0 : REAL(sync_file_range)(fd, at, len, flags);
}
int syncfs(int fd) { if (store(fd)) abort_at("syncfs"); return REAL(syncfs)(fd); }

static int do_rename(int at, const char *from, int to_at, const char *to) {
    char a[PATH_MAX], b[PATH_MAX];
    int in = resolve(at, from, a), out = resolve(to_at, to, b);
    if (!in && !out) return REAL(renameat)(at, from, to_at, to);
    struct stat what;
    if (in != out) abort_at("a rename into or out of the directory");
    if (!stat(a, &what) && S_ISDIR(what.st_mode)) abort_at("a rename of a directory");
    LOCK;
    if (fault('n', -1, a)) RETURN(-1);
    int outcome = REAL(renameat)(at, from, to_at, to);
    if (!outcome) add_line(RENAME, -1, 0, 0, a, b, 0, 0);
    RETURN(outcome);
}
int rename(const char *from, const char *to) { return do_rename(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int at, const char *from, int to_at, const char *to) { return do_rename(at, from, to_at, to); }
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) {
    char path[PATH_MAX];
    if (flags && (resolve(at, from, path) || resolve(to_at, to, path))) abort_at("renameat2 with flags");
    return flags ? RAW(SYS_renameat2, at, from, to_at, to, flags) : do_rename(at, from, to_at, to);
}

static int do_unlink(int at, const char *path, int flags) {
    char name[PATH_MAX];
    if (!resolve(at, path, name)) return REAL(unlinkat)(at, path, flags);
    LOCK;
    if (fault('u', -1, name)) RETURN(-1);
    int outcome = REAL(unlinkat)(at, path, flags);
    if (!outcome) add_line(flags & AT_REMOVEDIR ? RMDIR : UNLINK, -1, 0, 0, name, 0, 0, 0);
    RETURN(outcome);
}
int unlink(const char *path) { return do_unlink(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return do_unlink(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int at, const char *path, int flags) { return do_unlink(at, path, flags); }
int remove(const char *path) { if (below(path)) abort_at("remove"); return REAL(remove)(path); }

static int do_mkdir(int at, const char *path, mode_t mode) {
    char name[PATH_MAX];
    if (!resolve(at, path, name)) return REAL(mkdirat)(at, path, mode);
    LOCK;
    if (fault('o', -1, name)) RETURN(-1);
    int outcome = REAL(mkdirat)(at, path, mode);
    if (!outcome) add_line(MKDIR, -1, 0, 0, name, 0, 0, 0);
    RETURN(outcome);
}
int mkdir(const char *path, mode_t mode) { return do_mkdir(AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return do_mkdir(at, path, mode); }

int linkat(int at, const char *from, int to_at, const char *to, int flags) {
    char name[PATH_MAX];
    if (resolve(to_at, to, name)) abort_at("a second link");
    return REAL(linkat)(at, from, to_at, to, flags);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int symlinkat(const char *target, int at, const char *path) {
    char name[PATH_MAX];
    if (resolve(at, path, name)) abort_at("a symbolic link");
    return REAL(symlinkat)(target, at, path);
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

void *mmap(void *address, size_t len, int protection, int flags, int fd, off_t at) {
    if (store(fd) && (flags & MAP_SHARED) && (protection & PROT_WRITE)) abort_at("a writable map of a file");
    return (void *)RAW(SYS_mmap, address, len, protection, flags, fd, at);
}
void *mmap64(void *address, size_t len, int protection, int flags, int fd, off64_t at) {
    return mmap(address, len, protection, flags, fd, at);
}

// Some libraries make raw system calls, because an older C library may lack a wrapper.
long syscall(long number, ...) {
    long v[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) v[i] = va_arg(list, long);
    va_end(list);
    if (record >= 0) {
        switch (number) {
        case SYS_renameat2: return renameat2(v[0], (char *)v[1], v[2], (char *)v[3], v[4]);
        case SYS_copy_file_range: return copy_file_range(v[0], (off64_t *)v[1], v[2], (off64_t *)v[3], v[4], v[5]);
        case SYS_fallocate: return fallocate(v[0], v[1], v[2], v[3]);
        case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_pwritev2: case SYS_ftruncate:
        case SYS_fsync: case SYS_fdatasync:
            if (store(v[0])) abort_at("a raw system call");
            break;
        case SYS_io_uring_setup: abort_at("an io_uring");
        }
    }
    return RAW(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}
