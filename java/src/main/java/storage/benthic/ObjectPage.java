package storage.benthic;

import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.util.ArrayList;
import java.util.List;

/**
 * A page of a listing. A page that is not the last may be empty. {@code next} continues the listing, at any time,
 * also in another process; it is null if the page is the last.
 */
public record ObjectPage(List<ObjectName> objects, byte[] next) {
    /** Reads a page of the library, and frees it. */
    static ObjectPage take(long page) {
        try {
            LongByReference count = new LongByReference();
            Library.call(error -> Library.benthic_page_count(page, count, error));
            List<ObjectName> objects = new ArrayList<>();
            PointerByReference namespace = new PointerByReference();
            PointerByReference name = new PointerByReference();
            for (long at = 0; at < count.getValue(); at++) {
                long entry = at;
                Library.call(error -> Library.benthic_page_entry(page, entry, namespace, name, error));
                objects.add(new ObjectName(
                        namespace.getValue().getString(0, "UTF-8"), name.getValue().getString(0, "UTF-8")));
            }
            PointerByReference next = new PointerByReference();
            LongByReference size = new LongByReference();
            Library.call(error -> Library.benthic_page_next(page, next, size, error));
            return new ObjectPage(List.copyOf(objects), next.getValue() == null ? null : Reply.copy(next, size));
        } finally {
            Library.benthic_page_free(page);
        }
    }
}
