package benthic_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	benthic "github.com/benthic-storage/benthic/go"
)

func TestACompoundWriteHappensAsAWhole(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		ctx := t.Context()
		op := new(benthic.WriteOp).Create(true).WriteFull([]byte("hello")).WriteAt(5, []byte(", world")).
			SetXattr("owner", []byte("ada")).SetXattr("empty", nil).
			OmapSet("b", []byte("2")).OmapSet("a\x00\xff", []byte("1")).OmapSet("empty", nil)
		version := must(pool.Write(ctx, "reef", op))(t)
		_, err := pool.Write(ctx, "reef", op)
		fails(t, err, benthic.AlreadyExists)

		var read benthic.ReadOp
		read.IfExists().IfVersion(version).IfXattr("owner", benthic.LessOrEqual, []byte("ada")).IfOmap("b", []byte("2"))
		stat, data, part := read.Stat(), read.Read(0, 100), read.Read(7, 3)
		owner, xattrs := read.Xattr("owner"), read.Xattrs()
		got, empty, missing := read.OmapGet("b"), read.OmapGet("empty"), read.OmapGet("missing")
		page, said := read.OmapRange("a\x00\xff", "", 1), read.Exec("hello", "say", []byte("ada"))
		reply := must(pool.Read(ctx, "reef", &read))(t)
		equal(t, reply.Version, version)
		equal(t, stat.Of(reply).Size, 12)
		if age := time.Since(stat.Of(reply).Modified); age < -time.Minute || age > time.Minute {
			t.Fatalf("the object was modified %v ago", age)
		}
		equal(t, string(data.Of(reply)), "hello, world")
		equal(t, string(part.Of(reply)), "wor")
		equal(t, string(owner.Of(reply)), "ada")
		equal(t, fmt.Sprint(xattrs.Of(reply)), fmt.Sprint(map[string][]byte{"owner": []byte("ada"), "empty": {}}))
		equal(t, string(got.Of(reply)), "2")
		equal(t, empty.Of(reply) != nil && len(empty.Of(reply)) == 0 && missing.Of(reply) == nil, true)
		equal(t, fmt.Sprint(page.Of(reply)), fmt.Sprint(benthic.OmapPage{Entries: []benthic.Entry{{"b", []byte("2")}}, More: true}))
		equal(t, string(said.Of(reply)), "Hello, ada!")

		failing := new(benthic.WriteOp).IfVersion(version).Truncate(1).SetXattr(strings.Repeat("n", 1000), nil)
		_, err = pool.Write(ctx, "reef", failing)
		fails(t, err, benthic.LimitExceeded)
		change := new(benthic.WriteOp).IfVersion(version).IfExists().IfXattr("owner", benthic.Equal, []byte("ada")).
			IfOmap("b", []byte("2")).Zero(0, 2).Truncate(4).Append([]byte("!")).RemoveXattr("empty").OmapRemove("b")
		after := must(pool.Write(ctx, "reef", change))(t)
		equal(t, after > version, true)
		_, err = pool.Write(ctx, "reef", change)
		fails(t, err, benthic.Conflict)
		equal(t, string(must(pool.Get(ctx, "reef"))(t)), "\x00\x00ll!")
		equal(t, len(must(pool.Xattrs(ctx, "reef"))(t)), 1)
		must(pool.Write(ctx, "reef", new(benthic.WriteOp).OmapClear()))(t)
		for entry, err := range pool.Omap(ctx, "reef", "") {
			t.Fatal(entry, err)
		}
		check(t, pool.Remove(ctx, "reef"))
		fails(t, pool.Remove(ctx, "reef"), benthic.NotFound)
		_, _, err = pool.Stat(ctx, "reef")
		fails(t, err, benthic.NotFound)
	})
}

func TestMethodsRunBesideTheObject(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		ctx := t.Context()
		must(pool.WriteFull(ctx, "reef", []byte("abc")))(t)
		output := must(pool.Exec(ctx, "reef", "digest", "sha256", nil))(t)
		equal(t, string(output), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
		equal(t, bytes.Equal(must(pool.Xattr(ctx, "reef", "digest.sha256"))(t), output), true)
		// In a compound write, the method and the other steps happen together.
		record := new(benthic.WriteOp).Exec("hello", "record", []byte("ada")).SetXattr("owner", []byte("bob"))
		must(pool.Write(ctx, "greeting", record))(t)
		equal(t, string(must(pool.Xattr(ctx, "greeting", "owner"))(t)), "bob")
		equal(t, string(must(pool.Exec(ctx, "greeting", "hello", "replay", nil))(t)), "Hello, ada!")
		record.SetXattr("owner", []byte("carla"))
		_, err := pool.Write(ctx, "greeting", record)
		fails(t, err, benthic.AlreadyExists)
		equal(t, string(must(pool.Xattr(ctx, "greeting", "owner"))(t)), "bob")

		_, err = pool.Exec(ctx, "reef", "no-such-class", "a", nil)
		fails(t, err, benthic.Unsupported)
		_, err = pool.Exec(ctx, "reef", "hello", "no_such_method", nil)
		fails(t, err, benthic.Unsupported)
		_, err = pool.Exec(ctx, "missing", "digest", "sha256", nil)
		fails(t, err, benthic.NotFound)
	})
}

