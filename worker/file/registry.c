/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/registry.h"

#include <string.h>
#include <unistd.h>

#include "common/reservation-record.h"
#include "worker/file/directory-identity.h"
#include "worker/file/lock.h"
#include "worker/file/state-directory.h"

#define LENGTH_MS 1000

/* How long nobody notices that the directory was replaced. */
#define LOOK_EVERY_US (100 * G_TIME_SPAN_MILLISECOND)

typedef struct {
	Registry registry;
	char *directory;
	Layout layout;
	guint datacenter_id;
	gboolean any_worker; /* whatever is free */
	char *nonce;
	char *address;
	char *machine_id; /* NULL: this machine's */
	guint worker_id;  /* that what follows is of: choose() changes it */
	char *record_name;
	char *record_path;
	FileLock *lock;
	StateFd record_fd; /* the record as this server wrote it last, kept open so that no other
			      file has its inode; -1: nothing is held */
	gboolean runs;     /* it has claimed once */
	gint64 first_tick; /* of the lease that was claimed last */
	gint64 end_tick;   /* of it, as confirmed */
	gint64 claimed_at_ms;
	RegistryOperation wanted; /* of poll(), once */
	gint64 argument;          /* its length_ticks, end_tick or last_tick */
} FileRegistry;

/* What was read. */
typedef struct {
	char *text; /* its version; NULL: there is no record, and nothing was ever reserved */
	ReservationRecord record;
} Reading;

static void reading_clear(Reading *self)
{
	g_free(self->text);
	reservation_record_clear(&self->record);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Reading, reading_clear)

static gboolean parse(Reading *self, const Layout *layout, GError **error)
{
	if (!reservation_record_from_json(self->text, strlen(self->text), &self->record, error))
		return FALSE;
	if (self->record.end_tick <= layout_max_tick(layout))
		return TRUE;
	g_set_error_literal(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "its reserved_until_tick is past the end of the layout");
	return FALSE;
}

/* @out_reading must be empty. */
static gboolean read_record(const FileRegistry *self, const StateDirectory *directory,
			    Reading *out_reading, GError **error)
{
	g_autoptr(GError) fault = NULL;

	if (!state_directory_read(directory, self->record_name, &out_reading->text, error))
		return FALSE;
	if (out_reading->text == NULL || parse(out_reading, &self->layout, &fault))
		return TRUE;
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "the record %s is damaged (%s), so that nobody knows what was reserved: use "
		    "another --worker-id, or write an end into it that is past every ID",
		    self->record_path, fault->message);
	return FALSE;
}

static void forget_record(FileRegistry *self)
{
	if (self->record_fd >= 0)
		state_directory_close_fd(self->record_fd);
	self->record_fd = -1;
}

/* Reserves up to @end_tick, if the record still is what was read. */
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

static gboolean take_lock(const FileRegistry *self, const StateDirectory *directory, GError **error)
{
	g_autoptr(GError) local = NULL;

	if (file_lock_take(self->lock, directory, &local))
		return TRUE;
	if (g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST,
			    "worker %u of datacenter %u is %s: stop that server, or use another "
			    "--worker-id",
			    self->worker_id, self->datacenter_id, local->message);
	else
		g_propagate_error(error, g_steal_pointer(&local));
	return FALSE;
}

static gboolean lose(const FileRegistry *self, const char *what, GError **error)
{
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST, "the record %s %s",
		    self->record_path, what);
	return FALSE;
}

/* Reads the record, which must be mine. */
static gboolean read_own_record(const FileRegistry *self, const StateDirectory *directory,
				Reading *out_reading, GError **error)
{
	const ReservationRecord *record = &out_reading->record;
	g_autofree char *other = NULL;

	if (!read_record(self, directory, out_reading, error))
		return FALSE;
	if (out_reading->text == NULL)
		return lose(self, "is gone", error);
	if (!g_str_equal(record->owner, self->nonce)) {
		other = g_strdup_printf("is now of %s (owner %s)", record->address, record->owner);
		return lose(self, other, error);
	}
	return TRUE;
}

