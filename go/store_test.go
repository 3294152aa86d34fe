package benthic_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	benthic "github.com/benthic-storage/benthic/go"
)

// cephConf is the environment variable with the configuration file of a cluster for tests.
const cephConf = "BENTHIC_TEST_CEPH_CONF"

var poolsMade atomic.Uint64

// onAllEngines runs a test with an empty pool of every engine: memory, a directory, and a cluster if there
// is one.
func onAllEngines(t *testing.T, test func(t *testing.T, store *benthic.Store, pool *benthic.Pool)) {
	uris := map[string]func(t *testing.T) string{
		"memory":    func(*testing.T) string { return "mem:" },
		"directory": func(t *testing.T) string { return "file:" + t.TempDir() },
	}
	if conf := os.Getenv(cephConf); conf != "" {
		uris["ceph"] = func(*testing.T) string { return "ceph:?conf=" + conf }
	}
	for engine, uri := range uris {
		t.Run(engine, func(t *testing.T) {
			uri := uri(t)
			store := must(benthic.OpenOrCreate(t.Context(), uri))(t)
			t.Cleanup(func() { _ = store.Close() })
			test(t, store, newPool(t, uri, store))
		})
	}
}

// newPool creates a pool that is removed at the end of the test, unless it is in memory.
func newPool(t *testing.T, uri string, store *benthic.Store) *benthic.Pool {
	t.Helper()
	name := fmt.Sprintf("go-test-%d-%d", os.Getpid(), poolsMade.Add(1))
	check(t, store.CreatePool(t.Context(), name))
	t.Cleanup(func() {
		if uri == "mem:" {
			return
		}
		// The test may have closed the store.
		again := must(benthic.Open(context.Background(), uri))(t)
		check(t, again.RemovePool(context.Background(), name))
		check(t, again.Close())
	})
	return must(store.OpenPool(t.Context(), name, ""))(t)
}

// must returns a value, or fails the test if there is an error.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails fails the test unless err is an [*benthic.Error] of a kind with a message.
func fails(t *testing.T, err error, kind benthic.Kind) {
	t.Helper()
	var failure *benthic.Error
	if !errors.As(err, &failure) || failure.Kind != kind || failure.Message == "" || !errors.Is(err, kind) {
		t.Fatalf("expected %v and a message, got %v", kind, err)
	}
}

func equal[T comparable](t *testing.T, got, expected T) {
	t.Helper()
	if got != expected {
		t.Fatalf("got %v, expected %v", got, expected)
	}
}

func TestPoolsAreCreatedListedAndRemoved(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, pool *benthic.Pool) {
		fails(t, store.CreatePool(t.Context(), pool.Name()), benthic.AlreadyExists)
		other := "other-" + pool.Name()
		check(t, store.CreatePool(t.Context(), other))
		found := map[string]bool{}
		for _, name := range must(store.Pools(t.Context()))(t) {
			found[name] = true
		}
		equal(t, found[pool.Name()] && found[other], true)
		check(t, store.RemovePool(t.Context(), other))
		_, err := store.OpenPool(t.Context(), other, "")
		fails(t, err, benthic.NotFound)
	})
}

func TestAStoreOfADirectoryKeepsItsData(t *testing.T) {
	uri := "file:" + t.TempDir()
	_, err := benthic.Open(t.Context(), uri+"/missing")
	fails(t, err, benthic.NotFound)
	store := must(benthic.OpenOrCreate(t.Context(), uri))(t)
	check(t, store.CreatePool(t.Context(), "reef"))
	pool := must(store.OpenPool(t.Context(), "reef", ""))(t)
	must(pool.Write(t.Context(), "a", new(benthic.WriteOp).Buffered().WriteFull([]byte("kept"))))(t)
	check(t, store.Flush(t.Context()))
	check(t, store.Close())

	store = must(benthic.Open(t.Context(), uri))(t)
	defer store.Close()
	pool = must(store.OpenPool(t.Context(), "reef", ""))(t)
	equal(t, string(must(pool.Get(t.Context(), "a"))(t)), "kept")
}

func TestStoresDescribeTheirClasses(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, _ *benthic.Pool) {
		for _, class := range must(store.Classes(t.Context()))(t) {
			for _, method := range class.Methods {
				if class.Name == "hello" && method.Name == "record" {
					equal(t, method.Writes, true)
					equal(t, method.ResultXattr, "hello.greeting")
					return
				}
			}
		}
		t.Fatal("the class hello is missing")
	})
}

func TestCallsWithClosedHandlesFail(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, pool *benthic.Pool) {
		ctx := t.Context()
		second := must(store.OpenPool(ctx, pool.Name(), ""))(t)
		check(t, second.Close())
		fails(t, second.Close(), benthic.InvalidArgument)
		_, err := second.Get(ctx, "a")
		fails(t, err, benthic.InvalidArgument)
		check(t, store.Close())
		fails(t, store.Close(), benthic.InvalidArgument)
		fails(t, store.Flush(ctx), benthic.InvalidArgument)
		fails(t, store.CreatePool(ctx, "a"), benthic.InvalidArgument)
		_, err = store.Pools(ctx)
		fails(t, err, benthic.InvalidArgument)
		_, err = store.Classes(ctx)
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.Get(ctx, "a")
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.Exec(ctx, "a", "hello", "say", nil)
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.List(ctx, benthic.ListOptions{})
		fails(t, err, benthic.InvalidArgument)
	})
}

func TestHandlesThatWereNeverOpenFail(t *testing.T) {
	ctx := t.Context()
	for _, store := range []*benthic.Store{nil, {}} {
		fails(t, store.Close(), benthic.InvalidArgument)
		fails(t, store.Flush(ctx), benthic.InvalidArgument)
		_, err := store.Pools(ctx)
		fails(t, err, benthic.InvalidArgument)
		_, err = store.OpenPool(ctx, "a", "")
		fails(t, err, benthic.InvalidArgument)
	}
	for _, pool := range []*benthic.Pool{nil, {}} {
		fails(t, pool.Close(), benthic.InvalidArgument)
		_, err := pool.Get(ctx, "a")
		fails(t, err, benthic.InvalidArgument)
		_, err = pool.List(ctx, benthic.ListOptions{})
		fails(t, err, benthic.InvalidArgument)
	}
}
