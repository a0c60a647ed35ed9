/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log-journal.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* JOURNAL_STREAM is inherited by children whose standard error may be something else, hence the
 * comparison. */
gboolean log_journal_is_stderr(void)
{
	const char *stream = g_getenv("JOURNAL_STREAM");
	char own[64];
	struct stat st;

	if (stream == NULL || fstat(STDERR_FILENO, &st) != 0)
		return FALSE;
	g_snprintf(own, sizeof own, "%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT, (guint64)st.st_dev,
		   (guint64)st.st_ino);
	return strcmp(stream, own) == 0;
}

gboolean log_journal_send(const GString *datagram)
{
	static const struct sockaddr_un JOURNAL = {
		.sun_family = AF_UNIX,
		.sun_path = "/run/systemd/journal/socket",
	};
	static int fd = -1; /* as long as the process */

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* by its name each time: another journald may have made another */
	return sendto(fd, datagram->str, datagram->len, MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)&JOURNAL, sizeof JOURNAL) == (ssize_t)datagram->len;
}