/* The directory of a server that runs. */
static StateDirectory *open_again(const FileRegistry *self, GError **error)
{
	StateDirectory *directory = state_directory_open(self->directory, error);

	if (directory != NULL)
		state_directory_allow_links(directory);
	return directory;
}

/* Whether the record still is the file that this server wrote. Anything else may be the record of
 * another server already, which knows nothing of this one. */
static gboolean check_record(const FileRegistry *self, GError **error)
{
	g_autoptr(StateDirectory) directory = NULL;
	g_autoptr(GError) local = NULL;
	g_auto(Reading) reading = {0};

	if (self->record_fd < 0 || state_directory_is_at(self->record_path, self->record_fd))
		return TRUE;
	directory = open_again(self, NULL);
	if (directory == NULL)
		return lose(self, "is gone", error);
	if (!read_own_record(self, directory, &reading, &local) &&
	    g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST)) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	return lose(self, "was replaced", error);
}

/* The record is as far ahead as a claim now could reserve up to. */
static gboolean refuse_claim(const FileRegistry *self, const ReservationRecord *record,
			     gint64 length_ticks, gint64 *out_wait_until_tick, GError **error)
{
	gint64 wait_until_tick = MAX(record->end_tick - length_ticks + 1, 0);
	g_autofree char *end = layout_tick_text(&self->layout, record->end_tick);
	g_autofree char *wait_until = layout_tick_text(&self->layout, wait_until_tick);

	if (record->end_tick == layout_max_tick(&self->layout)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "worker %u of datacenter %u is reserved up to %s, the end of the "
			    "layout: use another --worker-id",
			    self->worker_id, self->datacenter_id, end);
		return FALSE;
	}
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT,
		    "worker %u of datacenter %u is reserved up to %s by a life before, whose clock "
		    "was ahead of this one: wait until %s, set the clock right, or use another "
		    "--worker-id",
		    self->worker_id, self->datacenter_id, end, wait_until);
	*out_wait_until_tick = wait_until_tick;
	return FALSE;
}

static StateDirectory *prepare(const FileRegistry *self, GError **error)
{
	StateDirectory *directory = state_directory_prepare(self->directory, error);

	/* not at a start, which finds out that the directory shares its files with another */
	if (directory != NULL && self->runs)
		state_directory_allow_links(directory);
	return directory;
}

/* A claim that is under way: of one worker ID after the other, if any will do. */
typedef struct {
	const StateDirectory *directory;
	gint64 now_tick;
	gint64 length_ticks;
	gint64 latest_tick; /* what ends later is left alone */
	guint n_held;       /* by live processes */
	guint n_reserved;   /* later than that */
	guint n_damaged;
} Claim;

/* From here on it is about @worker_id. Lets go of the lock of the one before. */
static void choose(FileRegistry *self, guint worker_id)
{
	g_autofree char *stem = g_strdup_printf("worker-%u-%u", self->datacenter_id, worker_id);
	g_autofree char *lock_name = g_strconcat(stem, ".lock", NULL);

	g_free(self->record_name);
	g_free(self->record_path);
	file_lock_free(self->lock);
	self->worker_id = worker_id;
	self->record_name = g_strconcat(stem, ".json", NULL);
	self->record_path = g_build_filename(self->directory, self->record_name, NULL);
	self->lock = file_lock_new(lock_name, self->address);
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
	self->runs = TRUE;
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

/* Whether @error leaves hope for another worker ID. */
static gboolean pass_over(Claim *claim, const GError *error)
{
	if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
		claim->n_held++;
	else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT))
		claim->n_reserved++;
	else if (g_error_matches(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL))
		claim->n_damaged++;
	else
		return FALSE;
	return TRUE;
}

