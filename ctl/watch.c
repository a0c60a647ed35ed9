/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/watch.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/output.h"

#define CLEAR_SCREEN "\033[H\033[J"
#define BUFFER_BYTES 65536

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

static char buffer[BUFFER_BYTES]; /* buffer of standard output */
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_ending;
static atomic_int ending_signal; /* 0 if the reader of the output has ended */
static atomic_int end_status = CTL_OK;

/* The terminal, protected by its lock. */
static struct {
	pthread_mutex_t lock;
	gboolean has_keys;
	gboolean is_set;       /* the terminal is set to report keys */
	struct termios before; /* valid if is_set: the previous settings */
} terminal = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
	sem_t wanted;
	void (*call)(gpointer data); /* NULL if never */
	void (*on_key)(char key, gpointer data);
	gpointer data;
} redraw;

/* The terminal */

/* Sets the terminal to report keys. In the background, stops the program instead, as the kernel
 * would; this function is called again when the program continues. Reads the settings again,
 * because another job may have changed them while this program was stopped. */
static void set_terminal(void)
{
	struct termios with_keys;

	pthread_mutex_lock(&terminal.lock);
	if (terminal.has_keys && tcgetpgrp(STDIN_FILENO) != getpgrp()) {
		if (!atomic_load(&is_ending))
			raise(SIGTTOU);
	} else if (terminal.has_keys &&
		   (terminal.is_set || tcgetattr(STDIN_FILENO, &terminal.before) == 0)) {
		with_keys = terminal.before;
		with_keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		with_keys.c_cc[VMIN] = 1;
		with_keys.c_cc[VTIME] = 0;
		terminal.is_set = TRUE;
		tcsetattr(STDIN_FILENO, TCSANOW, &with_keys);
	}
	pthread_mutex_unlock(&terminal.lock);
}

/* Restores the terminal, unless another job uses it. @for_good: never set it again */
static void restore_terminal(gboolean for_good)
{
	pthread_mutex_lock(&terminal.lock);
	if (terminal.is_set && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
	terminal.is_set = FALSE;
	terminal.has_keys &= !for_good;
	pthread_mutex_unlock(&terminal.lock);
}

static void restore_terminal_for_good(void)
{
	restore_terminal(TRUE);
}

/* The end of the program */

/* @is_whole: the output ends with a complete list */
static G_NORETURN void end_now(gboolean is_whole)
{
	int number = atomic_load(&ending_signal);

	restore_terminal_for_good();
	if (number == 0 || (number == SIGINT && ctl_output_has_printed()))
		_exit(atomic_load(&end_status));
	ctl_output_end_by_signal(number, is_whole);
}

void ctl_watch_set_status(CtlStatus status)
{
	atomic_store(&end_status, status);
}

/* Ends the program as soon as the current list is printed; if called a second time, immediately. */
static void end_soon(int number)
{
	atomic_store(&ending_signal, number);
	if (atomic_exchange(&is_ending, TRUE))
		end_now(FALSE);
	if (pthread_mutex_trylock(&printing) == 0)
		end_now(TRUE);
}

/* A separate thread handles signals and keys, so that nothing delays them. */

static void on_signal(int number)
{
	sigset_t set;

	switch (number) {
	case SIGTSTP:
		/* stop with the default action, which has no effect in an orphaned process group;
		 * raise() returns when the program continues */
		restore_terminal(FALSE);
		sigemptyset(&set);
		sigaddset(&set, SIGTSTP);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		raise(SIGTSTP);
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		set_terminal();
		break;
	case SIGCONT:
		set_terminal();
		sem_post(&redraw.wanted);
		break;
	case SIGWINCH:
		sem_post(&redraw.wanted);
		break;
	default:
		end_soon(number);
	}
}

static void *listen_for_keys(void *data)
{
	struct pollfd sources[] = {
		{.fd = GPOINTER_TO_INT(data), .events = POLLIN},
		{.fd = redraw.call != NULL ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = STDOUT_FILENO}};

	for (;;) {
		struct signalfd_siginfo info;
		char keys[64];
		ssize_t length = 0;

		if (poll(sources, G_N_ELEMENTS(sources), -1) < 0)
			continue;
		if (sources[0].revents != 0 &&
		    read(sources[0].fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
			on_signal((int)info.ssi_signo);
		} else if (sources[1].revents != 0) {
			length = read(STDIN_FILENO, keys, sizeof(keys));
			if (length <= 0)
				sources[1].fd = -1;
		}
		for (ssize_t i = 0; i < length; i++) {
			if (keys[i] == 'q')
				end_soon(SIGINT);
			else
				redraw.on_key(keys[i], redraw.data);
		}
		if (length > 0)
			sem_post(&redraw.wanted);
		/* the reader of the output has ended */
		if (sources[2].revents & (POLLERR | POLLHUP))
			end_soon(0);
		else if (sources[2].revents != 0)
			sources[2].fd = -1;
	}
	return NULL;
}

/* Redraws in its own thread, so that a blocking terminal does not delay signals. */
static void *redraw_again(G_GNUC_UNUSED void *data)
{
	for (;;) {
		if (sem_wait(&redraw.wanted) != 0)
			continue;
		ctl_watch_begin_print();
		redraw.call(redraw.data);
		ctl_watch_end_print();
	}
	return NULL;
}

static gboolean start_thread(void *(*run)(void *data), gpointer data)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, data) != 0)
		return FALSE;
	pthread_detach(thread);
	return TRUE;
}

void ctl_watch_begin(void (*call)(gpointer data), void (*on_key)(char key, gpointer data),
		     gpointer data)
{
	sigset_t set;
	int signals;

	sigemptyset(&set);
	for (gsize i = 0; i < G_N_ELEMENTS(SIGNALS); i++) {
		struct sigaction action = {0};

		/* ignored signals stay ignored, for example SIGHUP after nohup */
		if (sigaction(SIGNALS[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, SIGNALS[i]);
	}
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	terminal.has_keys = call != NULL;
	/* one write for a table avoids flicker */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	atexit(restore_terminal_for_good);
	set_terminal();
	sem_init(&redraw.wanted, 0, 0);
	redraw.call = call;
	redraw.on_key = on_key;
	redraw.data = data;
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0 || !start_thread(listen_for_keys, GINT_TO_POINTER(signals))) {
		restore_terminal_for_good();
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		return;
	}
	if (call != NULL)
		start_thread(redraw_again, NULL);
}

void ctl_watch_end(void)
{
	pthread_mutex_lock(&printing);
}

void ctl_watch_begin_print(void)
{
	pthread_mutex_lock(&printing);
}

void ctl_watch_end_print(void)
{
	ctl_output_flush();
	pthread_mutex_unlock(&printing);
	/* another thread that is printing now ends the program in the same way */
	if (atomic_load(&is_ending) && pthread_mutex_trylock(&printing) == 0)
		end_now(TRUE);
}

void ctl_watch_draw(const char *text)
{
	pid_t foreground = tcgetpgrp(STDOUT_FILENO);

	if (foreground < 0 || foreground == getpgrp())
		ctl_output_print("%s%s", CLEAR_SCREEN, text);
}
