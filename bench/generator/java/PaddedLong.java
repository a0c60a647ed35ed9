/* SPDX-License-Identifier: Apache-2.0 */

import java.util.concurrent.atomic.AtomicLong;

/** An atomic long that shares its cache line with no other. */
final class PaddedLong extends AtomicLong {
    private static final long serialVersionUID = 1L;

    /* volatile, so that the compiler keeps them */
    volatile long pad1;
    volatile long pad2;
    volatile long pad3;
    volatile long pad4;
    volatile long pad5;
    volatile long pad6;

    PaddedLong(long value) {
        super(value);
    }
}
