/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/registry.h"

#include <string.h>
#include <unistd.h>

#include "common/reservation-record.h"
#include "core/text.h"
#include "worker/file/state-directory.h"

#define LENGTH_MS 1000

/* The interval at which the server checks whether its directory has been replaced. */
#define CHECK_INTERVAL_US (100 * G_TIME_SPAN_MILLISECOND)

typedef struct {
	Registry registry;
	char *directory;
	Layout layout;
	guint datacenter_id;
	gboolean any_worker; /* claim any free worker ID */
	char *nonce;
	char *address;
	char *machine_id; /* NULL to use this machine's ID */
	/* worker ID that the members below are about; choose_worker_id() changes it */
	guint worker_id;
	char *record_name;
	char *record_path;
	char *lock_name;
	StateFd lock_fd; /* descriptor that holds the lock; -1 if not held */
	/* the record that this server wrote last, kept open so that no other file can get its inode
	 * number; -1 if no reservation is held */
	StateFd record_fd;
	/* (element-type utf8): the last one is the ID of the directory; the others are those of
	 * directories that it has replaced, which are kept because they were reported */
	GPtrArray *ids;
	gboolean has_begun; /* a claim has succeeded before */
	gint64 first_tick;  /* first tick of the last claimed lease */
	gint64 end_tick;    /* confirmed end of that lease */
	gint64 claimed_at_ms;
	RegistryOperation operation; /* the operation whose result the next poll() returns */
	gint64 ticks;                /* argument of RegistryOps.begin() */
} FileRegistry;

/* The contents of a record file. */
typedef struct {
	/* the text, used as version; NULL if there is no record, and nothing was ever reserved */
	char *text;
	ReservationRecord record;
} Reading;

static void reading_clear(Reading *self)
{
	g_free(self->text);
	reservation_record_clear(&self->record);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Reading, reading_clear)

/* Reads the record. @out_reading: must be empty */
static gboolean read_record(const FileRegistry *self, const StateDirectory *directory,
			    Reading *out_reading, GError **error)
{
	ReservationRecord *record = &out_reading->record;
	g_autoptr(GError) fault = NULL;
	gboolean is_parsed;

	if (!state_directory_read(directory, self->record_name, &out_reading->text, error))
		return FALSE;
	if (out_reading->text == NULL)
		return TRUE;
	is_parsed = reservation_record_from_json(out_reading->text, strlen(out_reading->text),
						 record, &fault);
	if (is_parsed && record->end_tick <= layout_max_tick(&self->layout))
		return TRUE;
	return text_set_error(
		error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		"the record %s is damaged (%s), so the end of the reservation is unknown; use "
		"another --worker-id, or write an end into it that is later than all issued IDs",
		self->record_path,
		is_parsed ? "its reserved_until_tick is past the end of the layout"
			  : fault->message);
}

static void forget_record(FileRegistry *self)
{
	state_directory_close_fd(g_steal_fd(&self->record_fd));
}

/* Reserves up to @end_tick, if the record still contains the text in @read. */
static gboolean write_record(FileRegistry *self, const StateDirectory *directory,
			     const Reading *read, gint64 end_tick, GError **error)
{
	const ReservationRecord record = {
		.end_tick = end_tick,
		.owner = self->nonce,
		.address = self->address,
	};
	g_autofree char *text = reservation_record_to_json(&record);
	StateFd written = -1;
	gboolean confirmed = state_directory_replace(directory, self->record_name, read->text, text,
						     &written, error);

	if (written >= 0) {
		forget_record(self);
		self->record_fd = written;
	}
	return confirmed;
}

static gboolean take_lock(FileRegistry *self, const StateDirectory *directory, GError **error)
{
	g_autoptr(GError) local = NULL;

	if (state_directory_take_lock(directory, self->lock_name, self->address, &self->lock_fd,
				      &local))
		return TRUE;
	if (g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST,
			    "worker %u of datacenter %u is %s; stop that server, or use another "
			    "--worker-id",
			    self->worker_id, self->datacenter_id, local->message);
	else
		g_propagate_error(error, g_steal_pointer(&local));
	return FALSE;
}

static gboolean fail_lost(const FileRegistry *self, const char *what, GError **error)
{
	return text_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST, "the record %s %s",
			      self->record_path, what);
}

