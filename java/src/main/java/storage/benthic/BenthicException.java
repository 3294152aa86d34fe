package storage.benthic;

/** The error of a failed call. The kind is for programs, and the message is for people. */
public final class BenthicException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** How to react. */
    private final Kind kind;

    BenthicException(Kind kind, String message) {
        this(kind, message, null);
    }

    BenthicException(Kind kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /** How to react. */
    public Kind kind() {
        return kind;
    }
}
