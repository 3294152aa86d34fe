// The C code of the Go files: the library's header, and the functions of Go that the library calls.
#ifndef BENTHIC_GO_BRIDGE_H
#define BENTHIC_GO_BRIDGE_H

#if defined(__has_include)
#if !__has_include(<benthic.h>)
#error "benthic.h is missing; build the C library and set CGO_CFLAGS and CGO_LDFLAGS, see docs/guide/go.md"
#endif
#endif

#include <benthic.h>
#include <stdint.h>
#include <stdlib.h>

#endif
