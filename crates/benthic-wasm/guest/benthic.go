// Benthic's functions for a class in Go. `benthic class new --lang go` copies this file into a project. A
// method is a function of this form:
//
//	func countWords(object Object, input []byte) ([]byte, error)
//
// An exported function runs it, and class.json describes it:
//
//	//go:wasmexport count
//	func count() int32 { return run(countWords) }
//
// A method reads before it writes. All its changes take effect together, or none does if it fails. The
// output of a method that writes is dropped: such a method stores its result in an attribute
// (result_xattr in class.json).
//
// There are no files, no network, no environment and no arguments. The clock begins at 0 in each call, and
// moves only when it is read and while the method sleeps. Random numbers are the same in each call, also
// those of crypto/rand: make no secrets of them. The method's output goes to the log.

package main

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"
)

// Errno is the kind of a method's error.
type Errno int32

const (
	NotFound        Errno = 2
	ClassFailed     Errno = 5
	Busy            Errno = 16
	AlreadyExists   Errno = 17
	InvalidArgument Errno = 22
	LimitExceeded   Errno = 27
	Corrupt         Errno = 74
	Conflict        Errno = 125
)

// Error is the error of a method. The host knows the message of an error that it returned itself. An error of
// another type counts as InvalidArgument.
type Error struct {
	Errno   Errno
	Message string
}

func (e *Error) Error() string {
	if e.Message == "" {
		return "the host returned an error"
	}
	return e.Message
}

// IsKind reports whether an error is of this kind, as in IsKind(err, NotFound).
func IsKind(err error, errno Errno) bool {
	var own *Error
	return errors.As(err, &own) && own.Errno == errno
}

//go:wasmimport benthic_1 input
func hostInput() int64

//go:wasmimport benthic_1 take
func hostTake(to unsafe.Pointer, offset, len uint32)

