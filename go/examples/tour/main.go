// The program tour shows what Benthic's Go module does: a compound write with a guard, a method of a class
// beside the data, a read with a time limit, and listings.
//
//	go run ./examples/tour file:./benthic-data
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	benthic "github.com/benthic-storage/benthic/go"
)

func main() {
	uri := "mem:"
	if len(os.Args) > 1 {
		uri = os.Args[1]
	}
	if err := tour(context.Background(), uri); err != nil {
		log.Fatal(err)
	}
}

func tour(ctx context.Context, uri string) error {
	store, err := benthic.OpenOrCreate(ctx, uri)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.CreatePool(ctx, "tour"); err != nil && !errors.Is(err, benthic.AlreadyExists) {
		return err
	}
	pool, err := store.OpenPool(ctx, "tour", "")
	if err != nil {
		return err
	}
	defer pool.Close()

	// All steps happen, or none: data, an attribute and an omap entry.
	write := new(benthic.WriteOp).WriteFull([]byte("hello, world")).SetXattr("language", []byte("en")).
		OmapSet("seen", []byte("1"))
	version, err := pool.Write(ctx, "greeting", write)
	if err != nil {
		return err
	}

	// A guard: the write happens only if the object still has the version that this program saw.
	extend := new(benthic.WriteOp).IfVersion(version).Append([]byte("!"))
	if _, err := pool.Write(ctx, "greeting", extend); err != nil {
		return err
	}
	if _, err := pool.Write(ctx, "greeting", extend); !errors.Is(err, benthic.Conflict) {
		return fmt.Errorf("the second append must fail, but: %w", err)
	}
	fmt.Println("the second append failed, as it must")

	// A method of a class runs beside the data: only the hash travels.
	hash, err := pool.Exec(ctx, "greeting", "digest", "compute", []byte("sha256"))
	if err != nil {
		return err
	}
	fmt.Printf("sha256 = %s\n", hash)

	// The size and the data of one state of the object, within 10 seconds.
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var read benthic.ReadOp
	stat, data := read.Stat(), read.Read(0, 1024)
	reply, err := pool.Read(limited, "greeting", &read)
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes: %s\n", stat.Of(reply).Size, data.Of(reply))

	for entry, err := range pool.Omap(ctx, "greeting", "") {
		if err != nil {
			return err
		}
		fmt.Printf("%s = %s\n", entry.Key, entry.Value)
	}
	for object, err := range pool.Objects(ctx, benthic.ListOptions{}) {
		if err != nil {
			return err
		}
		fmt.Println("object", object.Name)
	}
	return nil
}