func TestListingsAreReadPageByPage(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, pool *benthic.Pool) {
		ctx := t.Context()
		for at := range 25 {
			must(pool.WriteFull(ctx, fmt.Sprintf("2026/%02d", at), nil))(t)
		}
		must(pool.WriteFull(ctx, "other", nil))(t)
		elsewhere := must(store.OpenPool(ctx, pool.Name(), "elsewhere"))(t)
		must(elsewhere.WriteFull(ctx, "2026/there", nil))(t)

		list := func(pool *benthic.Pool, options benthic.ListOptions) map[benthic.ObjectName]bool {
			found := map[benthic.ObjectName]bool{}
			for object, err := range pool.Objects(ctx, options) {
				check(t, err)
				equal(t, found[object], false)
				found[object] = true
			}
			return found
		}
		equal(t, len(list(pool, benthic.ListOptions{PageSize: 4})), 26)
		equal(t, len(list(pool, benthic.ListOptions{PageSize: 4, Prefix: "2026/"})), 25)
		equal(t, len(list(pool, benthic.ListOptions{AllNamespaces: true})), 27)
		equal(t, list(elsewhere, benthic.ListOptions{})[benthic.ObjectName{"elsewhere", "2026/there"}], true)

		// A page is the position of a listing.
		first := must(pool.List(ctx, benthic.ListOptions{PageSize: 10}))(t)
		equal(t, len(first.Objects) <= 10 && first.Next != nil, true)
		rest := list(pool, benthic.ListOptions{After: first.Next})
		equal(t, len(first.Objects)+len(rest), 26)
		for range pool.Objects(ctx, benthic.ListOptions{}) {
			break
		}
		_, err := pool.List(ctx, benthic.ListOptions{PageSize: -1})
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.List(ctx, benthic.ListOptions{After: []byte("no token")})
		fails(t, err, benthic.InvalidArgument)
	})
}

func TestOmapsOfManyPagesAreListed(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		const keys = 2500
		op := new(benthic.WriteOp).OmapSet("other", nil)
		for at := range keys {
			op.OmapSet(fmt.Sprintf("key/%05d", at), []byte{byte(at)})
		}
		must(pool.Write(t.Context(), "reef", op))(t)
		at := 0
		for entry, err := range pool.Omap(t.Context(), "reef", "key/") {
			check(t, err)
			equal(t, entry.Key, fmt.Sprintf("key/%05d", at))
			equal(t, entry.Value[0], byte(at))
			at++
		}
		equal(t, at, keys)
	})
}

func TestAnObjectIsAReaderAt(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		must(pool.WriteFull(t.Context(), "reef", []byte("0123456789")))(t)
		reader := pool.ReaderAt(t.Context(), "reef")
		text := must(io.ReadAll(io.NewSectionReader(reader, 3, 100)))(t)
		equal(t, string(text), "3456789")
		data := make([]byte, 4)
		n, err := reader.ReadAt(data, 8)
		equal(t, n == 2 && errors.Is(err, io.EOF), true)
		_, err = reader.ReadAt(data, -1)
		fails(t, err, benthic.InvalidArgument)
	})
}

func TestObjectsOfMoreThanOneOperationAreRead(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		if testing.Short() {
			t.Skip("it moves 300 MiB")
		}
		data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
		must(pool.WriteFull(t.Context(), "large", data))(t)
		must(pool.Append(t.Context(), "large", []byte("the end")))(t)
		got := must(pool.Get(t.Context(), "large"))(t)
		equal(t, bytes.Equal(got, append(data, "the end"...)), true)
		_, err := pool.WriteFull(t.Context(), "large", append(data, 1))
		fails(t, err, benthic.LimitExceeded)
	})
}

func TestBadNamesAndSizesAreErrorsWithoutEffect(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, pool *benthic.Pool) {
		ctx := t.Context()
		for _, name := range []string{"", "a\x00b", "\xff"} {
			_, err := pool.WriteFull(ctx, name, nil)
			fails(t, err, benthic.InvalidArgument)
			fails(t, store.CreatePool(ctx, name), benthic.InvalidArgument)
			_, err = pool.Exec(ctx, "a", name, "a", nil)
			fails(t, err, benthic.InvalidArgument)
			_, err = pool.Write(ctx, "a", new(benthic.WriteOp).SetXattr(name, nil))
			fails(t, err, benthic.InvalidArgument)
			_, err = benthic.Open(ctx, name)
			fails(t, err, benthic.InvalidArgument)
		}
		_, err := pool.WriteFull(ctx, strings.Repeat("n", 5000), nil)
		fails(t, err, benthic.LimitExceeded)
		_, err = pool.ReadRange(ctx, "a", 0, -1)
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.Read(ctx, "a", nil)
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.Write(ctx, "a", nil)
		fails(t, err, benthic.InvalidArgument)
		page := must(pool.List(ctx, benthic.ListOptions{}))(t)
		equal(t, len(page.Objects), 0)
	})
}

// Go's runtime refuses to pass C a value with pointers; bytes beside a pointer must pass.
func TestBytesMayBeAPartOfAValueWithPointers(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		value := &struct {
			self any
			data [8]byte
		}{data: [8]byte([]byte("deep sea"))}
		value.self = value
		op := new(benthic.WriteOp).WriteFull(value.data[:]).SetXattr("a", value.data[:4]).OmapSet("a", value.data[5:])
		must(pool.Write(t.Context(), "reef", op))(t)
		equal(t, string(must(pool.Get(t.Context(), "reef"))(t)), "deep sea")
		said := must(pool.Exec(t.Context(), "reef", "hello", "say", value.data[:4]))(t)
		equal(t, string(said), "Hello, deep!")
	})
}

func TestAStepOfAnotherOperationPanics(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		must(pool.WriteFull(t.Context(), "reef", nil))(t)
		var one, other benthic.ReadOp
		one.Stat()
		step := other.Stat()
		reply := must(pool.Read(t.Context(), "reef", &one))(t)
		defer func() { equal(t, recover() != nil, true) }()
		step.Of(reply)
	})
}
