/**
 * A client of Benthic: programmable object storage, in a directory, in memory and on Ceph clusters.
 *
 * <p>{@link storage.benthic.Store#open} opens a store, and {@link storage.benthic.Store#openPool} a pool of it. A
 * {@link storage.benthic.Pool} reads and writes objects. {@link storage.benthic.Pool#exec} runs a method of a class
 * beside an object, so that only the result travels. A {@link storage.benthic.ReadOp} or a
 * {@link storage.benthic.WriteOp} is a compound operation: all its guards and steps happen together, or not at all.
 *
 * <p>Every failed call throws a {@link storage.benthic.BenthicException}. All objects may be used by many threads,
 * except operations that are still being built. Calls that wait ignore interrupts; the methods that end with
 * {@code Async} return futures that can be cancelled.
 *
 * <p>The package needs the C library, {@code libbenthic.so.1}. It is found where the system finds libraries, or in
 * the directory of the property {@code jna.library.path}.
 */
package storage.benthic;
