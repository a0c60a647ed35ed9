/* SPDX-License-Identifier: Apache-2.0 */
#include "server/signals.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/log.h"
#include "options/options-table.h"
#include "server/certificates.h"

static const int STOPS[] = {SIGTERM, SIGINT, SIGQUIT};

/* In addition to the real-time signals. Their default action ends the process, see signal(7). */
static const int OTHERS[] = {SIGHUP, SIGUSR1, SIGUSR2,   SIGALRM, SIGVTALRM, SIGPROF,
			     SIGIO,  SIGPWR,  SIGSTKFLT, SIGXCPU, SIGXFSZ};

static sigset_t stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (gsize i = 0; i < G_N_ELEMENTS(STOPS); i++)
		sigaddset(&set, STOPS[i]);
	return set;
}

static sigset_t watched_signals(void)
{
	sigset_t set = stop_signals();

	for (gsize i = 0; i < G_N_ELEMENTS(OTHERS); i++)
		sigaddset(&set, OTHERS[i]);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		sigaddset(&set, number);
	return set;
}

/* The stop */

/* Least time for the release and the audit log, if --stop-timeout is short or was used up. */
#define LAST_STEPS_LEAST_MS 1000

/* Time that a stop may take beyond its options: the last answers and replies, LAST_STEPS_LEAST_MS,
 * the end of the keeper and of its session, and a margin. */
#define STOP_SPARE_MS 5000

/* The stop takes @within_ms and STOP_SPARE_MS. */
static void notify_systemd(gint64 within_ms)
{
	sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" G_GINT64_FORMAT,
		   1000 * (within_ms + STOP_SPARE_MS));
}

static void begin_stop(Server *self, const char *signal)
{
	gint64 delay_ms = self->options->drain_delay_ms;
	sigset_t set = stop_signals();

	self->service.draining = TRUE;
	log_event(LOG_STOPPING, log_text("signal", signal), log_number("drain_ms", delay_ms));
	notify_systemd(delay_ms + self->options->stop_timeout_ms);
	/* the next such signal ends the process at once */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	g_timeout_add_once((guint)delay_ms, (GSourceOnceFunc)g_main_loop_quit, self->loop);
}

static gint64 sum_of(const Server *self, Counter counter)
{
	return (gint64)counter_set_sum(self->counters, counter);
}

void signals_stop_threads(Server *self)
{
	gint64 timeout_ms = self->options->stop_timeout_ms;
	gint64 began_us = g_get_monotonic_time();
	gint64 left_ms;
	gboolean source_ended;

	/* again: a failure sets neither, and --stop-timeout can have been reread */
	self->service.draining = TRUE;
	notify_systemd(timeout_ms);
	health_put_off_checks(&self->health, timeout_ms + STOP_SPARE_MS);
	rpc_server_stop(self->rpc, timeout_ms);
	if (self->admin != NULL)
		admin_stop(self->admin);
	/* from here on no IDs are drawn */
	left_ms = MAX(timeout_ms - (g_get_monotonic_time() - began_us) / 1000, LAST_STEPS_LEAST_MS);
	audit_log_finish(self->audit, g_get_monotonic_time() + left_ms * 1000);
	source_ended = self->source->ops->stop(self->source, left_ms);
	audit_log_join(self->audit);
	log_tell_suppressed();
	log_event(LOG_STOPPED, log_number("ids", sum_of(self, COUNTER_IDS_GENERATED)),
		  log_number("calls", sum_of(self, COUNTER_CALLS)),
		  log_number("exceptions", sum_of(self, COUNTER_EXCEPTIONS)),
		  log_number("uptime_s",
			     (g_get_monotonic_time() - self->started_us) / G_USEC_PER_SEC));
	if (source_ended)
		return;
	log_event(LOG_FAILED, log_text("error", "the worker ID was not handed back in time"));
	_exit(EXIT_FAILURE); /* its thread may still use all that would be freed */
}

/* The reload */

