/* SPDX-License-Identifier: Apache-2.0 */

/** What is measured. Any thread may ask it for IDs. */
interface Subject extends AutoCloseable {
    long next();

    @Override
    void close();
}
