package storage.benthic;

/** An entry of an object's omap. */
public record Entry(byte[] key, byte[] value) {}