static gboolean is_same_field(const OptionSpec *spec, const Options *a, const Options *b)
{
	g_autofree char *text_a = options_text_of(a, spec);
	g_autofree char *text_b = options_text_of(b, spec);

	return g_strcmp0(text_a, text_b) == 0;
}

static void take_field(const OptionSpec *spec, Options *to, const Options *from)
{
	gsize size = spec->type == OPTION_NUMBER ? sizeof(gint64) : sizeof(guint);

	if (spec->type == OPTION_ALLOW) {
		allow_list_unref(to->allow);
		to->allow = allow_list_ref(from->allow);
		return;
	}
	g_assert(spec->type == OPTION_NUMBER || spec->type == OPTION_CHOICE);
	memcpy((char *)to + spec->offset, (const char *)from + spec->offset, size);
}

/* Takes the options that are reread, and logs the others that differ. */
static void take_options(Server *self, const Options *next, guint sender)
{
	Options *options = self->options;
	LogLevel before = options->log_level;
	g_autoptr(GString) changed = g_string_new(NULL);
	g_autoptr(GString) needs_restart = g_string_new(NULL);

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		GString *names = spec->reread ? changed : needs_restart;

		if (is_same_field(spec, options, next))
			continue;
		g_string_append_printf(names, "%s%s", names->len > 0 ? "," : "", spec->name);
		if (spec->reread)
			take_field(spec, options, next);
	}
	/* a level that suppresses this line takes effect after it */
	log_set_level(MAX(before, options->log_level));
	log_event(LOG_RELOAD, log_number("pid", sender),
		  log_text("changed", changed->len > 0 ? changed->str : "none"),
		  log_text("needs_restart", needs_restart->len > 0 ? needs_restart->str : "none"));
	log_set_level(options->log_level);
	rpc_server_set_max_per_address(self->rpc, (guint)options->max_connections_per_address);
	rpc_server_set_allow(self->rpc, options->allow);
	/* other reread options, such as drain-delay, are read when they are needed */
}

/* A name in --allow is shown by a certificate, which a server requests only if it was started with
 * --tls-client-ca. Without it such a list would admit nobody. */
static gboolean check_allow(const Server *self, const Options *next, GError **error)
{
	if (!allow_list_has_names(next->allow) || self->options->tls_client_ca != NULL)
		return TRUE;
	g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
			    "allow: " ALLOW_LIST_NAME_PREFIX
			    "NAME needs tls-client-ca, which is read at the start: restart it");
	return FALSE;
}

static void reload_options(Server *self, guint sender)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) next = options_new_again(self->options, &error);

	audit_log_reopen(self->audit);
	if (next == NULL || !check_allow(self, next, &error)) {
		log_event(LOG_RELOAD_FAILED, log_number("pid", sender),
			  log_text("error", error->message));
		return;
	}
	take_options(self, next, sender);
	if (!certificates_read(self, &error))
		log_event(LOG_RELOAD_FAILED, log_number("pid", sender),
			  log_text("error", error->message));
}

/* Signals */

/* Of several signals that request the stop at once, one is handled. Others are handled first. */
static gboolean on_signal(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	struct signalfd_siginfo info, stop = {0};
	Server *self = user_data;
	sigset_t set = stop_signals();

	while (read(fd, &info, sizeof info) == sizeof info) {
		int number = (int)info.ssi_signo;

		if (sigismember(&set, number))
			stop = info;
		else if (number == SIGHUP)
			reload_options(self, info.ssi_pid);
		else
			log_event(LOG_SIGNAL_IGNORED, log_text("signal", strsignal(number)),
				  log_number("pid", info.ssi_pid));
	}
	if (stop.ssi_signo != 0)
		begin_stop(self, strsignal((int)stop.ssi_signo));
	return G_SOURCE_CONTINUE;
}

void signals_hold_reload(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

gboolean signals_watch(Server *self, GError **error)
{
	sigset_t set = watched_signals();
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK); /* as long as the process */

	if (fd < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot watch for signals: %s", g_strerror(errno));
		return FALSE;
	}
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	g_unix_fd_add(fd, G_IO_IN, on_signal, self);
	return TRUE;
}
