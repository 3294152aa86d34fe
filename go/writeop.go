package benthic

// #include "bridge.h"
import "C"

import "unsafe"

// A Comparison is how a guard compares the value in the object with the given one: stored OP given,
// bytewise.
type Comparison int32

// Comparisons for IfXattr.
const (
	Equal          Comparison = C.BENTHIC_COMPARISON_EQUAL
	NotEqual       Comparison = C.BENTHIC_COMPARISON_NOT_EQUAL
	Greater        Comparison = C.BENTHIC_COMPARISON_GREATER
	GreaterOrEqual Comparison = C.BENTHIC_COMPARISON_GREATER_OR_EQUAL
	Less           Comparison = C.BENTHIC_COMPARISON_LESS
	LessOrEqual    Comparison = C.BENTHIC_COMPARISON_LESS_OR_EQUAL
)

// A WriteOp is a compound write operation: all guards hold and all steps happen, or nothing changes.
// [Pool.Write] runs it. The zero value has no steps. An operation may run many times, also at the same
// time, but its guards and steps must be complete before. It keeps the given slices, so their bytes must
// not change until the last run.
//
//	op := new(benthic.WriteOp).IfVersion(version).WriteFull(data).SetXattr("owner", []byte("ada"))
//	version, err := pool.Write(ctx, "reef.txt", op)
type WriteOp struct {
	guards, steps []addToWrite
}

// addToWrite adds a guard or a step to an operation of the library, which copies its arguments.
type addToWrite func(op *C.benthic_write_op, names *texts, failure **C.benthic_error) C.int32_t

// IfExists adds a guard: the object exists. Otherwise the operation fails with [NotFound].
func (op *WriteOp) IfExists() *WriteOp {
	return op.guard(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_assert_exists(op, failure)
	})
}

// IfVersion adds a guard: the object has this version. Otherwise the operation fails with [Conflict].
func (op *WriteOp) IfVersion(version uint64) *WriteOp {
	return op.guard(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_assert_version(op, C.uint64_t(version), failure)
	})
}

// IfXattr adds a guard on the value of an attribute: value in the object OP given value, bytewise. A missing
// attribute compares as an empty value. Otherwise the operation fails with [Conflict].
func (op *WriteOp) IfXattr(name string, comparison Comparison, value []byte) *WriteOp {
	return op.guard(func(op *C.benthic_write_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_compare_xattr(op, names.add("name", name), C.int32_t(comparison),
			unsafe.Pointer(unsafe.SliceData(value[:])), C.size_t(len(value)), failure)
	})
}

// IfOmap adds a guard: the value of an omap key equals the given one. A missing key counts as an empty
// value. Otherwise the operation fails with [Conflict].
func (op *WriteOp) IfOmap(key string, value []byte) *WriteOp {
	return op.guard(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_compare_omap(op, unsafe.Pointer(unsafe.StringData(key)), C.size_t(len(key)),
			unsafe.Pointer(unsafe.SliceData(value[:])), C.size_t(len(value)), failure)
	})
}

// Buffered lets the engine acknowledge the operation before it is durable. A later [Store.Flush] or durable
// operation makes it durable. On Ceph every write is durable.
func (op *WriteOp) Buffered() *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_set_buffered(op, failure)
	})
}

// Create adds a step: creates the object if it is missing. If exclusive, an existing object fails with
// [AlreadyExists].
func (op *WriteOp) Create(exclusive bool) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_create(op, C.bool(exclusive), failure)
	})
}

// WriteAt adds a step: writes data at an offset.
func (op *WriteOp) WriteAt(offset uint64, data []byte) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_write(op, C.uint64_t(offset), unsafe.Pointer(unsafe.SliceData(data[:])),
			C.size_t(len(data)), failure)
	})
}

// WriteFull adds a step: replaces all data. Attributes and omap are kept.
func (op *WriteOp) WriteFull(data []byte) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_write_full(op, unsafe.Pointer(unsafe.SliceData(data[:])), C.size_t(len(data)),
			failure)
	})
}

