/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The path of a file with a certificate of this process's own, which vouches for itself, and with
 * its key. For as long as the process lives. Borrowed. */
const char *certificate_file(void);
