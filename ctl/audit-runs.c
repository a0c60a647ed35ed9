/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/audit-runs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/interrupt.h"

G_STATIC_ASSERT(CTL_AUDIT_RECORD_MAX_BYTES <= CTL_AUDIT_MERGE_RUN_BYTES);

struct _CtlAuditRuns {
	FILE *file;
	GArray *ends; /* of gint64: where each run does */
	gint64 bytes;
};

static gboolean fail(const char *what, GError **error)
{
	int number = errno;

	g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(number),
		    "cannot %s a temporary file in %s: %s; TMPDIR names another directory", what,
		    g_get_tmp_dir(), g_strerror(number));
	return FALSE;
}

CtlAuditRuns *ctl_audit_runs_new(GError **error)
{
	g_autofree char *path = g_build_filename(g_get_tmp_dir(), "snowflakectl-XXXXXX", NULL);
	FILE *file = NULL;
	int fd;

	/* Ctrl-C does not come while it has a name */
	ctl_interrupt_hold();
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0 && unlink(path) == 0)
		file = fdopen(fd, "w+");
	if (file == NULL)
		fail("make", error);
	ctl_interrupt_release();
	if (file == NULL) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}

	CtlAuditRuns *self = g_new0(CtlAuditRuns, 1);

	self->file = file;
	self->ends = g_array_new(FALSE, FALSE, sizeof(gint64));
	return self;
}

void ctl_audit_runs_free(CtlAuditRuns *self)
{
	if (self == NULL)
		return;
	fclose(self->file);
	g_array_unref(self->ends);
	g_free(self);
}

gboolean ctl_audit_runs_append(CtlAuditRuns *self, const CtlAuditRecord *record, GError **error)
{
	gsize bytes = ctl_audit_record_bytes(record);

	self->bytes += (gint64)bytes;
	return fwrite_unlocked(record, bytes, 1, self->file) == 1 || fail("write", error);
}

gboolean ctl_audit_runs_end_run(CtlAuditRuns *self, GError **error)
{
	g_array_append_val(self->ends, self->bytes);
	return fflush(self->file) == 0 || fail("write", error);
}

guint ctl_audit_runs_count(const CtlAuditRuns *self)
{
	return self->ends->len;
}

typedef struct {
	gint64 at; /* in the file: where it was not read from yet */
	gint64 end;
	gsize begin; /* in the block: its next record */
	gsize filled;
	char *block;
} Source;

struct _CtlAuditMerge {
	int fd;
	Source *sources;
	guint n_sources;
	/* those that have a record left, as a heap: none has a smaller one than the first */
	Source **heap;
	guint n_left;
	gboolean is_given; /* the record of the first */
	char *blocks;
};

static const CtlAuditRecord *record_of(const Source *source)
{
	return (const CtlAuditRecord *)(const void *)(source->block + source->begin);
}

static gboolean has_record(const Source *source)
{
	gsize left = source->filled - source->begin;

	return left >= sizeof(CtlAuditRecord) && left >= ctl_audit_record_bytes(record_of(source));
}

/* Has all of its next record in the block, if there is one. */
static gboolean fill(Source *source, int fd, GError **error)
{
	if (has_record(source) || source->at == source->end)
		return TRUE;
	source->filled -= source->begin;
	memmove(source->block, source->block + source->begin, source->filled);
	source->begin = 0;
	while (source->filled < CTL_AUDIT_MERGE_RUN_BYTES && source->at < source->end) {
		gsize wanted = MIN(CTL_AUDIT_MERGE_RUN_BYTES - source->filled,
				   (guint64)(source->end - source->at));
		ssize_t n_read = pread(fd, source->block + source->filled, wanted, source->at);

		if (n_read == 0)
			errno = EIO; /* somebody has cut it off */
		if (n_read <= 0)
			return fail("read", error);
		source->filled += (gsize)n_read;
		source->at += n_read;
	}
	return TRUE;
}

static gboolean is_before(const Source *a, const Source *b)
{
	return ctl_audit_record_compare(record_of(a), record_of(b)) < 0;
}

/* The first may be too large for its place. */
static void sift_down(CtlAuditMerge *self, guint place)
{
	Source *source = self->heap[place];

	for (guint child; (child = 2 * place + 1) < self->n_left; place = child) {
		if (child + 1 < self->n_left && is_before(self->heap[child + 1], self->heap[child]))
			child++;
		if (!is_before(self->heap[child], source))
			break;
		self->heap[place] = self->heap[child];
	}
	self->heap[place] = source;
}

static gboolean open_sources(CtlAuditMerge *self, GError **error)
{
	for (guint i = 0; i < self->n_sources; i++) {
		Source *source = &self->sources[i];

		if (!fill(source, self->fd, error))
			return FALSE;
		if (has_record(source))
			self->heap[self->n_left++] = source;
	}
	for (guint i = self->n_left / 2; i > 0; i--)
		sift_down(self, i - 1);
	return TRUE;
}

CtlAuditMerge *ctl_audit_merge_new(const CtlAuditRuns *runs, guint first, guint count,
				   GError **error)
{
	g_autoptr(CtlAuditMerge) self = g_new0(CtlAuditMerge, 1);

	self->fd = fileno(runs->file);
	self->n_sources = MIN(count, runs->ends->len - first);
	self->sources = g_new0(Source, self->n_sources);
	self->heap = g_new(Source *, self->n_sources);
	self->blocks = g_malloc(self->n_sources * CTL_AUDIT_MERGE_RUN_BYTES);
	for (guint i = 0; i < self->n_sources; i++) {
		guint number = first + i;

		self->sources[i] = (Source){
			.at = number > 0 ? g_array_index(runs->ends, gint64, number - 1) : 0,
			.end = g_array_index(runs->ends, gint64, number),
			.block = self->blocks + i * CTL_AUDIT_MERGE_RUN_BYTES,
		};
	}
	return open_sources(self, error) ? g_steal_pointer(&self) : NULL;
}

void ctl_audit_merge_free(CtlAuditMerge *self)
{
	if (self == NULL)
		return;
	g_free(self->sources);
	g_free(self->heap);
	g_free(self->blocks);
	g_free(self);
}

/* Past the record that was given. */
static gboolean advance(CtlAuditMerge *self, GError **error)
{
	Source *source = self->heap[0];

	source->begin += ctl_audit_record_bytes(record_of(source));
	if (!fill(source, self->fd, error))
		return FALSE;
	if (!has_record(source))
		self->heap[0] = self->heap[--self->n_left];
	sift_down(self, 0);
	return TRUE;
}

const CtlAuditRecord *ctl_audit_merge_next(CtlAuditMerge *self, GError **error)
{
	if (self->is_given && !advance(self, error))
		return NULL;
	self->is_given = self->n_left > 0;
	return self->is_given ? record_of(self->heap[0]) : NULL;
}