// Append adds a step: writes data at the end of the object.
func (op *WriteOp) Append(data []byte) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_append(op, unsafe.Pointer(unsafe.SliceData(data[:])), C.size_t(len(data)), failure)
	})
}

// Truncate adds a step: cuts the data, or extends it with zeros. On a missing object the step does nothing.
func (op *WriteOp) Truncate(size uint64) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_truncate(op, C.uint64_t(size), failure)
	})
}

// Zero adds a step: makes a range of at least one byte read as zeros. If the range reaches the end of the
// object, the object is truncated to the offset.
func (op *WriteOp) Zero(offset, length uint64) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_zero(op, C.uint64_t(offset), C.uint64_t(length), failure)
	})
}

// Remove adds a step: removes the object. A missing object fails with [NotFound].
func (op *WriteOp) Remove() *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_remove(op, failure)
	})
}

// SetXattr adds a step: sets an attribute.
func (op *WriteOp) SetXattr(name string, value []byte) *WriteOp {
	return op.step(func(op *C.benthic_write_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_set_xattr(op, names.add("name", name),
			unsafe.Pointer(unsafe.SliceData(value[:])), C.size_t(len(value)), failure)
	})
}

// RemoveXattr adds a step: removes an attribute. A missing attribute is not an error.
func (op *WriteOp) RemoveXattr(name string) *WriteOp {
	return op.step(func(op *C.benthic_write_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_remove_xattr(op, names.add("name", name), failure)
	})
}

// OmapSet adds a step: sets an omap entry. Entries that are added one after the other are one step.
func (op *WriteOp) OmapSet(key string, value []byte) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_omap_set(op, unsafe.Pointer(unsafe.StringData(key)), C.size_t(len(key)),
			unsafe.Pointer(unsafe.SliceData(value[:])), C.size_t(len(value)), failure)
	})
}

// OmapRemove adds a step: removes an omap key. A missing key is not an error. Keys that are added one after
// the other are one step.
func (op *WriteOp) OmapRemove(key string) *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_omap_remove(op, unsafe.Pointer(unsafe.StringData(key)), C.size_t(len(key)), failure)
	})
}

// OmapClear adds a step: removes all omap entries.
func (op *WriteOp) OmapClear() *WriteOp {
	return op.step(func(op *C.benthic_write_op, _ *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_omap_clear(op, failure)
	})
}

// Exec adds a step: runs a method of one of the store's classes. An operation has at most one such step, and
// it must be the first one.
func (op *WriteOp) Exec(class, method string, input []byte) *WriteOp {
	return op.step(func(op *C.benthic_write_op, names *texts, failure **C.benthic_error) C.int32_t {
		return C.benthic_write_op_exec(op, names.add("class", class), names.add("method", method),
			unsafe.Pointer(unsafe.SliceData(input[:])), C.size_t(len(input)), failure)
	})
}

func (op *WriteOp) guard(add addToWrite) *WriteOp {
	op.guards = append(op.guards, add)
	return op
}

func (op *WriteOp) step(add addToWrite) *WriteOp {
	op.steps = append(op.steps, add)
	return op
}

// build makes the library's operation, which the caller frees.
func (op *WriteOp) build() (built *C.benthic_write_op, err error) {
	if op == nil {
		return nil, newError(InvalidArgument, "the operation is nil")
	}
	err = call(func(failure **C.benthic_error) C.int32_t { return C.benthic_write_op_new(&built, failure) })
	if err != nil {
		return nil, err
	}
	for _, parts := range [][]addToWrite{op.guards, op.steps} {
		for _, add := range parts {
			err = callNamed(func(names *texts, failure **C.benthic_error) C.int32_t { return add(built, names, failure) })
			if err != nil {
				C.benthic_write_op_free(built)
				return nil, err
			}
		}
	}
	return built, nil
}
