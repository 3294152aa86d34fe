package benthic

// #include "bridge.h"
import "C"

import (
	"math"
	"time"
	"unsafe"
)

func replyVersion(reply *C.benthic_reply) (uint64, error) {
	var version C.uint64_t
	err := call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_reply_version(reply, &version, failure)
	})
	return uint64(version), err
}

func replyData(reply *C.benthic_reply, step C.size_t) ([]byte, error) {
	var data unsafe.Pointer
	var size C.size_t
	err := call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_reply_data(reply, step, &data, &size, failure)
	})
	if err != nil {
		return nil, err
	}
	return copyOf(data, size), nil
}

func replyStat(reply *C.benthic_reply, step C.size_t) (Stat, error) {
	var size, modified C.uint64_t
	err := call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_reply_stat(reply, step, &size, &modified, failure)
	})
	return Stat{uint64(size), time.Unix(0, int64(min(uint64(modified), math.MaxInt64))).UTC()}, err
}

func replyEntries(reply *C.benthic_reply, step C.size_t) (OmapPage, error) {
	var count C.size_t
	var more C.bool
	err := call(func(failure **C.benthic_error) C.int32_t {
		return C.benthic_reply_count(reply, step, &count, &more, failure)
	})
	page := OmapPage{More: bool(more)}
	for at := C.size_t(0); at < count && err == nil; at++ {
		var key, value unsafe.Pointer
		var keySize, valueSize C.size_t
		err = call(func(failure **C.benthic_error) C.int32_t {
			return C.benthic_reply_entry(reply, step, at, &key, &keySize, &value, &valueSize, failure)
		})
		if err == nil {
			page.Entries = append(page.Entries, Entry{string(copyOf(key, keySize)), copyOf(value, valueSize)})
		}
	}
	return page, err
}

func replyXattrs(reply *C.benthic_reply, step C.size_t) (map[string][]byte, error) {
	page, err := replyEntries(reply, step)
	values := make(map[string][]byte, len(page.Entries))
	for _, entry := range page.Entries {
		values[entry.Key] = entry.Value
	}
	return values, err
}

func replyOmapValue(reply *C.benthic_reply, step C.size_t) ([]byte, error) {
	page, err := replyEntries(reply, step)
	if err != nil || len(page.Entries) == 0 {
		return nil, err
	}
	return page.Entries[0].Value, nil
}

// copyOf copies bytes of the library, which are valid only until their owner is freed. The copy is not nil.
func copyOf(data unsafe.Pointer, size C.size_t) []byte {
	copied := make([]byte, int(size))
	copy(copied, unsafe.Slice((*byte)(data), int(size)))
	return copied
}