/* The lowest that is free. %FALSE without an error: there is none. */
static gboolean claim_lowest(FileRegistry *self, Claim *claim, RegistryResult *out_result,
			     GError **error)
{
	guint n_workers = 1u << self->layout.worker_bits;

	claim->n_held = claim->n_reserved = claim->n_damaged = 0;
	for (guint worker_id = 0; worker_id < n_workers; worker_id++) {
		g_autoptr(GError) local = NULL;

		choose(self, worker_id);
		if (claim_chosen(self, claim, out_result, &local))
			return TRUE;
		if (!pass_over(claim, local)) {
			g_propagate_error(error, g_steal_pointer(&local));
			return FALSE;
		}
	}
	choose(self, 0); /* lets go of the last lock */
	return FALSE;
}

/* First among those that are over, whose IDs can be drawn at once. */
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
	/* nobody tells when a lock is let go of */
	out_result->wait_until_tick = claim->now_tick + claim->length_ticks;
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_WAIT,
		    "none of the %u worker IDs of datacenter %u is free in %s: %u are held by live "
		    "processes, %u are reserved by lives before whose clock was ahead of this one, "
		    "%u are damaged: stop a process, or use a --layout with more",
		    1u << self->layout.worker_bits, self->datacenter_id, self->directory,
		    claim->n_held, claim->n_reserved, claim->n_damaged);
	return FALSE;
}

static gboolean claim(FileRegistry *self, gint64 now_tick, gint64 length_ticks,
		      RegistryResult *out_result, GError **error)
{
	g_autoptr(StateDirectory) directory = prepare(self, error);
	Claim claim = {
		.directory = directory,
		.now_tick = now_tick,
		.length_ticks = length_ticks,
		.latest_tick = G_MAXINT64,
	};

	if (directory == NULL ||
	    !directory_identity_check(directory, &self->layout, self->machine_id, error))
		return FALSE;
	return self->any_worker ? claim_any(self, &claim, out_result, error)
				: claim_chosen(self, &claim, out_result, error);
}

/* Opens the directory and takes in what is held there. */
static StateDirectory *open_held(const FileRegistry *self, Reading *out_reading, GError **error)
{
	g_autoptr(StateDirectory) directory = open_again(self, error);

	if (directory == NULL || !take_lock(self, directory, error) ||
	    !read_own_record(self, directory, out_reading, error))
		return NULL;
	return g_steal_pointer(&directory);
}

static gboolean extend(FileRegistry *self, gint64 end_tick, RegistryResult *out_result,
		       GError **error)
{
	g_auto(Reading) reading = {0};
	g_autoptr(StateDirectory) directory = open_held(self, &reading, error);

	if (directory == NULL)
		return FALSE;
	if (reading.record.end_tick < self->end_tick)
		return lose(self, "was set back", error);
	/* The record may be ahead of what was confirmed: an extension whose last step failed. */
	end_tick = CLAMP(end_tick, reading.record.end_tick, layout_max_tick(&self->layout));
	if (!write_record(self, directory, &reading, end_tick, error))
		return FALSE;
	self->end_tick = end_tick;
	out_result->end_tick = end_tick;
	return TRUE;
}

static gboolean hand_back(FileRegistry *self, gint64 last_tick, GError **error)
{
	g_auto(Reading) reading = {0};
	g_autoptr(StateDirectory) directory = open_held(self, &reading, error);

	if (directory == NULL)
		return FALSE;
	/* a lease that begins after its end, to keep the order of IDs, has issued nothing; a
	 * record that was set back does not lower the end of one that has */
	last_tick = MIN(MAX(self->first_tick - 1, last_tick),
			MAX(reading.record.end_tick, self->end_tick));
	return write_record(self, directory, &reading, last_tick, error);
}

static void file_registry_claim(Registry *registry, gint64 length_ticks)
{
	FileRegistry *self = (FileRegistry *)registry;

	self->wanted = REGISTRY_CLAIM;
	self->argument = length_ticks;
}

