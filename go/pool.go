package benthic

// #include "bridge.h"
import "C"

import (
	"context"
	"io"
	"runtime"
)

// readBytes is how much of a large object one operation reads. The limit is 64 MiB with all that the operation
// returns.
const readBytes = 32 << 20

var errNoPool error = newError(InvalidArgument, "the pool is nil or was not opened; use Store.OpenPool")

// A Pool is an open pool, and a namespace of its objects. It must be closed; a pool that is forgotten gets
// closed at some time after its last use.
//
// An object has data, attributes, and an ordered map of keys to values, its omap. Every operation on one
// object is atomic. There is no operation on several objects.
type Pool struct {
	handle          *C.benthic_pool
	store           *Store
	name, namespace string
	cleanup         runtime.Cleanup
}

// Name returns the name of the pool.
func (p *Pool) Name() string { return p.name }

// Namespace returns the namespace of the objects; the default one is "".
func (p *Pool) Namespace() string { return p.namespace }

// Close closes the handle of the pool. Later calls with it fail with [InvalidArgument].
func (p *Pool) Close() error {
	if p == nil || p.handle == nil {
		return errNoPool
	}
	p.cleanup.Stop()
	if kind := Kind(C.benthic_pool_close(p.handle)); kind != 0 {
		return newError(kind, "the pool is closed already")
	}
	return nil
}

// ReadRange reads data from an offset. The result is shorter at the end of the object.
func (p *Pool) ReadRange(ctx context.Context, object string, offset uint64, length int) ([]byte, error) {
	var op ReadOp
	data := op.Read(offset, length)
	return readStep(ctx, p, object, &op, data)
}

// Get returns all data of one version of an object. If the object changes while a large one is read, Get
// fails with [Conflict].
func (p *Pool) Get(ctx context.Context, object string) ([]byte, error) {
	var op ReadOp
	stat, head := op.Stat(), op.Read(0, readBytes)
	reply, err := p.Read(ctx, object, &op)
	if err != nil {
		return nil, err
	}
	data := head.Of(reply)
	for size := stat.Of(reply).Size; uint64(len(data)) < size; {
		var op ReadOp
		op.IfVersion(reply.Version)
		more, err := readStep(ctx, p, object, &op, op.Read(uint64(len(data)), readBytes))
		if err != nil {
			return nil, err
		}
		data = append(data, more...)
	}
	return data, nil
}

// Stat returns the size of an object and the time of its last change, and its version.
func (p *Pool) Stat(ctx context.Context, object string) (stat Stat, version uint64, err error) {
	var op ReadOp
	step := op.Stat()
	reply, err := p.Read(ctx, object, &op)
	if err != nil {
		return Stat{}, 0, err
	}
	return step.Of(reply), reply.Version, nil
}

// WriteFull replaces an object's data durably, and returns the new version. Attributes and omap are kept.
func (p *Pool) WriteFull(ctx context.Context, object string, data []byte) (version uint64, err error) {
	return p.Write(ctx, object, new(WriteOp).WriteFull(data))
}

// Append writes data at the end of an object durably, and returns the new version.
func (p *Pool) Append(ctx context.Context, object string, data []byte) (version uint64, err error) {
	return p.Write(ctx, object, new(WriteOp).Append(data))
}

// Remove removes an object durably, with its attributes and omap.
func (p *Pool) Remove(ctx context.Context, object string) error {
	_, err := p.Write(ctx, object, new(WriteOp).Remove())
	return err
}

// Xattr returns the value of an attribute.
func (p *Pool) Xattr(ctx context.Context, object, name string) ([]byte, error) {
	var op ReadOp
	value := op.Xattr(name)
	return readStep(ctx, p, object, &op, value)
}

// Xattrs returns all attributes of an object.
func (p *Pool) Xattrs(ctx context.Context, object string) (map[string][]byte, error) {
	var op ReadOp
	values := op.Xattrs()
	return readStep(ctx, p, object, &op, values)
}

// ReaderAt reads an object's data as an [io.ReaderAt] does. It may see several versions of an object
// that changes.
func (p *Pool) ReaderAt(ctx context.Context, object string) io.ReaderAt {
	return readerAt{ctx, p, object}
}

type readerAt struct {
	ctx    context.Context
	pool   *Pool
	object string
}

func (r readerAt) ReadAt(data []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, newError(InvalidArgument, "the offset is negative")
	}
	for n < len(data) {
		length := min(len(data)-n, readBytes)
		part, err := r.pool.ReadRange(r.ctx, r.object, uint64(offset)+uint64(n), length)
		n += copy(data[n:], part)
		if err != nil {
			return n, err
		}
		if len(part) < length {
			return n, io.EOF
		}
	}
	return n, nil
}

func readStep[T any](ctx context.Context, p *Pool, object string, op *ReadOp, step Step[T]) (T, error) {
	reply, err := p.Read(ctx, object, op)
	if err != nil {
		var none T
		return none, err
	}
	return step.Of(reply), nil
}
