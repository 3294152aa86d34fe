package benthic

// #include "bridge.h"
import "C"

import (
	"time"
	"unsafe"
)

// A ReadOp is a compound read operation: guards and steps that all see one state of the object, in one
// round trip. [Pool.Read] runs it, and fails at the first guard or step that fails. The zero value has no
// steps. An operation may run many times, also at the same time, but its guards and steps must be complete
// before.
//
//	var op benthic.ReadOp
//	stat, owner := op.Stat(), op.Xattr("owner")
//	reply, err := pool.Read(ctx, "reef.txt", &op)
//	…
//	fmt.Println(stat.Of(reply).Size, owner.Of(reply))
type ReadOp struct {
	guards, steps []addToRead
	decoders      []func(reply *C.benthic_reply, step C.size_t) (any, error)
}

// addToRead adds a guard or a step to an operation of the library, which copies its arguments.
type addToRead func(op *C.benthic_read_op, names *texts, failure **C.benthic_error) C.int32_t

// A Step is a step of a [ReadOp] that returns a T.
type Step[T any] struct {
	op *ReadOp
	at int
}

// A Reply is the result of a [ReadOp].
type Reply struct {
	// Version is the version of the object that was read.
	Version uint64
	op      *ReadOp
	outputs []any
}

// A Stat is the size of an object, and the time of its last change.
type Stat struct {
	Size     uint64
	Modified time.Time
}

// An Entry is an entry of an object's omap. Keys are any bytes.
type Entry struct {
	Key   string
	Value []byte
}

// An OmapPage is a page of an object's omap.
type OmapPage struct {
	Entries []Entry
	// More is true if more entries follow; the next page is the one after the last key.
	More bool
}

// Of returns the step's output. It panics if the reply is that of another operation.
func (s Step[T]) Of(reply *Reply) T {
	if s.op == nil || reply == nil || reply.op != s.op || s.at >= len(reply.outputs) {
		panic("benthic: the reply has no output of this step; it is the reply to another operation")
	}
	return reply.outputs[s.at].(T)
}

// IfExists adds a guard: the object exists. Otherwise the operation fails with [NotFound].
func (op *ReadOp) IfExists() *ReadOp {
	return op.guard(func(op *C.benthic_read_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_assert_exists(op, failure)
	})
}

// IfVersion adds a guard: the object has this version. Otherwise the operation fails with [Conflict].
func (op *ReadOp) IfVersion(version uint64) *ReadOp {
	return op.guard(func(op *C.benthic_read_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_assert_version(op, C.uint64_t(version), failure)
	})
}

// IfXattr adds a guard on the value of an attribute: value in the object OP given value, bytewise. A missing
// attribute compares as an empty value. Otherwise the operation fails with [Conflict].
func (op *ReadOp) IfXattr(name string, comparison Comparison, value []byte) *ReadOp {
	return op.guard(func(op *C.benthic_read_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_compare_xattr(op, names.add("name", name), C.int32_t(comparison),
			unsafe.Pointer(unsafe.SliceData(value[:])), C.size_t(len(value)), failure)
	})
}

// IfOmap adds a guard: the value of an omap key equals the given one. A missing key counts as an empty
// value. Otherwise the operation fails with [Conflict].
func (op *ReadOp) IfOmap(key string, value []byte) *ReadOp {
	return op.guard(func(op *C.benthic_read_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_compare_omap(op, unsafe.Pointer(unsafe.StringData(key)), C.size_t(len(key)),
			unsafe.Pointer(unsafe.SliceData(value[:])), C.size_t(len(value)), failure)
	})
}

// Read adds a step: data from an offset. The output is short at the end of the object.
func (op *ReadOp) Read(offset uint64, length int) Step[[]byte] {
	return addStep(op, replyData, func(op *C.benthic_read_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_read(op, C.uint64_t(offset), names.size("length", length), failure)
	})
}

