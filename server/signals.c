/* SPDX-License-Identifier: Apache-2.0 */
#include "server/signals.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/signalfd.h>

static const int STOPS[] = {SIGTERM, SIGINT, SIGQUIT};

/* Beside the real-time signals. Their default action is the end of the process, see signal(7). */
static const int OTHERS[] = {SIGHUP, SIGUSR1, SIGUSR2,   SIGALRM, SIGVTALRM, SIGPROF,
			     SIGIO,  SIGPWR,  SIGSTKFLT, SIGXCPU, SIGXFSZ};

typedef struct {
	SignalHeard heard;
	gpointer user_data;
} Listener;

static sigset_t stops(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (gsize i = 0; i < G_N_ELEMENTS(STOPS); i++)
		sigaddset(&set, STOPS[i]);
	return set;
}

static sigset_t watched(void)
{
	sigset_t set = stops();

	for (gsize i = 0; i < G_N_ELEMENTS(OTHERS); i++)
		sigaddset(&set, OTHERS[i]);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		sigaddset(&set, number);
	return set;
}

static gboolean on_signal(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	const Listener *listener = user_data;
	struct signalfd_siginfo info, stop = {0};
	sigset_t ends = stops();

	while (read(fd, &info, sizeof info) == sizeof info) {
		if (sigismember(&ends, (int)info.ssi_signo))
			stop = info;
		else
			listener->heard((int)info.ssi_signo, FALSE, info.ssi_pid,
					listener->user_data);
	}
	if (stop.ssi_signo != 0)
		listener->heard((int)stop.ssi_signo, TRUE, stop.ssi_pid, listener->user_data);
	return G_SOURCE_CONTINUE;
}

void signals_hold_reload(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

gboolean signals_watch(SignalHeard heard, gpointer user_data, GError **error)
{
	sigset_t set = watched();
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK); /* as long as the process */
	Listener *listener;

	if (fd < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot watch for signals: %s", g_strerror(errno));
		return FALSE;
	}
	listener = g_new(Listener, 1);
	*listener = (Listener){heard, user_data};
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	g_unix_fd_add_full(G_PRIORITY_DEFAULT, fd, G_IO_IN, on_signal, listener, g_free);
	return TRUE;
}

void signals_kill_at_next_stop(void)
{
	sigset_t set = stops();

	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
