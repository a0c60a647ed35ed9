/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "client/ctl-output.h"
#include "client/ctl.h"

#define CLEAR_SCREEN "\033[H\033[J"
#define BUFFER_BYTES 65536

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT};

static char buffer[BUFFER_BYTES]; /* of standard output */
static gboolean has_keys;
static struct termios before; /* with has_keys */
static atomic_bool is_set;    /* the terminal, for keys */
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_ending;
static atomic_int ending_signal; /* 0: as it was asked for */

/* The terminal. One that another job has now is left alone. */

static void set_terminal(void)
{
	struct termios with_keys = before;

	if (!has_keys || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	with_keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	with_keys.c_cc[VMIN] = 1;
	with_keys.c_cc[VTIME] = 0;
	atomic_store(&is_set, TRUE);
	tcsetattr(STDIN_FILENO, TCSANOW, &with_keys);
}

static void set_back(void)
{
	if (atomic_exchange(&is_set, FALSE))
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* The end */

static G_NORETURN void end_now(void)
{
	int number = atomic_load(&ending_signal);
	sigset_t set;

	set_back();
	if (number != 0) {
		sigemptyset(&set);
		sigaddset(&set, number);
		signal(number, SIG_DFL);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		raise(number);
	}
	_exit(CTL_OK);
}

/* As soon as nothing is half printed; the second time, at once. */
static void end(int number)
{
	gboolean again;

	atomic_store(&ending_signal, number);
	again = atomic_exchange(&is_ending, TRUE);
	if (again || pthread_mutex_trylock(&printing) == 0)
		end_now();
}

/* A thread hears signals and keys, whatever the others wait for. */

static void stop(void)
{
	set_back();
	kill(getpid(), SIGSTOP);
}

static void on_signal(int number)
{
	switch (number) {
	case SIGINT:
		end(0);
		break;
	case SIGTSTP:
		stop();
		break;
	case SIGCONT:
		set_terminal();
		break;
	default:
		end(number);
	}
}

/* %FALSE: there will be none any more. */
static gboolean read_keys(void)
{
	char keys[64];
	ssize_t length = read(STDIN_FILENO, keys, sizeof(keys));

	if (length > 0 && memchr(keys, 'q', (gsize)length) != NULL)
		end(0);
	return length > 0;
}

static void *listen(void *data)
{
	struct pollfd sources[] = {{.fd = GPOINTER_TO_INT(data), .events = POLLIN},
				   {.events = POLLIN},
				   {.fd = STDOUT_FILENO}};

	for (;;) {
		struct signalfd_siginfo info;

		/* what is typed while it is in the background is for others */
		sources[1].fd = atomic_load(&is_set) ? STDIN_FILENO : -1;
		if (poll(sources, G_N_ELEMENTS(sources), -1) < 0)
			continue;
		if (sources[0].revents != 0 &&
		    read(sources[0].fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
			on_signal((int)info.ssi_signo);
		if (sources[1].revents != 0 && !read_keys())
			set_back();
		/* what nobody will read any more */
		if (sources[2].revents & (POLLERR | POLLHUP))
			end(0);
		else if (sources[2].revents != 0)
			sources[2].fd = -1;
	}
	return NULL;
}

/* Not those that whoever started it has it ignore, as nohup does. */
static void choose_signals(sigset_t *out_set)
{
	sigemptyset(out_set);
	for (gsize i = 0; i < G_N_ELEMENTS(SIGNALS); i++) {
		struct sigaction action = {0};

		if (sigaction(SIGNALS[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(out_set, SIGNALS[i]);
	}
}

void ctl_watch_begin(void)
{
	sigset_t set;
	pthread_t thread;
	int signals;

	choose_signals(&set);
	/* it would stop a job in the background that sets the terminal back */
	sigaddset(&set, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigdelset(&set, SIGTTOU);
	has_keys = isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
	/* a table in one write, so that it does not flicker */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	atexit(set_back);
	set_terminal();
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0 || pthread_create(&thread, NULL, listen, GINT_TO_POINTER(signals)) != 0) {
		set_back();
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		return;
	}
	pthread_detach(thread);
}

void ctl_watch_begin_print(gboolean redraws)
{
	pthread_mutex_lock(&printing);
	if (redraws)
		ctl_output_print(CLEAR_SCREEN);
}

void ctl_watch_end_print(void)
{
	ctl_output_flush();
	pthread_mutex_unlock(&printing);
	if (atomic_load(&is_ending))
		end_now();
}

void ctl_watch_print_time(void)
{
	g_autoptr(GDateTime) now = g_date_time_new_now_local();
	g_autofree char *time = g_date_time_format(now, "%Y-%m-%dT%H:%M:%S%:z");

	ctl_output_print("%s%s\n", time, atomic_load(&is_set) ? "  (q ends it)" : "");
}

guint ctl_watch_lines(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
		return size.ws_row;
	return G_MAXUINT;
}
