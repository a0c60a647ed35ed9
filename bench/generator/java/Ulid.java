/* SPDX-License-Identifier: Apache-2.0 */

import java.util.concurrent.ThreadLocalRandom;

/** A ULID as the libraries for Java have it: two longs, of which bytes and text are made. */
record Ulid(long high, long low) {
    private static final char[] DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ".toCharArray();
    private static final int TEXT_LENGTH = 26;
    private static final int BYTES = 16;
    private static final long RANDOM_HIGH_MASK = 0xffff;

    static Ulid random(long timeMs) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        return new Ulid(timeMs << 16 | random.nextLong() & RANDOM_HIGH_MASK, random.nextLong());
    }

    long timeMs() {
        return high >>> 16;
    }

    /** The next one of the same millisecond. */
    Ulid increment() {
        if (low != -1) {
            return new Ulid(high, low + 1);
        }
        if ((high & RANDOM_HIGH_MASK) != RANDOM_HIGH_MASK) {
            return new Ulid(high + 1, 0);
        }
        throw new IllegalStateException("no ULIDs are left in the millisecond");
    }

    byte[] toBytes() {
        byte[] bytes = new byte[BYTES];
        for (int i = 0; i < 8; i++) {
            bytes[i] = (byte) (high >>> 56 - 8 * i);
            bytes[8 + i] = (byte) (low >>> 56 - 8 * i);
        }
        return bytes;
    }

    @Override
    public String toString() {
        char[] text = new char[TEXT_LENGTH];
        putDigits(text, 0, 10, high >>> 16);
        putDigits(text, 10, 8, (high & RANDOM_HIGH_MASK) << 24 | low >>> 40);
        putDigits(text, 18, 8, low);
        return new String(text);
    }

    private static void putDigits(char[] text, int start, int count, long bits) {
        for (int i = 0; i < count; i++) {
            text[start + i] = DIGITS[(int) (bits >>> 5 * (count - 1 - i)) & 31];
        }
    }
}
