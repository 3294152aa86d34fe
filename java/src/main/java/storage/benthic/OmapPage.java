package storage.benthic;

import java.util.List;

/** A page of an object's omap. If {@code more} entries follow, the next page is the one after the last key. */
public record OmapPage(List<Entry> entries, boolean more) {}