// Stat adds a step: the size of the object, and the time of its last change.
func (op *ReadOp) Stat() Step[Stat] {
	return addStep(op, replyStat, func(op *C.benthic_read_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_stat(op, failure)
	})
}

// Xattr adds a step: the value of an attribute. A missing attribute fails with [NotFound].
func (op *ReadOp) Xattr(name string) Step[[]byte] {
	return addStep(op, replyData, func(op *C.benthic_read_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_get_xattr(op, names.add("name", name), failure)
	})
}

// Xattrs adds a step: all attributes.
func (op *ReadOp) Xattrs() Step[map[string][]byte] {
	return addStep(op, replyXattrs, func(op *C.benthic_read_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_list_xattrs(op, failure)
	})
}

// OmapGet adds a step: the value of an omap key. The output is nil if the key is missing, and not nil if
// the value is empty.
func (op *ReadOp) OmapGet(key string) Step[[]byte] {
	return addStep(op, replyOmapValue, func(op *C.benthic_read_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_omap_get(op, unsafe.Pointer(unsafe.StringData(key)), C.size_t(len(key)), failure)
	})
}

// OmapRange adds a step: a page of omap entries in the bytewise order of keys, only of keys after `after`
// and with `prefix`. An `after` or `prefix` that is empty selects all. A page has at most entriesMax
// entries, and no more than the limits of the engine.
func (op *ReadOp) OmapRange(after, prefix string, entriesMax int) Step[OmapPage] {
	return addStep(op, replyEntries, func(op *C.benthic_read_op, names *texts, failure **C.benthic_error) C.int32_t {
		entriesMax := names.size("entries_max", entriesMax)
		return C.benthic_read_op_omap_range(op, unsafe.Pointer(unsafe.StringData(after)), C.size_t(len(after)),
			unsafe.Pointer(unsafe.StringData(prefix)), C.size_t(len(prefix)), entriesMax, failure)
	})
}

// Exec adds a step: the output of a method of one of the store's classes that does not write.
func (op *ReadOp) Exec(class, method string, input []byte) Step[[]byte] {
	return addStep(op, replyData, func(op *C.benthic_read_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_read_op_exec(op, names.add("class", class), names.add("method", method),
			unsafe.Pointer(unsafe.SliceData(input[:])), C.size_t(len(input)), failure)
	})
}

func (op *ReadOp) guard(add addToRead) *ReadOp {
	op.guards = append(op.guards, add)
	return op
}

func addStep[T any](op *ReadOp, decode func(*C.benthic_reply, C.size_t) (T, error), add addToRead) Step[T] {
	op.steps = append(op.steps, add)
	op.decoders = append(op.decoders, func(reply *C.benthic_reply, step C.size_t) (any, error) {
		return decode(reply, step)
	})
	return Step[T]{op, len(op.steps) - 1}
}

// build makes the library's operation, which the caller frees.
func (op *ReadOp) build() (built *C.benthic_read_op, err error) {
	if op == nil {
		return nil, newError(InvalidArgument, "the operation is nil")
	}
	err = call(func(failure **C.benthic_error) C.int32_t { return C.benthic_read_op_new(&built, failure) })
	if err != nil {
		return nil, err
	}
	for _, parts := range [][]addToRead{op.guards, op.steps} {
		for _, add := range parts {
			err = callNamed(func(names *texts, failure **C.benthic_error) C.int32_t { return add(built, names, failure) })
			if err != nil {
				C.benthic_read_op_free(built)
				return nil, err
			}
		}
	}
	return built, nil
}

func (op *ReadOp) decode(handle *C.benthic_reply) (*Reply, error) {
	version, err := replyVersion(handle)
	if err != nil {
		return nil, err
	}
	reply := &Reply{Version: version, op: op}
	for at, decode := range op.decoders {
		output, err := decode(handle, C.size_t(at))
		if err != nil {
			return nil, err
		}
		reply.outputs = append(reply.outputs, output)
	}
	return reply, nil
}