/* Reads the record, and checks that this server owns it. */
static gboolean read_own_record(const FileRegistry *self, const StateDirectory *directory,
				Reading *out_reading, GError **error)
{
	const ReservationRecord *record = &out_reading->record;
	g_autofree char *other = NULL;

	if (!read_record(self, directory, out_reading, error))
		return FALSE;
	if (out_reading->text == NULL)
		return fail_lost(self, "is gone", error);
	if (!g_str_equal(record->owner, self->nonce)) {
		other = g_strdup_printf("now belongs to %s (owner %s)", record->address,
					record->owner);
		return fail_lost(self, other, error);
	}
	return TRUE;
}

/* Opens the directory again while the server runs. */
static StateDirectory *reopen_directory(const FileRegistry *self, GError **error)
{
	StateDirectory *directory = state_directory_open(self->directory, error);

	if (directory != NULL)
		state_directory_allow_links(directory);
	return directory;
}

/* Checks that the record is still the file that this server wrote. A different file may belong to
 * another server, which does not know about this server. */
static gboolean check_record(const FileRegistry *self, GError **error)
{
	g_autoptr(StateDirectory) directory = NULL;
	g_autoptr(GError) local = NULL;
	g_auto(Reading) reading = {0};

	if (self->record_fd < 0 || state_directory_is_at(self->record_path, self->record_fd))
		return TRUE;
	directory = reopen_directory(self, NULL);
	if (directory == NULL)
		return fail_lost(self, "is gone", error);
	if (!read_own_record(self, directory, &reading, &local) &&
	    g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST)) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	return fail_lost(self, "was replaced", error);
}

/* Refuses a claim because the record already reserves as many ticks as a claim could, or more. */
static gboolean refuse_claim(const FileRegistry *self, const ReservationRecord *record,
			     gint64 length_ticks, gint64 *out_wait_until_tick, GError **error)
{
	gint64 wait_until_tick = MAX(record->end_tick - length_ticks + 1, 0);
	g_autofree char *end = layout_tick_text(&self->layout, record->end_tick);
	g_autofree char *wait_until = layout_tick_text(&self->layout, wait_until_tick);

	if (record->end_tick == layout_max_tick(&self->layout))
		return text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"worker %u of datacenter %u is reserved until %s, the end of the "
			"layout; use another --worker-id",
			self->worker_id, self->datacenter_id, end);
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT,
		    "worker %u of datacenter %u is reserved until %s by an earlier run, whose "
		    "clock was ahead of this one; wait until %s, correct the clock, or use another "
		    "--worker-id",
		    self->worker_id, self->datacenter_id, end, wait_until);
	*out_wait_until_tick = wait_until_tick;
	return FALSE;
}

/* A claim in progress. If any worker ID is acceptable, it tries one after the other. */
typedef struct {
	const StateDirectory *directory;
	gint64 now_tick;
	gint64 length_ticks;
	gint64 latest_tick; /* skip records whose end is later */
	guint n_held;       /* number of worker IDs held by live processes */
	guint n_reserved;   /* number of worker IDs skipped because of their end */
	guint n_damaged;
} Claim;

/* Makes @worker_id the current worker ID, and releases the lock of the previous one. */
static void choose_worker_id(FileRegistry *self, guint worker_id)
{
	g_autofree char *stem = g_strdup_printf("worker-%u-%u", self->datacenter_id, worker_id);

	g_free(self->record_name);
	g_free(self->record_path);
	g_free(self->lock_name);
	state_directory_close_fd(g_steal_fd(&self->lock_fd));
	self->worker_id = worker_id;
	self->record_name = g_strconcat(stem, ".json", NULL);
	self->record_path = g_build_filename(self->directory, self->record_name, NULL);
	self->lock_name = g_strconcat(stem, ".lock", NULL);
}

static gboolean claim_chosen(FileRegistry *self, const Claim *claim, RegistryResult *out_result,
			     GError **error)
{
	const StateDirectory *directory = claim->directory;
	gint64 end_tick =
		MIN(claim->now_tick + claim->length_ticks, layout_max_tick(&self->layout));
	g_auto(Reading) reading = {0};

	if (!take_lock(self, directory, error) || !read_record(self, directory, &reading, error))
		return FALSE;
	if (reading.record.end_tick >= MIN(end_tick, claim->latest_tick))
		return refuse_claim(self, &reading.record, claim->length_ticks,
				    &out_result->wait_until_tick, error);
	state_directory_clean(directory, self->record_name);
	if (!write_record(self, directory, &reading, end_tick, error))
		return FALSE;
	self->has_begun = TRUE;
	self->claimed_at_ms = layout_tick_start_ms(&self->layout, claim->now_tick);
	self->first_tick = reading.record.end_tick + 1;
	self->end_tick = end_tick;
	out_result->reservation = (Reservation){
		.datacenter_id = self->datacenter_id,
		.worker_id = self->worker_id,
		.first_tick = self->first_tick,
		.end_tick = end_tick,
	};
	return TRUE;
}

