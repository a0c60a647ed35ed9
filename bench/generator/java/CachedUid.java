/* SPDX-License-Identifier: Apache-2.0 */

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The algorithm of Baidu's CachedUidGenerator with its defaults: 28 bits of seconds, 22 of worker,
 * 13 of sequence. IDs are made ahead, the 8,192 of a whole second at a time, from future
 * seconds, and wait in a ring of 65,536 slots. A thread that takes one and finds less than half of
 * the ring left starts the refill in a pool of threads.
 *
 * <p>It is treated kindly: there is no logging, and where the original throws an exception when
 * the ring is empty, this one lets others run and tries again. The original finds the ring empty
 * by comparing the cursor with what it was before; if another thread took the last ID in between,
 * it fails, or gives out that ID once more. This one looks at the step that it made itself.
 */
final class CachedUid implements Subject {
    private static final long EPOCH_S = 1463673600L;
    private static final int WORKER_BITS = 22;
    private static final int SEQUENCE_BITS = 13;
    private static final int PER_SECOND = 1 << SEQUENCE_BITS;
    private static final int BOOST_POWER = 3;
    private static final int SIZE = PER_SECOND << BOOST_POWER;
    private static final int PADDING_PERCENT = 50;
    private static final int THRESHOLD = SIZE * PADDING_PERCENT / 100;
    private static final long WORKER_ID = 1;
    private static final long CAN_PUT = 0;
    private static final long CAN_TAKE = 1;
    private static final long NONE = -1;

    private final long[] slots = new long[SIZE];
    private final PaddedLong[] flags = new PaddedLong[SIZE];
    /* positions of the last ID put and of the last taken; they only grow */
    private final AtomicLong tail = new PaddedLong(-1);
    private final AtomicLong cursor = new PaddedLong(-1);

    private final AtomicBoolean padding = new AtomicBoolean();
    private final PaddedLong lastSecond = new PaddedLong(System.currentTimeMillis() / 1000);
    private final ExecutorService pool =
            Executors.newFixedThreadPool(2 * Runtime.getRuntime().availableProcessors());

    CachedUid() {
        for (int i = 0; i < SIZE; i++) {
            flags[i] = new PaddedLong(CAN_PUT);
        }
        pad();
    }

    @Override
    public long next() {
        long id = take();
        while (id == NONE) {
            Thread.yield();
            id = take();
        }
        return id;
    }

    private long take() {
        long last;
        boolean empty;
        do {
            last = cursor.get();
            empty = last == tail.get();
        } while (!empty && !cursor.compareAndSet(last, last + 1));
        long mine = empty ? last : last + 1;
        if (tail.get() - mine < THRESHOLD) {
            pool.submit(this::pad);
        }
        if (empty) {
            return NONE;
        }

        PaddedLong flag = flags[index(mine)];
        if (flag.get() != CAN_TAKE) {
            throw new IllegalStateException("took a slot that was not filled");
        }
        long id = slots[index(mine)];
        flag.set(CAN_PUT);
        return id;
    }

    private synchronized boolean put(long id) {
        long last = tail.get();
        if (last - Math.max(cursor.get(), 0) == SIZE - 1) {
            return false;
        }
        int next = index(last + 1);
        if (flags[next].get() != CAN_PUT) {
            return false;
        }
        slots[next] = id;
        flags[next].set(CAN_TAKE);
        tail.incrementAndGet();
        return true;
    }

    private void pad() {
        if (!padding.compareAndSet(false, true)) {
            return;
        }
        boolean full = false;
        while (!full) {
            for (long id : idsOf(lastSecond.incrementAndGet())) {
                if (!put(id)) {
                    full = true;
                    break;
                }
            }
        }
        padding.set(false);
    }

    private static List<Long> idsOf(long second) {
        long first = (second - EPOCH_S << WORKER_BITS | WORKER_ID) << SEQUENCE_BITS;
        List<Long> ids = new ArrayList<>(PER_SECOND);
        for (int i = 0; i < PER_SECOND; i++) {
            ids.add(first + i);
        }
        return ids;
    }

    private static int index(long position) {
        return (int) (position & SIZE - 1);
    }

    @Override
    public void close() {
        pool.shutdownNow();
    }
}
