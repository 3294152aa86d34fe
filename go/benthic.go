// Package benthic is a client of Benthic: programmable object storage, in a directory, in memory and on
// Ceph clusters.
//
// [Open] opens a store, and [Store.OpenPool] a pool of it. A [Pool] reads and writes objects. [Pool.Exec]
// runs a method of a class beside an object, so that only the result travels. A [ReadOp] or a [WriteOp]
// is a compound operation: all its guards and steps happen together, or not at all.
//
// # Contexts
//
// A context that ends ends the operation. The error then matches the context's error, and its kind says
// what happened: [Unavailable] if nothing changed, [OutcomeUnknown] if a write may or may not have
// happened. Calls on whole stores and pools, such as [Open] and [Pool.List], return early too, but they go
// on in the background until the engine's own time limits end them.
//
// # Errors
//
// Every failed call returns an [*Error], which matches its [Kind]:
//
//	if errors.Is(err, benthic.NotFound) { … }
//
// # Goroutines
//
// All values may be used by many goroutines, except operations that are still being built. Each store
// runs at most 1,024 operations at once; more of them wait for their turn.
//
// # Linking
//
// The package uses cgo and the C library libbenthic, which must have the version [LibraryVersionMin] or
// a newer one. docs/guide/go.md says how to build it.
package benthic

// #cgo LDFLAGS: -lbenthic
// #include "bridge.h"
import "C"

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// LibraryVersionMin is the oldest version of the C library that this package works with.
const LibraryVersionMin = "0.1.0"

// LibraryVersion returns the version of the C library.
func LibraryVersion() string {
	return C.GoString(C.benthic_version())
}

var checkLibrary = sync.OnceValue(func() error {
	return checkVersion(LibraryVersion())
})

func checkVersion(version string) error {
	found, ok := parseVersion(version)
	oldest, _ := parseVersion(LibraryVersionMin)
	if !ok {
		return newError(Unsupported, fmt.Sprintf("the C library has no version that can be read version=%q", version))
	}
	for at, number := range found {
		if number > oldest[at] {
			return nil
		}
		if number < oldest[at] {
			message := fmt.Sprintf("the C library libbenthic is too old; install a newer one version=%s version_min=%s",
				version, LibraryVersionMin)
			return newError(Unsupported, message)
		}
	}
	return nil
}

// parseVersion reads the first three numbers of a version such as "0.1.0+12.gabcdef".
func parseVersion(version string) (numbers [3]int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 3 {
		return numbers, false
	}
	if end := strings.IndexFunc(parts[2], func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
		parts[2] = parts[2][:end]
	}
	for at, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil || number < 0 {
			return numbers, false
		}
		numbers[at] = number
	}
	return numbers, true
}

// call runs a function of the library, and returns its failure.
func call(run func(failure **C.benthic_error) C.int32_t) error {
	var failure *C.benthic_error
	kind := Kind(run(&failure))
	if kind == 0 {
		return nil
	}
	message := ""
	if failure != nil {
		message = C.GoString(C.benthic_error_message(failure))
		C.benthic_error_free(failure)
	}
	return newError(kind, message)
}

// callNamed is call for a function that gets texts or sizes.
func callNamed(run func(names *texts, failure **C.benthic_error) C.int32_t) error {
	var names texts
	defer names.free()
	err := call(func(failure **C.benthic_error) C.int32_t { return run(&names, failure) })
	if names.err != nil {
		return names.err
	}
	return err
}

// texts are texts in C's memory, for one call.
type texts struct {
	copies []*C.char
	err    error
}

// add copies a text. A text with a NUL would end there for C, and name another item; it becomes NULL,
// which the library refuses.
func (t *texts) add(name, text string) *C.char {
	if at := strings.IndexByte(text, 0); at >= 0 {
		t.fail(fmt.Sprintf("a text contains a NUL argument=%s at=%d", name, at))
		return nil
	}
	copied := C.CString(text)
	t.copies = append(t.copies, copied)
	return copied
}

// size converts a number that must not be negative. A negative one becomes one that the library refuses.
func (t *texts) size(name string, size int) C.size_t {
	if size < 0 {
		t.fail(fmt.Sprintf("a number is negative %s=%d", name, size))
	}
	return C.size_t(size)
}

func (t *texts) fail(message string) {
	if t.err == nil {
		t.err = newError(InvalidArgument, message)
	}
}

func (t *texts) free() {
	for _, text := range t.copies {
		C.free(unsafe.Pointer(text))
	}
}

// Calls pass bytes as `unsafe.Pointer(unsafe.SliceData(data[:]))`, and keys with `unsafe.StringData`, in the
// argument itself. Only there cgo sees that C gets these bytes alone. Otherwise it would check all of the
// value that the bytes are a part of, and refuse bytes beside a pointer.
