package storage.benthic;

/** How a guard compares the stored value with the given one: stored OP given, bytewise. The order is that of C. */
public enum Comparison {
    EQUAL,
    NOT_EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL
}
