package benthic

// #include <stdint.h>
import "C"

import "runtime/cgo"

// benthicGoCompleted is called by the library when an operation is complete. It must not wait, because
// the library calls back for one operation of a store at a time.
//
//export benthicGoCompleted
func benthicGoCompleted(context C.uintptr_t) {
	close(cgo.Handle(context).Value().(chan struct{}))
}
