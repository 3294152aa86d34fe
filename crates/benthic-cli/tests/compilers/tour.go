// Calls every function of benthic.go, and prints.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

//go:wasmexport show
func show() int32 { return run(showAll) }

//go:wasmexport change
func change() int32 { return run(changeAll) }

//go:wasmexport fail
func fail() int32 { return run(failWith) }

//go:wasmexport crash
func crash() int32 { return run(crashAt) }

func main() {}

func addEntries(to *bytes.Buffer, entries []Entry) {
	for _, entry := range entries {
		fmt.Fprintf(to, "%s=%s,", entry.Key, entry.Value)
	}
	to.WriteString("|")
}

func choose(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

func showAll(object Object, input []byte) ([]byte, error) {
	Log("show")
	fmt.Println("a line for the log")
	began := time.Now()
	time.Sleep(time.Hour)
	if _, err := os.ReadFile("/etc/hostname"); err == nil || time.Since(began) < time.Hour || len(os.Environ()) > 0 {
		return nil, &Error{ClassFailed, "the host is not what it should be"}
	}
	stat, err := object.Stat()
	data, err2 := object.Read(1, 2)
	name, err3 := object.GetXattr("name")
	_, missing := object.GetXattr("none")
	xattrs, err4 := object.ListXattrs()
	found, err5 := object.OmapGet([]byte("k1"), []byte("k9"))
	first, more, err6 := object.OmapRange(nil, []byte("k"), 2)
	last, moreAfter, err7 := object.OmapRange([]byte("k2"), []byte("k"), 9)
	greeting, err8 := object.Call("hello", "say", []byte("Ada"))
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7, err8); err != nil {
		return nil, err
	}
	var shown bytes.Buffer
	fmt.Fprintf(&shown, "%s|%s|%s|%s|", input, choose(stat.SizeBytes == 6, "six", "?"), data, name)
	shown.WriteString(choose(IsKind(missing, NotFound), "none|", "?|"))
	addEntries(&shown, xattrs)
	addEntries(&shown, found)
	addEntries(&shown, first)
	shown.WriteString(choose(more, "more|", "end|"))
	addEntries(&shown, last)
	shown.WriteString(choose(moreAfter, "more|", "end|"))
	shown.Write(greeting)
	return shown.Bytes(), nil
}

func changeAll(object Object, _ []byte) ([]byte, error) {
	return nil, errors.Join(
		object.Remove(),
		object.Create(true),
		object.WriteFull([]byte("abc")),
		object.Append([]byte("defgh")),
		object.Write(1, []byte("B")),
		object.Zero(2, 1),
		object.Truncate(6),
		object.SetXattr("name", []byte("value")),
		object.SetXattr("empty", nil),
		object.OmapClear(),
		object.OmapSet(
			Entry{[]byte("k1"), []byte("1")}, Entry{[]byte("k2"), nil},
			Entry{[]byte("k3"), []byte("3")}, Entry{[]byte("k4"), []byte("4")},
		),
		object.OmapRemove([]byte("k4")),
	)
}

func failWith(_ Object, input []byte) ([]byte, error) {
	return nil, &Error{AlreadyExists, string(input)}
}

func crashAt(_ Object, input []byte) ([]byte, error) {
	return []byte{1, 2, 3}[len(input):1], nil
}