/* Claims the lowest free worker ID. Returns: %FALSE without an error if there is none */
static gboolean claim_lowest(FileRegistry *self, Claim *claim, RegistryResult *out_result,
			     GError **error)
{
	guint n_workers = 1u << self->layout.worker_bits;

	claim->n_held = claim->n_reserved = claim->n_damaged = 0;
	for (guint worker_id = 0; worker_id < n_workers; worker_id++) {
		g_autoptr(GError) local = NULL;

		choose_worker_id(self, worker_id);
		if (claim_chosen(self, claim, out_result, &local))
			return TRUE;
		if (g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST)) {
			claim->n_held++;
		} else if (g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_WAIT)) {
			claim->n_reserved++;
		} else if (g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_FATAL)) {
			claim->n_damaged++;
		} else { /* claiming any other worker ID would fail in the same way */
			g_propagate_error(error, g_steal_pointer(&local));
			return FALSE;
		}
	}
	choose_worker_id(self, 0); /* releases the last lock */
	return FALSE;
}

/* Tries reservations that have ended first, because their IDs can be drawn at once. */
static gboolean claim_any(FileRegistry *self, Claim *claim, RegistryResult *out_result,
			  GError **error)
{
	g_autoptr(GError) local = NULL;

	claim->latest_tick = claim->now_tick;
	if (claim_lowest(self, claim, out_result, &local))
		return TRUE;
	claim->latest_tick = G_MAXINT64;
	if (local == NULL && claim_lowest(self, claim, out_result, &local))
		return TRUE;
	if (local != NULL) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	/* retry later, because the release of a lock causes no event */
	out_result->wait_until_tick = claim->now_tick + claim->length_ticks;
	return text_set_error(
		error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT,
		"none of the %u worker IDs of datacenter %u is free in %s: %u are held by running "
		"processes, %u are reserved by earlier runs whose clock was ahead of this one, %u "
		"are damaged; stop a process, or use a --layout with more worker IDs",
		1u << self->layout.worker_bits, self->datacenter_id, self->directory, claim->n_held,
		claim->n_reserved, claim->n_damaged);
}

/* Returns: (nullable): %NULL before the first claim */
static const char *current_id(const FileRegistry *self)
{
	return self->ids->len > 0 ? self->ids->pdata[self->ids->len - 1] : NULL;
}

static gboolean run_claim(FileRegistry *self, gint64 now_tick, gint64 length_ticks,
			  RegistryResult *out_result, GError **error)
{
	g_autoptr(StateDirectory) directory = state_directory_prepare(self->directory, error);
	Claim claim = {
		.directory = directory,
		.now_tick = now_tick,
		.length_ticks = length_ticks,
		.latest_tick = G_MAXINT64,
	};
	char id[UUID_TEXT_SIZE];

	if (directory == NULL)
		return FALSE;
	/* not done at the first claim, which checks whether the directory shares files with another
	 * one */
	if (self->has_begun)
		state_directory_allow_links(directory);
	if (!state_directory_check_identity(directory, &self->layout, self->machine_id, error) ||
	    !state_directory_get_id(directory, id, error))
		return FALSE;
	if (g_strcmp0(id, current_id(self)) != 0)
		g_ptr_array_add(self->ids, g_strdup(id));
	return self->any_worker ? claim_any(self, &claim, out_result, error)
				: claim_chosen(self, &claim, out_result, error);
}

/* Extends or releases the held reservation. */
static gboolean change_reservation(FileRegistry *self, RegistryOperation operation,
				   RegistryResult *out_result, GError **error)
{
	gint64 end_tick = self->ticks, last_tick = self->ticks;
	g_auto(Reading) reading = {0};
	g_autoptr(StateDirectory) directory = reopen_directory(self, error);

	if (directory == NULL || !take_lock(self, directory, error) ||
	    !read_own_record(self, directory, &reading, error))
		return FALSE;
	if (operation == REGISTRY_RELEASE) {
		/* publish_lease() in keeper.c can move the lease's first tick beyond the end, to
		 * keep IDs increasing. Such a lease issues no IDs, but is retired with a tick after
		 * the end, so the end must not be raised. A record that was set back must not lower
		 * this limit. */
		last_tick = MIN(MAX(self->first_tick - 1, last_tick),
				MAX(reading.record.end_tick, self->end_tick));
		return write_record(self, directory, &reading, last_tick, error);
	}
	if (reading.record.end_tick < self->end_tick)
		return fail_lost(self, "was set back", error);
	/* the record can be ahead of the confirmed end if the last step of an extension failed */
	end_tick = CLAMP(end_tick, reading.record.end_tick, layout_max_tick(&self->layout));
	if (!write_record(self, directory, &reading, end_tick, error))
		return FALSE;
	self->end_tick = end_tick;
	out_result->end_tick = end_tick;
	return TRUE;
}

