package storage.benthic;

/** The name of an object, and its namespace; the default one is empty. */
public record ObjectName(String namespace, String name) {}