static void file_registry_extend(Registry *registry, gint64 end_tick)
{
	FileRegistry *self = (FileRegistry *)registry;

	self->wanted = REGISTRY_EXTEND;
	self->argument = end_tick;
}

static void file_registry_hand_back(Registry *registry, gint64 last_tick)
{
	FileRegistry *self = (FileRegistry *)registry;

	self->wanted = REGISTRY_HAND_BACK;
	self->argument = last_tick;
}

static void run_operation(FileRegistry *self, gint64 now_tick, RegistryResult *out_result)
{
	GError **error = &out_result->error;

	switch (self->wanted) {
	case REGISTRY_NONE:
		break;
	case REGISTRY_CLAIM:
		claim(self, now_tick, self->argument, out_result, error);
		/* to a live server */
		if (g_error_matches(*error, REGISTRY_ERROR, REGISTRY_ERROR_LOST))
			(*error)->code = REGISTRY_ERROR_FATAL;
		break;
	case REGISTRY_EXTEND:
		extend(self, self->argument, out_result, error);
		break;
	case REGISTRY_HAND_BACK:
		hand_back(self, self->argument, error);
		break;
	}
}

static gboolean file_registry_poll(Registry *registry, gint64 now_tick,
				   gint64 stop_by_us G_GNUC_UNUSED, RegistryReport *out_report)
{
	FileRegistry *self = (FileRegistry *)registry;
	RegistryResult result = {0};
	gboolean is_lost = !check_record(self, &result.error);
	gboolean has_ended = is_lost || self->wanted != REGISTRY_NONE;

	if (!is_lost)
		run_operation(self, now_tick, &result);
	if (g_error_matches(result.error, REGISTRY_ERROR, REGISTRY_ERROR_LOST) ||
	    self->wanted == REGISTRY_HAND_BACK ||
	    (self->wanted == REGISTRY_CLAIM && result.error != NULL))
		forget_record(self);
	self->wanted = REGISTRY_NONE;
	*out_report = (RegistryReport){
		.result = result,
		.poll_at_us =
			self->record_fd >= 0 ? g_get_monotonic_time() + LOOK_EVERY_US : G_MAXINT64,
		.is_reachable = TRUE,
		.claimed_at_ms = self->claimed_at_ms,
	};
	return has_ended;
}

static void file_registry_free(Registry *registry)
{
	FileRegistry *self = (FileRegistry *)registry;

	g_free(self->directory);
	g_free(self->nonce);
	g_free(self->address);
	g_free(self->machine_id);
	g_free(self->record_name);
	g_free(self->record_path);
	forget_record(self);
	file_lock_free(self->lock);
	g_free(self);
}

static const RegistryOps FILE_REGISTRY_OPS = {
	.claim = file_registry_claim,
	.extend = file_registry_extend,
	.hand_back = file_registry_hand_back,
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
	self->layout = *config->layout;
	self->datacenter_id = config->datacenter_id;
	self->any_worker = config->worker_id < 0;
	self->nonce = g_strdup(config->nonce);
	self->address = g_strdup(config->address);
	self->machine_id = g_strdup(config->machine_id);
	self->record_fd = -1;
	choose(self, (guint)MAX(config->worker_id, 0));
	return &self->registry;
}

/* (transfer full): systemd names several directories with colons between. */
static char *first_named(const char *named)
{
	named += strspn(named, ":");
	return g_strndup(named, strcspn(named, ":"));
}

char *file_registry_default_directory(void)
{
	const char *named = g_getenv("STATE_DIRECTORY");
	g_autofree char *first = first_named(named != NULL ? named : "");
	g_autofree char *of_user = NULL;

	if (*first != '\0')
		return g_canonicalize_filename(first, NULL);
	if (geteuid() == 0)
		return g_strdup("/var/lib/snowflaked");
	of_user = g_build_filename(g_get_user_state_dir(), "snowflaked", NULL);
	return g_canonicalize_filename(of_user, NULL);
}
