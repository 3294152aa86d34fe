package benthic_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	benthic "github.com/benthic-storage/benthic/go"
)

func TestAContextThatEndedStartsNothing(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, pool *benthic.Pool) {
		why := errors.New("the user went home")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		stopped := func(err error) {
			t.Helper()
			fails(t, err, benthic.Unavailable)
			equal(t, errors.Is(err, context.Canceled) && errors.Is(err, why), true)
		}
		_, err := pool.WriteFull(ctx, "reef", nil)
		stopped(err)
		_, err = pool.Exec(ctx, "reef", "hello", "record", nil)
		stopped(err)
		_, err = pool.List(ctx, benthic.ListOptions{})
		stopped(err)
		stopped(store.CreatePool(ctx, "never"))
		_, err = benthic.Open(ctx, "mem:")
		stopped(err)
		for _, err := range pool.Objects(ctx, benthic.ListOptions{}) {
			stopped(err)
		}
		equal(t, len(must(pool.List(t.Context(), benthic.ListOptions{}))(t).Objects), 0)
	})
}

// A context that ends at any moment of an operation: the outcome must be one that the error allows.
func TestAContextThatEndsDuringAnOperationEndsIt(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		data := make([]byte, 1<<20)
		ended := 0
		for at := range 200 {
			object := fmt.Sprint("reef", at)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(at)*10*time.Microsecond)
			version, err := pool.WriteFull(ctx, object, data)
			cancel()
			stat, stored, found := pool.Stat(t.Context(), object)
			switch {
			case err == nil:
				check(t, found)
				equal(t, stored, version)
			case errors.Is(err, benthic.Unavailable):
				fails(t, found, benthic.NotFound)
			case errors.Is(err, benthic.OutcomeUnknown):
				if found == nil {
					equal(t, stat.Size, uint64(len(data)))
				}
			default:
				t.Fatal(err)
			}
			if err != nil {
				ended++
				equal(t, errors.Is(err, context.DeadlineExceeded), true)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(at)*10*time.Microsecond)
			_, err = pool.Get(ctx, object)
			cancel()
			if err != nil && !errors.Is(err, benthic.NotFound) {
				fails(t, err, benthic.Unavailable)
				equal(t, errors.Is(err, context.DeadlineExceeded), true)
			}
		}
		if ended == 0 {
			t.Fatal("no operation was ended")
		}
	})
}

func TestManyGoroutinesShareAPool(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		const goroutines, rounds = 64, 20
		var wait sync.WaitGroup
		for at := range goroutines {
			wait.Add(1)
			go func() {
				defer wait.Done()
				own, text := fmt.Sprint("own", at), fmt.Sprint("text", at)
				for range rounds {
					if _, err := pool.WriteFull(t.Context(), own, []byte(text)); err != nil {
						t.Error(err)
					}
					if _, err := pool.Append(t.Context(), "shared", []byte{byte(at)}); err != nil {
						t.Error(err)
					}
					said, err := pool.Exec(t.Context(), own, "hello", "say", []byte(text))
					if err != nil || string(said) != "Hello, "+text+"!" {
						t.Error(string(said), err)
					}
					if data, err := pool.Get(t.Context(), own); err != nil || string(data) != text {
						t.Error(string(data), err)
					}
				}
			}()
		}
		wait.Wait()
		counts := map[byte]int{}
		for _, by := range must(pool.Get(t.Context(), "shared"))(t) {
			counts[by]++
		}
		equal(t, len(counts), goroutines)
		for _, count := range counts {
			equal(t, count, rounds)
		}
	})
}

// The library refuses more operations in flight; here they wait.
func TestMoreOperationsThanTheLimitWaitForTheirTurn(t *testing.T) {
	onAllEngines(t, func(t *testing.T, _ *benthic.Store, pool *benthic.Pool) {
		var wait sync.WaitGroup
		for at := range 3000 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if _, err := pool.Write(t.Context(), fmt.Sprint(at%10), new(benthic.WriteOp).Create(false)); err != nil {
					t.Error(err)
				}
			}()
		}
		wait.Wait()
	})
}

func TestAStoreMayBeClosedWhileOperationsAreInFlight(t *testing.T) {
	onAllEngines(t, func(t *testing.T, store *benthic.Store, pool *benthic.Pool) {
		var wait sync.WaitGroup
		for at := range 64 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for {
					_, err := pool.WriteFull(t.Context(), fmt.Sprint("reef", at), make([]byte, 4096))
					if err != nil {
						if !errors.Is(err, benthic.InvalidArgument) && !errors.Is(err, benthic.Unavailable) {
							t.Error(err)
						}
						return
					}
				}
			}()
		}
		time.Sleep(20 * time.Millisecond)
		check(t, store.Close())
		wait.Wait()
	})
}

func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		store := must(benthic.Open(t.Context(), "mem:"))(t)
		check(t, store.CreatePool(t.Context(), "reef"))
		pool := must(store.OpenPool(t.Context(), "reef", ""))(t)
		for at := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(at)*time.Microsecond)
			_, _ = pool.WriteFull(ctx, "reef", make([]byte, 1<<16))
			_, _ = pool.List(ctx, benthic.ListOptions{})
			_, _ = benthic.Open(ctx, "mem:")
			cancel()
		}
		check(t, pool.Close())
		check(t, store.Close())
	}
	// Calls that no context can end go on for a moment, and so do the library's threads that called back.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// Opening the same directory with a lock held by a forgotten store would wait for the other owner.
func TestForgottenStoresAndPoolsAreClosed(t *testing.T) {
	dir := t.TempDir()
	func() {
		store := must(benthic.OpenOrCreate(t.Context(), "file:"+dir))(t)
		check(t, store.CreatePool(t.Context(), "reef"))
		pool := must(store.OpenPool(t.Context(), "reef", ""))(t)
		must(pool.WriteFull(t.Context(), "a", nil))(t)
	}()
	for deadline := time.Now().Add(20 * time.Second); hasOpen(t, dir); {
		if time.Now().After(deadline) {
			t.Fatal("the forgotten store is still open")
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
}

// hasOpen returns whether this process has files of a directory open.
func hasOpen(t *testing.T, dir string) bool {
	files := must(filepath.Glob("/proc/self/fd/*"))(t)
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && len(target) > len(dir) && target[:len(dir)] == dir {
			return true
		}
	}
	return false
}
