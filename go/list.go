package benthic

// #include "bridge.h"
import "C"

import (
	"context"
	"iter"
	"runtime"
	"unsafe"
)

// listPageSize and omapPageSize are how many items an iterator reads at once.
const (
	listPageSize = 1024
	omapPageSize = 1024
)

// An ObjectName is the name of an object, and its namespace; the default one is "".
type ObjectName struct {
	Namespace, Name string
}

// ListOptions select the objects of a listing. The zero value selects all of the pool's namespace.
type ListOptions struct {
	// Prefix selects names.
	Prefix string
	// AllNamespaces selects the objects of all namespaces that Benthic does not reserve.
	AllNamespaces bool
	// After continues a listing after a page: it is the page's Next.
	After []byte
	// PageSize is the maximum number of objects of a page; 0 is the default, 1,024. The engine has a
	// limit, too.
	PageSize int
}

// A Page is a page of a listing. A page that is not the last may be empty.
type Page struct {
	Objects []ObjectName
	// Next continues the listing, at any time, also in another process. It is nil if the page is the last.
	Next []byte
}

// List returns a page of the pool's objects, in the store's order.
func (p *Pool) List(ctx context.Context, options ListOptions) (Page, error) {
	if p == nil || p.store == nil {
		return Page{}, errNoPool
	}
	size := options.PageSize
	if size == 0 {
		size = listPageSize
	}
	return blocking(ctx, false, func() (Page, error) {
		defer runtime.KeepAlive(p)
		var handle *C.benthic_page
		err := callNamed(func(names *texts, failure **C.benthic_error) C.int32_t {
			return C.benthic_list(p.handle, names.add("prefix", options.Prefix), C.bool(options.AllNamespaces),
				unsafe.Pointer(
					unsafe.SliceData(options.After[:])), C.size_t(len(options.After)), names.size("page_size",
					size), &handle, failure)
		})
		if err != nil {
			return Page{}, err
		}
		return readPage(handle)
	}, nil)
}

// Objects lists the pool's objects page by page, in the store's order. It holds one page in memory. An
// error is the last item. Objects that other clients create or remove meanwhile may be missing or not.
//
//	for object, err := range pool.Objects(ctx, benthic.ListOptions{Prefix: "2026/"}) { … }
func (p *Pool) Objects(ctx context.Context, options ListOptions) iter.Seq2[ObjectName, error] {
	return func(yield func(ObjectName, error) bool) {
		for {
			page, err := p.List(ctx, options)
			if err != nil {
				yield(ObjectName{}, err)
				return
			}
			for _, object := range page.Objects {
				if !yield(object, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			options.After = page.Next
		}
	}
}

// Omap lists the omap entries of an object whose keys have a prefix, page by page, in the bytewise order of
// keys. It holds one page in memory. An error is the last item. Each page is of one state of the object.
func (p *Pool) Omap(ctx context.Context, object, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after := ""; ; {
			var op ReadOp
			page, err := readStep(ctx, p, object, &op, op.OmapRange(after, prefix, omapPageSize))
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, entry := range page.Entries {
				if !yield(entry, nil) {
					return
				}
				after = entry.Key
			}
			if !page.More {
				return
			}
		}
	}
}

// readPage reads a page of the library, and frees it.
func readPage(handle *C.benthic_page) (Page, error) {
	defer C.benthic_page_free(handle)
	var count C.size_t
	err := call(func(failure **C.benthic_error) C.int32_t { return C.benthic_page_count(handle, &count, failure) })
	if err != nil {
		return Page{}, err
	}
	page := Page{Objects: make([]ObjectName, count)}
	for at := range page.Objects {
		var namespace, name *C.char
		err := call(func(failure **C.benthic_error) C.int32_t {
			return C.benthic_page_entry(handle, C.size_t(at), &namespace, &name, failure)
		})
		if err != nil {
			return Page{}, err
		}
		page.Objects[at] = ObjectName{C.GoString(namespace), C.GoString(name)}
	}
	var next unsafe.Pointer
	var nextSize C.size_t
	err = call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_page_next(handle, &next, &nextSize, failure)
	})
	if err == nil && next != nil {
		page.Next = copyOf(next, nextSize)
	}
	return page, err
}
