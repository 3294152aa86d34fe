package storage.benthic;

/** How a program should react to an error. */
public enum Kind {
    /** The pool, object, attribute or key does not exist. */
    NOT_FOUND(3),
    /** An exclusive creation found an existing item. */
    ALREADY_EXISTS(4),
    /** A guard failed because another client changed the object. Read the object again, then decide. */
    CONFLICT(5),
    /** The request is invalid; a retry will not help. Handles that are closed are invalid. */
    INVALID_ARGUMENT(6),
    /** This engine, class or version lacks the feature. */
    UNSUPPORTED(7),
    /** The caller lacks the permission. */
    PERMISSION_DENIED(8),
    /** The store is unreachable or accepts no writes, or the operation was cancelled. Nothing was done. */
    UNAVAILABLE(9),
    /** Another client is using the item, or too many operations are in flight. Retry later. */
    BUSY(10),
    /** A limit on size, count, time, memory or space was exceeded. Nothing was stored. */
    LIMIT_EXCEEDED(11),
    /** Stored bytes are damaged. Damaged bytes are never returned. */
    CORRUPT(12),
    /** A class method failed. The object is unchanged. */
    CLASS_FAILED(13),
    /** A write may or may not have happened. Read the object to find out; do not retry blindly. */
    OUTCOME_UNKNOWN(14),
    /** A bug in Benthic. */
    INTERNAL(15);

    private final int number;

    Kind(int number) {
        this.number = number;
    }

    static Kind of(int number) {
        for (Kind kind : values()) {
            if (kind.number == number) {
                return kind;
            }
        }
        return INTERNAL;
    }
}
