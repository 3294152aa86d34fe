package benthic

// #include "bridge.h"
//
// extern void benthicGoCompleted(uintptr_t context);
//
// // The context is a number, not a pointer: C keeps no pointer to Go's memory.
// static void completed(benthic_completion *completion, void *context) {
//   (void)completion;
//   benthicGoCompleted((uintptr_t)context);
// }
//
// static int32_t start_read(benthic_pool *pool, const char *object, const benthic_read_op *op, uintptr_t context,
//                           benthic_completion **completion, benthic_error **error) {
//   return benthic_read_op_start(pool, object, op, completed, (void *)context, completion, error);
// }
//
// static int32_t start_write(benthic_pool *pool, const char *object, const benthic_write_op *op, uintptr_t context,
//                            benthic_completion **completion, benthic_error **error) {
//   return benthic_write_op_start(pool, object, op, completed, (void *)context, completion, error);
// }
//
// static int32_t start_exec(benthic_pool *pool, const char *object, const char *class_name, const char *method,
//                           const void *input, size_t len_bytes, uintptr_t context,
//                           benthic_completion **completion, benthic_error **error) {
//   return benthic_exec_start(pool, object, class_name, method, input, len_bytes, completed, (void *)context,
//                             completion, error);
// }
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// inFlightMax is the number of operations of one store that may be in flight. The library refuses more
// of them.
const inFlightMax = 1024

// Read runs a compound read operation on an object.
func (p *Pool) Read(ctx context.Context, object string, op *ReadOp) (*Reply, error) {
	var reply *Reply
	err := p.run(ctx, object, func(_ *texts, object *C.char, started *started) error {
		built, err := op.build()
		if err != nil {
			return err
		}
		defer C.benthic_read_op_free(built)
		return call(func(failure **C.benthic_error) C.int32_t {
			return C.start_read(p.handle, object, built, started.context, &started.completion, failure)
		})
	}, func(handle *C.benthic_reply) (err error) {
		reply, err = op.decode(handle)
		return err
	})
	return reply, err
}

// Write runs a compound write operation on an object, and returns the version of the object after it.
// The operation is durable when Write returns, unless it is buffered.
func (p *Pool) Write(ctx context.Context, object string, op *WriteOp) (version uint64, err error) {
	err = p.run(ctx, object, func(_ *texts, object *C.char, started *started) error {
		built, err := op.build()
		if err != nil {
			return err
		}
		defer C.benthic_write_op_free(built)
		return call(func(failure **C.benthic_error) C.int32_t {
			return C.start_write(p.handle, object, built, started.context, &started.completion, failure)
		})
	}, func(handle *C.benthic_reply) (err error) {
		version, err = replyVersion(handle)
		return err
	})
	return version, err
}

// Exec runs a method of a class beside an object, and returns its output. If the method keeps its result
// in an attribute, as methods that write do, the output is the value of this attribute. The class is one of
// the store, or a WebAssembly class that was deployed to the pool.
func (p *Pool) Exec(ctx context.Context, object, class, method string, input []byte) (output []byte, err error) {
	err = p.run(ctx, object, func(names *texts, object *C.char, started *started) error {
		class, method := names.add("class", class), names.add("method", method)
		if names.err != nil {
			return names.err
		}
		return call(func(failure **C.benthic_error) C.int32_t {
			return C.start_exec(p.handle, object, class, method, unsafe.Pointer(unsafe.SliceData(input[:])),
				C.size_t(len(input)), started.context, &started.completion,
				failure)
		})
	}, func(handle *C.benthic_reply) (err error) {
		output, err = replyData(handle, 0)
		return err
	})
	return output, err
}

// started is where the library stores the completion of an operation, and the context of its callback.
type started struct {
	context    C.uintptr_t
	completion *C.benthic_completion
}

// run starts an operation and waits for it. It always waits for the library's callback, also after the
// context ended, so that no call leaves anything behind.
func (p *Pool) run(ctx context.Context, object string,
	start func(names *texts, object *C.char, started *started) error,
	decode func(reply *C.benthic_reply) error,
) error {
	defer runtime.KeepAlive(p)
	if p == nil || p.store == nil {
		return errNoPool
	}
	select {
	case <-ctx.Done():
		return contextEnded(ctx, newError(Unavailable, "the context ended before the operation began"))
	default:
	}
	select {
	case p.store.inFlight <- struct{}{}:
		defer func() { <-p.store.inFlight }()
	case <-ctx.Done():
		return contextEnded(ctx, newError(Unavailable, "the context ended before the operation began"))
	}
	var names texts
	defer names.free()
	name := names.add("object", object)
	if names.err != nil {
		return names.err
	}
	done := make(chan struct{})
	handle := cgo.NewHandle(done)
	defer handle.Delete()
	started := started{context: C.uintptr_t(handle)}
	if err := start(&names, name, &started); err != nil {
		return err
	}
	defer C.benthic_completion_free(started.completion)
	ended := false
	select {
	case <-done:
	case <-ctx.Done():
		ended = true
		C.benthic_completion_cancel(started.completion, nil)
		<-done
	}
	var reply *C.benthic_reply
	err := call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_completion_result(started.completion, &reply, failure)
	})
	if err != nil {
		if kind := err.(*Error).Kind; ended && (kind == Unavailable || kind == OutcomeUnknown) {
			return contextEnded(ctx, err)
		}
		return err
	}
	defer C.benthic_reply_free(reply)
	return decode(reply)
}

// blocking runs a call that the library cannot end early. If the context ends first, the call goes on in
// a goroutine, and discard gets its result.
func blocking[T any](ctx context.Context, changes bool, run func() (T, error), discard func(T)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, contextEnded(ctx, newError(Unavailable, "the context ended before the operation began"))
	}
	if ctx.Done() == nil {
		return run()
	}
	type outcome struct {
		result T
		err    error
	}
	outcomes := make(chan outcome)
	go func() {
		result, err := run()
		select {
		case outcomes <- outcome{result, err}:
		case <-ctx.Done():
			if err == nil && discard != nil {
				discard(result)
			}
		}
	}()
	select {
	case got := <-outcomes:
		return got.result, got.err
	case <-ctx.Done():
	}
	if changes {
		return none, contextEnded(ctx, newError(OutcomeUnknown, "the context ended before the operation was complete"))
	}
	return none, contextEnded(ctx, newError(Unavailable, "the context ended before the operation was complete"))
}

// contextEnded makes an error match the context's error too, and the cause that its owner gave.
func contextEnded(ctx context.Context, err error) error {
	failure := *err.(*Error)
	failure.causes = []error{ctx.Err()}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		failure.causes = append(failure.causes, cause)
	}
	return &failure
}