static void file_registry_begin(Registry *registry, RegistryOperation operation, gint64 ticks)
{
	FileRegistry *self = (FileRegistry *)registry;

	self->operation = operation;
	self->ticks = ticks;
}

static gboolean file_registry_poll(Registry *registry, gint64 now_tick,
				   gint64 stop_by_us G_GNUC_UNUSED, RegistryReport *out_report)
{
	FileRegistry *self = (FileRegistry *)registry;
	RegistryResult result = {0};
	RegistryOperation operation = self->operation;
	gboolean is_lost = !check_record(self, &result.error);

	self->operation = REGISTRY_NONE;
	if (!is_lost && operation == REGISTRY_CLAIM) {
		run_claim(self, now_tick, self->ticks, &result, &result.error);
		/* for a claim, LOST means that a live server holds the worker ID */
		if (g_error_matches(result.error, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
			result.error->code = REGISTRY_ERROR_FATAL;
	} else if (!is_lost && operation != REGISTRY_NONE) {
		change_reservation(self, operation, &result, &result.error);
	}
	if (g_error_matches(result.error, REGISTRY_ERROR, REGISTRY_ERROR_LOST) ||
	    operation == REGISTRY_RELEASE || (operation == REGISTRY_CLAIM && result.error != NULL))
		forget_record(self);
	*out_report = (RegistryReport){
		.result = result,
		.poll_at_us = self->record_fd >= 0 ? g_get_monotonic_time() + CHECK_INTERVAL_US
						   : G_MAXINT64,
		.is_reachable = TRUE,
		.claimed_at_ms = self->claimed_at_ms,
		.registry_id = current_id(self),
	};
	return is_lost || operation != REGISTRY_NONE;
}

static void file_registry_free(Registry *registry)
{
	FileRegistry *self = (FileRegistry *)registry;

	g_free(self->directory);
	g_ptr_array_unref(self->ids);
	g_free(self->nonce);
	g_free(self->address);
	g_free(self->machine_id);
	g_free(self->record_name);
	g_free(self->record_path);
	g_free(self->lock_name);
	forget_record(self);
	state_directory_close_fd(self->lock_fd);
	g_free(self);
}

static const RegistryOps FILE_REGISTRY_OPS = {
	.begin = file_registry_begin,
	.poll = file_registry_poll,
	.free = file_registry_free,
};

Registry *file_registry_new(const FileRegistryConfig *config)
{
	FileRegistry *self = g_new0(FileRegistry, 1);

	self->registry = (Registry){
		.ops = &FILE_REGISTRY_OPS,
		.first_length_ms = LENGTH_MS,
		.max_length_ms = LENGTH_MS,
		.first_report = {.is_reachable = TRUE, .poll_at_us = G_MAXINT64},
	};
	self->directory = g_canonicalize_filename(config->directory, NULL);
	self->ids = g_ptr_array_new_with_free_func(g_free);
	self->layout = *config->layout;
	self->datacenter_id = config->datacenter_id;
	self->any_worker = config->worker_id < 0;
	self->nonce = g_strdup(config->nonce);
	self->address = g_strdup(config->address);
	self->machine_id = g_strdup(config->machine_id);
	self->lock_fd = -1;
	self->record_fd = -1;
	choose_worker_id(self, (guint)MAX(config->worker_id, 0));
	return &self->registry;
}

char *file_registry_default_directory(void)
{
	const char *named = g_getenv("STATE_DIRECTORY");
	g_autofree char *first = NULL;
	g_autofree char *of_user = NULL;

	/* systemd separates several directories by colons */
	if (named != NULL)
		named += strspn(named, ":");
	if (named != NULL && *named != '\0') {
		first = g_strndup(named, strcspn(named, ":"));
		return g_canonicalize_filename(first, NULL);
	}
	if (geteuid() == 0)
		return g_strdup("/var/lib/snowflaked");
	of_user = g_build_filename(g_get_user_state_dir(), "snowflaked", NULL);
	return g_canonicalize_filename(of_user, NULL);
}
