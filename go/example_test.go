package benthic_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	benthic "github.com/benthic-storage/benthic/go"
)

func Example() {
	ctx := context.Background()
	store, err := benthic.Open(ctx, "mem:") // or "file:DIR", "ceph:?conf=FILE&id=client.NAME"
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.CreatePool(ctx, "photos"); err != nil {
		log.Fatal(err)
	}
	pool, err := store.OpenPool(ctx, "photos", "")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// All steps happen, or none.
	version, err := pool.Write(ctx, "reef.txt",
		new(benthic.WriteOp).WriteFull([]byte("hello, world")).SetXattr("owner", []byte("ada")))
	if err != nil {
		log.Fatal(err)
	}

	// A method runs beside the object: only the hash travels.
	hash, err := pool.Exec(ctx, "reef.txt", "digest", "sha256", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", hash)

	// A guard: the write happens only if the object still has this version. The method stored its result in
	// an attribute, which made a new version.
	_, err = pool.Write(ctx, "reef.txt", new(benthic.WriteOp).IfVersion(version).Append([]byte("!")))
	fmt.Println(errors.Is(err, benthic.Conflict))
	// Output:
	// 09ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b
	// true
}

func ExampleReadOp() {
	ctx := context.Background()
	pool := examplePool(ctx)
	var op benthic.ReadOp
	stat, owner := op.Stat(), op.Xattr("owner")
	reply, err := pool.Read(ctx, "reef.txt", &op)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes of %s\n", stat.Of(reply).Size, owner.Of(reply))
	// Output: 12 bytes of ada
}

func ExamplePool_Objects() {
	ctx := context.Background()
	pool := examplePool(ctx)
	for object, err := range pool.Objects(ctx, benthic.ListOptions{Prefix: "reef"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(object.Name)
	}
	// Output: reef.txt
}

// examplePool returns a pool in memory with one object.
func examplePool(ctx context.Context) *benthic.Pool {
	store, err := benthic.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	if err := store.CreatePool(ctx, "photos"); err != nil {
		log.Fatal(err)
	}
	pool, err := store.OpenPool(ctx, "photos", "")
	if err != nil {
		log.Fatal(err)
	}
	op := new(benthic.WriteOp).WriteFull([]byte("hello, world")).SetXattr("owner", []byte("ada"))
	if _, err := pool.Write(ctx, "reef.txt", op); err != nil {
		log.Fatal(err)
	}
	return pool
}