//go:wasmimport benthic_1 output
func hostOutput(from unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 fail
func hostFail(text unsafe.Pointer, len uint32)

//go:wasmimport benthic_1 log
func hostLog(level uint32, text unsafe.Pointer, len uint32)

//go:wasmimport benthic_1 stat
func hostStat() int64

//go:wasmimport benthic_1 read
func hostRead(offset, len uint64) int64

//go:wasmimport benthic_1 get_xattr
func hostGetXattr(name unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 list_xattrs
func hostListXattrs() int64

//go:wasmimport benthic_1 omap_get
func hostOmapGet(keys unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 omap_range
func hostOmapRange(after unsafe.Pointer, afterLen uint32, prefix unsafe.Pointer, prefixLen, max uint32) int64

// For the first page, after is 0xffffffff, which is no pointer.
//
//go:wasmimport benthic_1 omap_range
func hostOmapFirst(after, afterLen uint32, prefix unsafe.Pointer, prefixLen, max uint32) int64

//go:wasmimport benthic_1 create
func hostCreate(exclusive uint32) int64

//go:wasmimport benthic_1 write
func hostWrite(offset uint64, data unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 write_full
func hostWriteFull(data unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 append
func hostAppend(data unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 truncate
func hostTruncate(size uint64) int64

//go:wasmimport benthic_1 zero
func hostZero(offset, len uint64) int64

//go:wasmimport benthic_1 remove
func hostRemove() int64

//go:wasmimport benthic_1 set_xattr
func hostSetXattr(name unsafe.Pointer, nameLen uint32, value unsafe.Pointer, valueLen uint32) int64

//go:wasmimport benthic_1 omap_set
func hostOmapSet(entries unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 omap_remove
func hostOmapRemove(keys unsafe.Pointer, len uint32) int64

//go:wasmimport benthic_1 omap_clear
func hostOmapClear() int64

//go:wasmimport benthic_1 call
func hostCall(class unsafe.Pointer, classLen uint32, method unsafe.Pointer, methodLen uint32, input unsafe.Pointer, inputLen uint32) int64

// Stat is the size and the time of the last change of the object.
type Stat struct {
	SizeBytes, ModifiedUnixNs uint64
}

// Entry is a key and its value, in the omap, or the name and the value of an attribute.
type Entry struct {
	Key, Value []byte
}

// Object is the object beside which a method runs.
type Object struct{}

func (Object) Stat() (Stat, error) {
	bytes, err := take(hostStat())
	if err != nil {
		return Stat{}, err
	}
	return Stat{binary.LittleEndian.Uint64(bytes), binary.LittleEndian.Uint64(bytes[8:])}, nil
}

// Read reads data; short if the range crosses the end of the object.
func (Object) Read(offset, length uint64) ([]byte, error) {
	return take(hostRead(offset, length))
}

// ReadInto reads data into a buffer that can be used again, and returns the part that was read.
func (Object) ReadInto(offset uint64, buffer []byte) ([]byte, error) {
	length, err := check(hostRead(offset, uint64(len(buffer))))
	hostTake(at(buffer), 0, length)
	return buffer[:length], err
}

func (Object) GetXattr(name string) ([]byte, error) {
	return take(hostGetXattr(at([]byte(name)), uint32(len(name))))
}

func (Object) ListXattrs() ([]Entry, error) {
	list, err := take(hostListXattrs())
	return entriesOf(list), err
}

// OmapGet returns the entries of those keys that exist.
func (Object) OmapGet(keys ...[]byte) ([]Entry, error) {
	list := encodeKeys(keys)
	found, err := take(hostOmapGet(at(list), uint32(len(list))))
	return entriesOf(found), err
}

// OmapRange returns at most max entries with the prefix, in the order of the keys, from the first key after
// `after`, which is nil for the first page; and whether there are more.
func (Object) OmapRange(after, prefix []byte, max uint32) (entries []Entry, more bool, err error) {
	var result int64
	if after == nil {
		result = hostOmapFirst(math.MaxUint32, 0, at(prefix), uint32(len(prefix)), max)
	} else {
		result = hostOmapRange(at(after), uint32(len(after)), at(prefix), uint32(len(prefix)), max)
	}
	page, err := take(result)
	if err != nil {
		return nil, false, err
	}
	return entriesOf(page[1:]), page[0] != 0, nil
}

func (Object) Create(exclusive bool) error {
	if exclusive {
		return done(hostCreate(1))
	}
	return done(hostCreate(0))
}

func (Object) Write(offset uint64, data []byte) error {
	return done(hostWrite(offset, at(data), uint32(len(data))))
}

func (Object) WriteFull(data []byte) error {
	return done(hostWriteFull(at(data), uint32(len(data))))
}

// Append writes at the end. A second run appends again.
func (Object) Append(data []byte) error {
	return done(hostAppend(at(data), uint32(len(data))))
}

func (Object) Truncate(size uint64) error {
	return done(hostTruncate(size))
}

func (Object) Zero(offset, length uint64) error {
	return done(hostZero(offset, length))
}

func (Object) Remove() error {
	return done(hostRemove())
}

func (Object) SetXattr(name string, value []byte) error {
	return done(hostSetXattr(at([]byte(name)), uint32(len(name)), at(value), uint32(len(value))))
}

func (Object) OmapSet(entries ...Entry) error {
	list := binary.LittleEndian.AppendUint32(nil, uint32(len(entries)))
	for _, entry := range entries {
		list = put(put(list, entry.Key), entry.Value)
	}
	return done(hostOmapSet(at(list), uint32(len(list))))
}

func (Object) OmapRemove(keys ...[]byte) error {
	list := encodeKeys(keys)
	return done(hostOmapRemove(at(list), uint32(len(list))))
}

func (Object) OmapClear() error {
	return done(hostOmapClear())
}

// Call calls a method of a native class, such as digest, beside the same object.
func (Object) Call(class, method string, input []byte) ([]byte, error) {
	return take(hostCall(at([]byte(class)), uint32(len(class)), at([]byte(method)), uint32(len(method)),
		at(input), uint32(len(input))))
}

// Log writes a line to the log of the process that runs the class.
func Log(text string) {
	hostLog(1, at([]byte(text)), uint32(len(text)))
}

// run runs a method and returns 0 or an errno.
func run(method func(object Object, input []byte) ([]byte, error)) (errno int32) {
	defer func() {
		if panicked := recover(); panicked != nil {
			errno = failed(&Error{ClassFailed, "the method panicked: " + textOf(panicked)})
		}
	}()
	input, err := take(hostInput())
	if err != nil {
		return failed(err)
	}
	output, err := method(Object{}, input)
	if err != nil {
		return failed(err)
	}
	if err := done(hostOutput(at(output), uint32(len(output)))); err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int32 {
	errno, message := InvalidArgument, []byte(err.Error())
	var own *Error
	if errors.As(err, &own) {
		errno = own.Errno
		if own.Message == "" && error(own) == err {
			return int32(errno)
		}
	}
	hostFail(at(message), uint32(len(message)))
	return int32(errno)
}

func textOf(panicked any) string {
	switch value := panicked.(type) {
	case error:
		return value.Error()
	case string:
		return value
	default:
		return "with a value that is no text"
	}
}

// at returns the address of the first byte.
func at(bytes []byte) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(bytes))
}

// check returns the length of a function's result, or its error.
func check(result int64) (uint32, error) {
	if result < 0 {
		return 0, &Error{Errno: Errno(-result)}
	}
	return uint32(result), nil
}

func done(result int64) error {
	_, err := check(result)
	return err
}

// take returns the result of the last function.
func take(result int64) ([]byte, error) {
	length, err := check(result)
	if err != nil {
		return nil, err
	}
	bytes := make([]byte, length)
	hostTake(at(bytes), 0, length)
	return bytes, nil
}

func put(list, part []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(list, uint32(len(part))), part...)
}

func encodeKeys(keys [][]byte) []byte {
	list := binary.LittleEndian.AppendUint32(nil, uint32(len(keys)))
	for _, key := range keys {
		list = put(list, key)
	}
	return list
}

// part takes a byte string from the front.
func part(list *[]byte) []byte {
	end := 4 + binary.LittleEndian.Uint32(*list)
	taken := (*list)[4:end]
	*list = (*list)[end:]
	return taken
}

func entriesOf(list []byte) []Entry {
	if len(list) == 0 {
		return nil
	}
	entries := make([]Entry, binary.LittleEndian.Uint32(list))
	rest := list[4:]
	for i := range entries {
		entries[i].Key = part(&rest)
		entries[i].Value = part(&rest)
	}
	return entries
}
