package benthic

// #include "bridge.h"
import "C"

import "strings"

// A Kind says how a program should react to an error. It is an error itself, for [errors.Is].
type Kind int32

const (
	// NotFound: the pool, object, attribute or key does not exist.
	NotFound Kind = C.BENTHIC_KIND_NOT_FOUND
	// AlreadyExists: an exclusive creation found an existing item.
	AlreadyExists Kind = C.BENTHIC_KIND_ALREADY_EXISTS
	// Conflict: a guard failed because another client changed the object. Read the object again, then
	// decide.
	Conflict Kind = C.BENTHIC_KIND_CONFLICT
	// InvalidArgument: the request is invalid; a retry will not help. Handles that are closed are invalid.
	InvalidArgument Kind = C.BENTHIC_KIND_INVALID_ARGUMENT
	// Unsupported: this engine, class or version lacks the feature.
	Unsupported Kind = C.BENTHIC_KIND_UNSUPPORTED
	// PermissionDenied: the caller lacks the permission.
	PermissionDenied Kind = C.BENTHIC_KIND_PERMISSION_DENIED
	// Unavailable: the store is unreachable or accepts no writes, or the context ended. Nothing was done.
	Unavailable Kind = C.BENTHIC_KIND_UNAVAILABLE
	// Busy: another client is using the item. Retry later.
	Busy Kind = C.BENTHIC_KIND_BUSY
	// LimitExceeded: a limit on size, count, time, memory or space was exceeded. Nothing was stored.
	LimitExceeded Kind = C.BENTHIC_KIND_LIMIT_EXCEEDED
	// Corrupt: stored bytes are damaged. Damaged bytes are never returned.
	Corrupt Kind = C.BENTHIC_KIND_CORRUPT
	// ClassFailed: a class method failed. The object is unchanged.
	ClassFailed Kind = C.BENTHIC_KIND_CLASS_FAILED
	// OutcomeUnknown: a write may or may not have happened. Read the object to find out; do not retry
	// blindly.
	OutcomeUnknown Kind = C.BENTHIC_KIND_OUTCOME_UNKNOWN
	// Internal: a bug in Benthic.
	Internal Kind = C.BENTHIC_KIND_INTERNAL
)

// String returns the name of the kind, such as "not found".
func (k Kind) String() string {
	name := C.benthic_kind_name(C.int32_t(k))
	if name == nil {
		return "unknown kind"
	}
	return strings.ReplaceAll(C.GoString(name), "_", " ")
}

// Error returns the name of the kind.
func (k Kind) Error() string {
	return "benthic: " + k.String()
}

// An Error is the error of a failed call.
type Error struct {
	// Kind says how to react.
	Kind Kind
	// Message is for people: the operation, what failed, the next step if there is one, and values as
	// key=value.
	Message string
	// causes are the error of a context that ended, and its cause.
	causes []error
}

func newError(kind Kind, message string) *Error {
	return &Error{Kind: kind, Message: message}
}

// Error returns the kind, the message, and the error of a context that ended.
func (e *Error) Error() string {
	text := e.Kind.Error()
	if e.Message != "" {
		text += ": " + e.Message
	}
	for _, cause := range e.causes {
		text += ": " + cause.Error()
	}
	return text
}

// Unwrap returns the kind, and the errors of a context that ended.
func (e *Error) Unwrap() []error {
	return append([]error{e.Kind}, e.causes...)
}
