/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/file-sink.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
	char *directory, *path, *renamed;
} Fixture;

static void set_up(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	self->directory = g_dir_make_tmp("audit-XXXXXX", NULL);
	self->path = g_build_filename(self->directory, "log", NULL);
	self->renamed = g_build_filename(self->directory, "log.1", NULL);
}

static void tear_down(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	g_unlink(self->path);
	g_unlink(self->renamed);
	g_rmdir(self->directory);
	g_free(self->directory);
	g_free(self->path);
	g_free(self->renamed);
}

static AuditSink *open_sink(const Fixture *self)
{
	g_autoptr(GError) error = NULL;
	AuditSink *sink = file_sink_new(self->path, &error);

	g_assert_no_error(error);
	return sink;
}

static gboolean write_text(AuditSink *sink, const char *text)
{
	g_autoptr(GByteArray) lines = g_byte_array_new();
	g_autoptr(GError) error = NULL;

	g_byte_array_append(lines, (const guint8 *)text, (guint)strlen(text));
	return sink->ops->write(sink, lines, 1000, &error);
}

static void reopen(AuditSink *sink, const char *at_hand)
{
	g_autoptr(GByteArray) lines = g_byte_array_new();
	g_autoptr(GError) error = NULL;

	g_byte_array_append(lines, (const guint8 *)at_hand, (guint)strlen(at_hand));
	g_assert_true(sink->ops->reopen(sink, lines, &error));
	g_assert_no_error(error);
}

static void assert_text(const char *path, const char *expected)
{
	g_autofree char *text = NULL;

	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_assert_cmpstr(text, ==, expected);
}

/* A disk with so much room, as far as one file is concerned. */
static void limit_file(rlim_t bytes)
{
	struct rlimit limit;

	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &limit), ==, 0);
	limit.rlim_cur = bytes;
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
}

static void test_append(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	AuditSink *sink = open_sink(self);
	struct stat status;

	g_assert_true(write_text(sink, "one\ntwo\n"));
	g_assert_true(write_text(sink, "three\n"));
	g_assert_true(sink->ops->sync(sink, NULL));
	sink->ops->free(sink);
	sink = open_sink(self);
	g_assert_true(write_text(sink, "four\n"));
	sink->ops->free(sink);
	assert_text(self->path, "one\ntwo\nthree\nfour\n");
	g_assert_cmpint(stat(self->path, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 0777, ==, 0640);
}

/* What somebody who was killed left. */
static void test_half_a_line(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	AuditSink *sink;

	g_assert_true(g_file_set_contents(self->path, "one\ntw", -1, NULL));
	sink = open_sink(self);
	assert_text(self->path, "one\ntw");
	g_assert_true(write_text(sink, "three\n"));
	g_assert_true(write_text(sink, "four\n"));
	sink->ops->free(sink);
	assert_text(self->path, "one\ntw\nthree\nfour\n");
}

static void test_renamed(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	AuditSink *sink = open_sink(self);

	g_assert_true(write_text(sink, "one\n"));
	g_assert_cmpint(g_rename(self->path, self->renamed), ==, 0);
	g_assert_true(write_text(sink, "two\n"));
	reopen(sink, "");
	g_assert_true(write_text(sink, "three\n"));
	sink->ops->free(sink);
	assert_text(self->renamed, "one\ntwo\n");
	assert_text(self->path, "three\n");
}

static void test_cannot_reopen(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	AuditSink *sink = open_sink(self);
	g_autoptr(GByteArray) lines = g_byte_array_new();
	g_autoptr(GError) error = NULL;

	g_assert_cmpint(g_rename(self->path, self->renamed), ==, 0);
	g_assert_cmpint(g_mkdir(self->path, 0700), ==, 0);
	g_assert_false(sink->ops->reopen(sink, lines, &error));
	g_assert_nonnull(strstr(error->message, self->path));
	g_assert_true(write_text(sink, "one\n"));
	sink->ops->free(sink);
	assert_text(self->renamed, "one\n");
	g_assert_cmpint(g_rmdir(self->path), ==, 0);
}

/* The rest goes on where the disk was full. */
static void test_full(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	AuditSink *sink = open_sink(self);

	limit_file(6);
	g_assert_false(write_text(sink, "one\ntwo\nthree\n"));
	g_assert_false(write_text(sink, "one\ntwo\nthree\n"));
	assert_text(self->path, "one\ntw");
	limit_file(RLIM_INFINITY);
	g_assert_true(write_text(sink, "one\ntwo\nthree\n"));
	g_assert_true(write_text(sink, "four\n"));
	sink->ops->free(sink);
	assert_text(self->path, "one\ntwo\nthree\nfour\n");
}

/* A line that is begun in the old file is in the new one as a whole. */
static void test_full_and_renamed(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	AuditSink *sink = open_sink(self);

	limit_file(6);
	g_assert_false(write_text(sink, "one\ntwo\nthree\n"));
	limit_file(RLIM_INFINITY);
	g_assert_cmpint(g_rename(self->path, self->renamed), ==, 0);
	reopen(sink, "one\ntwo\nthree\n");
	g_assert_true(write_text(sink, "one\ntwo\nthree\n"));
	sink->ops->free(sink);
	assert_text(self->renamed, "one\ntw");
	assert_text(self->path, "two\nthree\n");
}

static void test_refused(Fixture *self, gconstpointer data G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *beyond = g_build_filename(self->directory, "none", "log", NULL);
	const char *const paths[] = {self->directory, beyond, "/dev/null", self->path};

	g_assert_cmpint(mkfifo(self->path, 0600), ==, 0);
	for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
		g_assert_null(file_sink_new(paths[i], &error));
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, paths[i]));
		g_clear_error(&error);
	}
}

static void add(const char *path, void (*test)(Fixture *, gconstpointer))
{
	g_test_add(path, Fixture, NULL, set_up, test, tear_down);
}

int main(int argc, char **argv)
{
	signal(SIGXFSZ, SIG_IGN);
	umask(0027);
	g_test_init(&argc, &argv, NULL);
	add("/file-sink/append", test_append);
	add("/file-sink/half-a-line", test_half_a_line);
	add("/file-sink/renamed", test_renamed);
	add("/file-sink/cannot-reopen", test_cannot_reopen);
	add("/file-sink/full", test_full);
	add("/file-sink/full-and-renamed", test_full_and_renamed);
	add("/file-sink/refused", test_refused);
	return g_test_run();
}
