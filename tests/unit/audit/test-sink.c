/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/sink.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIT_TEST_SET_UP set_up_all
#include "tests/unit/unit-test.h"

typedef struct {
	char *directory, *path, *renamed;
} Files;

static Files files_new(void)
{
	Files self = {.directory = g_dir_make_tmp("audit-XXXXXX", NULL)};

	self.path = g_build_filename(self.directory, "log", NULL);
	self.renamed = g_build_filename(self.directory, "log.1", NULL);
	return self;
}

static void files_clear(Files *self)
{
	g_unlink(self->path);
	g_unlink(self->renamed);
	g_rmdir(self->directory);
	g_free(self->directory);
	g_free(self->path);
	g_free(self->renamed);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Files, files_clear)

static AuditSink *open_sink(const Files *self)
{
	g_autoptr(GError) error = NULL;
	AuditSink *sink = audit_sink_new_file(self->path, &error);

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

/* Limits the size of a file, as a full disk does. */
static void limit_file(rlim_t bytes)
{
	struct rlimit limit;

	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &limit), ==, 0);
	limit.rlim_cur = bytes;
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
}

/* A killed process left half a line. */
TEST("/file-sink/half-a-line", test_half_a_line)
{
	g_auto(Files) files = files_new();
	AuditSink *sink;

	g_assert_true(g_file_set_contents(files.path, "one\ntw", -1, NULL));
	sink = open_sink(&files);
	assert_text(files.path, "one\ntw");
	g_assert_true(write_text(sink, "three\n"));
	g_assert_true(write_text(sink, "four\n"));
	sink->ops->free(sink);
	assert_text(files.path, "one\ntw\nthree\nfour\n");
}

TEST("/file-sink/renamed", test_renamed)
{
	g_auto(Files) files = files_new();
	AuditSink *sink = open_sink(&files);
	struct stat status;

	g_assert_true(write_text(sink, "one\n"));
	g_assert_cmpint(g_rename(files.path, files.renamed), ==, 0);
	g_assert_true(write_text(sink, "two\n"));
	reopen(sink, "");
	g_assert_true(write_text(sink, "three\n"));
	g_assert_true(sink->ops->sync(sink, NULL));
	sink->ops->free(sink);
	assert_text(files.renamed, "one\ntwo\n");
	assert_text(files.path, "three\n");
	g_assert_cmpint(stat(files.path, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 0777, ==, 0640);
}

/* The rest of a line follows where the disk was full. */
TEST("/file-sink/full", test_full)
{
	g_auto(Files) files = files_new();
	AuditSink *sink = open_sink(&files);

	limit_file(6);
	g_assert_false(write_text(sink, "one\ntwo\nthree\n"));
	g_assert_false(write_text(sink, "one\ntwo\nthree\n"));
	assert_text(files.path, "one\ntw");
	limit_file(RLIM_INFINITY);
	g_assert_true(write_text(sink, "one\ntwo\nthree\n"));
	g_assert_true(write_text(sink, "four\n"));
	sink->ops->free(sink);
	assert_text(files.path, "one\ntwo\nthree\nfour\n");
}

/* A line begun in the old file is complete in the new one. */
TEST("/file-sink/full-and-renamed", test_full_and_renamed)
{
	g_auto(Files) files = files_new();
	AuditSink *sink = open_sink(&files);

	limit_file(6);
	g_assert_false(write_text(sink, "one\ntwo\nthree\n"));
	limit_file(RLIM_INFINITY);
	g_assert_cmpint(g_rename(files.path, files.renamed), ==, 0);
	reopen(sink, "one\ntwo\nthree\n");
	g_assert_true(write_text(sink, "one\ntwo\nthree\n"));
	sink->ops->free(sink);
	assert_text(files.renamed, "one\ntw");
	assert_text(files.path, "two\nthree\n");
}

TEST("/file-sink/refused", test_refused)
{
	g_auto(Files) files = files_new();
	g_autoptr(GError) error = NULL;
	g_autofree char *beyond = g_build_filename(files.directory, "none", "log", NULL);
	const char *const paths[] = {files.directory, beyond, "/dev/null", files.path};

	g_assert_cmpint(mkfifo(files.path, 0600), ==, 0);
	for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
		g_assert_null(audit_sink_new_file(paths[i], &error));
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, paths[i]));
		g_clear_error(&error);
	}
}

static void set_up_all(void)
{
	signal(SIGXFSZ, SIG_IGN);
	umask(0027);
}

TEST("/target/good", test_good)
{
	static const struct {
		const char *text;
		const char *path, *address, *category;
	} cases[] = {
		{"file:/var/log/audit", "/var/log/audit", NULL, NULL},
		{"file:/a b", "/a b", NULL, NULL},
		{"scribe://localhost", NULL, "localhost:1463", "snowflake"},
		{"scribe://localhost:7", NULL, "localhost:7", "snowflake"},
		{"scribe://localhost/ids", NULL, "localhost:1463", "ids"},
		{"scribe://10.0.0.1:7/ids", NULL, "10.0.0.1:7", "ids"},
		{"scribe://[::1]", NULL, "[::1]:1463", "snowflake"},
		{"scribe://[::1]:7/ids", NULL, "[::1]:7", "ids"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(AuditTarget) target = audit_target_parse(cases[i].text, &error);

		g_test_message("%s", cases[i].text);
		g_assert_no_error(error);
		g_assert_cmpstr(target->text, ==, cases[i].text);
		g_assert_cmpstr(target->path, ==, cases[i].path);
		g_assert_cmpstr(target->address ? target->address->text : NULL, ==,
				cases[i].address);
		g_assert_cmpstr(target->category, ==, cases[i].category);
	}
}

TEST("/target/bad", test_bad)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "\"\" is neither file:PATH nor scribe://*"},
		{"/var/log/audit", "\"/var/log/audit\" is neither*"},
		{"file:", "\"file:\" is not an absolute path"},
		{"file:audit", "\"file:audit\" is not an absolute path"},
		{"scribe:localhost", "* is neither file:PATH nor *"},
		{"scribe://", "\"scribe://\" has no server*"},
		{"scribe:///ids", "\"scribe:///ids\" has no server*"},
		{"scribe://localhost:", "\"localhost:\" *"},
		{"scribe://localhost:0", "\"localhost:0\" *"},
		{"scribe://localhost:65536", "\"localhost:65536\" *"},
		{"scribe://*:1", "\"?:1\" *"},
		{"scribe://::1", "\"::1\" *"},
		{"scribe://localhost/", "* has no category after the server*"},
		{"scribe://localhost/a/b", "* has no category after the server*"},
		{"scribe://localhost/a b", "* has no category after the server*"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", cases[i].text);
		g_assert_null(audit_target_parse(cases[i].text, &error));
		g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
		g_test_message("%s", error->message);
		g_assert_true(g_pattern_match_simple(cases[i].error, error->message));
	}
}
