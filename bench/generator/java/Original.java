/* SPDX-License-Identifier: Apache-2.0 */

/**
 * The algorithm of 2010 on the platform that it had: every ID under the object's lock. With 22
 * sequence bits instead of 12, so that it is not the layout that is measured.
 */
final class Original implements Subject {
    private static final long EPOCH_MS = 1288834974657L;
    private static final int SEQUENCE_BITS = 22;

    private long lastMs = -1;
    private long sequence;

    @Override
    public synchronized long next() {
        long nowMs = System.currentTimeMillis();
        if (nowMs < lastMs) {
            throw new IllegalStateException("the clock stepped back");
        }
        if (nowMs == lastMs) {
            sequence = sequence + 1 & (1L << SEQUENCE_BITS) - 1;
            while (sequence == 0 && nowMs <= lastMs) {
                nowMs = System.currentTimeMillis();
            }
        } else {
            sequence = 0;
        }
        lastMs = nowMs;
        return nowMs - EPOCH_MS << SEQUENCE_BITS | sequence;
    }

    @Override
    public void close() {
    }
}
