package benthic

// #include "bridge.h"
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
)

var errNoStore error = newError(InvalidArgument, "the store is nil or was not opened; use Open")

// A Store is an open store. It must be closed; a store that is forgotten gets closed at some time after
// the last use of it and its pools.
type Store struct {
	handle   *C.benthic_store
	inFlight chan struct{}
	cleanup  runtime.Cleanup
}

// A Class is a store's description of a class.
type Class struct {
	Name    string   `json:"class"`
	Version uint32   `json:"version"`
	Build   string   `json:"build"`
	Summary string   `json:"summary"`
	Methods []Method `json:"methods"`
}

// A Method is a store's description of a method of a class.
type Method struct {
	Name   string `json:"method"`
	Reads  bool   `json:"reads"`
	Writes bool   `json:"writes"`
	// ResultXattr is the attribute that holds the result of a method that writes; empty if there is none.
	ResultXattr string `json:"result_xattr"`
	Summary     string `json:"summary"`
	Input       string `json:"input"`
	Output      string `json:"output"`
}

// Open opens a store: "file:DIR", "mem:", or "ceph:" with options, such as "ceph:?conf=FILE&id=client.x".
// Any number of processes can open the same directory.
func Open(ctx context.Context, uri string) (*Store, error) {
	return open(ctx, uri, false)
}

// OpenOrCreate opens a store, and creates one in a directory that has none.
func OpenOrCreate(ctx context.Context, uri string) (*Store, error) {
	return open(ctx, uri, true)
}

func open(ctx context.Context, uri string, create bool) (*Store, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	return blocking(ctx, create, func() (*Store, error) {
		var names texts
		defer names.free()
		uri := names.add("uri", uri)
		if names.err != nil {
			return nil, names.err
		}
		store := &Store{inFlight: make(chan struct{}, inFlightMax)}
		err := call(func(failure **C.benthic_error) C.int32_t {
			return C.benthic_store_open(uri, C.bool(create), &store.handle, failure)
		})
		if err != nil {
			return nil, err
		}
		store.cleanup = runtime.AddCleanup(store, func(handle *C.benthic_store) {
			C.benthic_store_close(handle, nil)
		}, store.handle)
		return store, nil
	}, func(store *Store) { _ = store.Close() })
}

// Close closes the store. Afterwards all acknowledged writes are on disk, and calls with the store and its
// pools fail with [InvalidArgument]. Operations in flight still become complete.
func (s *Store) Close() error {
	if s == nil || s.handle == nil {
		return errNoStore
	}
	s.cleanup.Stop()
	return call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_store_close(s.handle, failure)
	})
}

// Flush waits until every write that was acknowledged before is durable. Only buffered writes need it.
func (s *Store) Flush(ctx context.Context) error {
	return s.do(ctx, false, func(_ *C.char, failure **C.benthic_error) C.int32_t {
		return C.benthic_store_flush(s.handle, failure)
	}, "")
}

// Classes describes the classes of the store.
func (s *Store) Classes(ctx context.Context) ([]Class, error) {
	return ask(ctx, s, func() ([]Class, error) {
		var reply *C.benthic_reply
		err := call(func(failure **C.benthic_error) C.int32_t {
			return C.benthic_store_classes(s.handle, &reply, failure)
		})
		if err != nil {
			return nil, err
		}
		defer C.benthic_reply_free(reply)
		text, err := replyData(reply, 0)
		if err != nil {
			return nil, err
		}
		var classes []Class
		if err := json.Unmarshal(text, &classes); err != nil {
			return nil, newError(Internal, fmt.Sprintf("the description of the classes cannot be read error=%q", err))
		}
		return classes, nil
	}, nil)
}

// CreatePool creates a pool.
func (s *Store) CreatePool(ctx context.Context, name string) error {
	return s.do(ctx, true, func(name *C.char, failure **C.benthic_error) C.int32_t {
		return C.benthic_pool_create(s.handle, name, failure)
	}, name)
}

// RemovePool removes a pool with all its objects.
func (s *Store) RemovePool(ctx context.Context, name string) error {
	return s.do(ctx, true, func(name *C.char, failure **C.benthic_error) C.int32_t {
		return C.benthic_pool_remove(s.handle, name, failure)
	}, name)
}

// Pools returns the names of all pools, sorted.
func (s *Store) Pools(ctx context.Context) ([]string, error) {
	return ask(ctx, s, func() ([]string, error) {
		var handle *C.benthic_page
		err := call(func(failure **C.benthic_error) C.int32_t {
			return C.benthic_pool_list(s.handle, &handle, failure)
		})
		if err != nil {
			return nil, err
		}
		page, err := readPage(handle)
		if err != nil {
			return nil, err
		}
		pools := make([]string, len(page.Objects))
		for at, entry := range page.Objects {
			pools[at] = entry.Name
		}
		return pools, nil
	}, nil)
}

// OpenPool opens a pool, and a namespace of its objects. The default namespace is "".
func (s *Store) OpenPool(ctx context.Context, name, namespace string) (*Pool, error) {
	return ask(ctx, s, func() (*Pool, error) {
		var names texts
		defer names.free()
		pool := &Pool{store: s, name: name, namespace: namespace}
		cName, cNamespace := names.add("name", name), names.add("namespace", namespace)
		if names.err != nil {
			return nil, names.err
		}
		err := call(func(failure **C.benthic_error) C.int32_t {
			return C.benthic_pool_open(s.handle, cName, cNamespace, &pool.handle, failure)
		})
		if err != nil {
			return nil, err
		}
		pool.cleanup = runtime.AddCleanup(pool, func(handle *C.benthic_pool) {
			C.benthic_pool_close(handle)
		}, pool.handle)
		return pool, nil
	}, func(pool *Pool) { _ = pool.Close() })
}

// do runs a call with the name of an item.
func (s *Store) do(ctx context.Context, changes bool, run func(*C.char, **C.benthic_error) C.int32_t, name string) error {
	if s == nil {
		return errNoStore
	}
	_, err := blocking(ctx, changes, func() (struct{}, error) {
		defer runtime.KeepAlive(s)
		var names texts
		defer names.free()
		name := names.add("name", name)
		if names.err != nil {
			return struct{}{}, names.err
		}
		return struct{}{}, call(func(failure **C.benthic_error) C.int32_t { return run(name, failure) })
	}, nil)
	return err
}

// ask runs a call that returns something and changes nothing.
func ask[T any](ctx context.Context, s *Store, run func() (T, error), discard func(T)) (T, error) {
	if s == nil {
		var none T
		return none, errNoStore
	}
	return blocking(ctx, false, func() (T, error) {
		defer runtime.KeepAlive(s)
		return run()
	}, discard)
}
