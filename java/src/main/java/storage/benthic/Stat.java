package storage.benthic;

import java.time.Instant;

/** The size of an object in bytes, and the time of its last change. */
public record Stat(long sizeBytes, Instant modified) {}
