package storage.benthic;

/** A step of a {@link ReadOp} that returns a T; {@link Reply#get} returns its output. */
public final class Step<T> {
    /** Reads the output of a step. */
    interface Decoder<T> {
        T decode(long reply, long step);
    }

    final ReadOp op;
    final int at;
    final Decoder<T> decoder;

    Step(ReadOp op, int at, Decoder<T> decoder) {
        this.op = op;
        this.at = at;
        this.decoder = decoder;
    }
}
