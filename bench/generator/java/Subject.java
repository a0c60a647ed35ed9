/* SPDX-License-Identifier: Apache-2.0 */

/** What is measured. Any thread may ask it for IDs. */
interface Subject extends AutoCloseable {
    long next();

    /** One more, to compare with others: of a ULID the low half. */
    default long sample() {
        return next();
    }

    /** Whether the samples of a thread increase. */
    default boolean increases() {
        return true;
    }

    @Override
    void close();
}
