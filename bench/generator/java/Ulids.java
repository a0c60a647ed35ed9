/* SPDX-License-Identifier: Apache-2.0 */

/** ULIDs, each by itself or each greater than the last, as bytes or as text. */
final class Ulids implements Subject {
    private final boolean monotonic;
    private final boolean text;
    private Ulid last = new Ulid(0, 0);

    Ulids(boolean monotonic, boolean text) {
        this.monotonic = monotonic;
        this.text = text;
    }

    @Override
    public long next() {
        Ulid ulid = monotonic ? drawMonotonic() : Ulid.random(System.currentTimeMillis());
        return text ? ulid.toString().charAt(25) : ulid.toBytes()[15];
    }

    @Override
    public long sample() {
        return monotonic ? drawMonotonic().low() : Ulid.random(System.currentTimeMillis()).low();
    }

    @Override
    public boolean increases() {
        return false;
    }

    private synchronized Ulid drawMonotonic() {
        long nowMs = System.currentTimeMillis();
        last = nowMs > last.timeMs() ? Ulid.random(nowMs) : last.increment();
        return last;
    }

    @Override
    public void close() {
    }
}
