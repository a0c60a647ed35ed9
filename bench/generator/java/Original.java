/* SPDX-License-Identifier: Apache-2.0 */

/**
 * The original algorithm on its original platform: each ID under the lock of the object. It has 22
 * sequence bits instead of 12, so that the layout is not the limit.
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
