/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/local-socket.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/open-fds.h"

#define UNIT_TEST_SET_UP    set_up_all
#define UNIT_TEST_TEAR_DOWN tear_down_all
#include "tests/unit/unit-test.h"

#define NOBODY 65534

static const SocketFileAccess ANYBODY = {.mode = 0666, .gid = (gid_t)-1};

static char *directory;

static char *in_directory(const char *name)
{
	return g_build_filename(directory, name, NULL);
}

static GPtrArray *listeners_new(void)
{
	return g_ptr_array_new_with_free_func((GDestroyNotify)listener_free);
}

static guint16 port_of(const Listener *listener)
{
	g_autofree char *address = listener_address(listener);

	return (guint16)g_ascii_strtoull(strrchr(address, ':') + 1, NULL, 10);
}

/* Who connects from here, accepted; to be closed. */
static int accept_one(const Listener *listener, Origin *out_origin)
{
	struct pollfd one = {.fd = listener_fd(listener), .events = POLLIN};

	g_assert_cmpint(poll(&one, 1, HANG_GUARD_MS), ==, 1);
	return listener_accept(listener, out_origin);
}

static int option_of(int fd, int level, int option)
{
	int value = 0;

	g_assert_cmpint(getsockopt(fd, level, option, &value, &(socklen_t){sizeof value}), ==, 0);
	return value;
}

static int connect_to(guint16 port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
	return fd;
}

/* By address, by name, and all there are: a client of IPv4 gets in. */
TEST("/listener/hosts", test_hosts)
{
	static const char *const HOSTS[] = {"127.0.0.1", "localhost", "*"};

	for (gsize i = 0; i < G_N_ELEMENTS(HOSTS); i++) {
		g_autoptr(GPtrArray) listeners = listeners_new();
		g_autoptr(GError) error = NULL;
		g_autofree char *text = NULL;
		Listener *listener;
		Origin origin;
		int client, accepted;

		g_assert_true(listener_open(HOSTS[i], 0, listeners, &error));
		g_assert_no_error(error);
		listener = listeners->pdata[listeners->len - 1]; /* IPv6 is before */
		g_assert_false(listener_is_local(listener) || listener_is_tls(listener) ||
			       listener_is_adopted(listener));
		client = connect_to(port_of(listener));
		accepted = accept_one(listener, &origin);
		g_assert_cmpint(accepted, >=, 0);
		text = origin_text(&origin);
		g_assert_cmpstr(text, ==, "127.0.0.1");
		g_assert_cmpint(option_of(accepted, IPPROTO_TCP, TCP_NODELAY), !=, 0);
		g_assert_cmpint(option_of(accepted, SOL_SOCKET, SO_KEEPALIVE), !=, 0);
		g_assert_cmpint(fcntl(accepted, F_GETFL) & O_NONBLOCK, !=, 0);
		g_assert_cmpint(fcntl(accepted, F_GETFD) & FD_CLOEXEC, !=, 0);
		g_assert_cmpint(listener_accept(listener, &origin), ==, -1);
		g_assert_cmpint(errno, ==, EAGAIN);
		listener_set_tls(listener);
		g_clear_pointer(&text, g_free);
		text = listener_address(listener);
		g_assert_true(g_str_has_prefix(text, "tls:"));
		close(accepted);
		close(client);
	}
}

/* What cannot be opened is told of, and leaves what was there before. */
static void assert_refused(const char *host, guint16 port, const char *message)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autoptr(GError) error = NULL;
	guint before;

	g_assert_true(listener_open("127.0.0.1", 0, listeners, NULL));
	before = count_open_fds();
	g_assert_false(listener_open(host, port, listeners, &error));
	g_assert_nonnull(error);
	g_assert_cmpstr(error->message, ==, message);
	g_assert_cmpuint(listeners->len, ==, 1);
	g_assert_cmpuint(count_open_fds(), ==, before);
}

TEST("/listener/hosts-that-are-none", test_hosts_that_are_none)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autofree char *used = NULL, *all = NULL;
	guint16 port;

	assert_refused("192.0.2.7", 0,
		       "cannot listen on 192.0.2.7 port 0: Cannot assign requested address");
	assert_refused("no host.invalid", 7,
		       "cannot listen on no host.invalid: Name or service not known");
	g_assert_true(listener_open("127.0.0.1", 0, listeners, NULL));
	port = port_of(listeners->pdata[0]);
	used = g_strdup_printf("cannot listen on 127.0.0.1 port %u: Address already in use", port);
	assert_refused("127.0.0.1", port, used);
	all = g_strdup_printf("cannot listen on * port %u: Address already in use", port);
	assert_refused("*", port, all);
}

/* Does what needs a descriptor, with none to be had but so many; the limit is as before then. */
static void with_few_descriptors(guint n_left, void (*act)(GPtrArray *listeners, GError **error),
				 GPtrArray *listeners, GError **error)
{
	struct rlimit limit, low;
	g_autoptr(GArray) fds = g_array_new(FALSE, FALSE, sizeof(int));
	int fd;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
	low = (struct rlimit){MIN(limit.rlim_cur, 64), limit.rlim_max};
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &low), ==, 0);
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		g_array_append_val(fds, fd);
	for (guint i = 0; i < n_left; i++)
		close(g_array_index(fds, int, i));
	act(listeners, error);
	for (guint i = n_left; i < fds->len; i++)
		close(g_array_index(fds, int, i));
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

static void open_address(GPtrArray *listeners, GError **error)
{
	g_assert_false(listener_open("127.0.0.1", 0, listeners, error));
}

static void open_abstract(GPtrArray *listeners, GError **error)
{
	g_assert_false(listener_open_local("@test-listener", &ANYBODY, listeners, error));
}

static void open_file(GPtrArray *listeners, GError **error)
{
	g_autofree char *path = in_directory("ids");

	g_assert_false(listener_open_local(path, &ANYBODY, listeners, error));
	g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
}

TEST("/listener/no-descriptors", test_no_descriptors)
{
	static const struct {
		void (*open)(GPtrArray *listeners, GError **error);
		guint n_left;
		const char *words;
	} CASES[] = {
		{open_address, 0, "cannot listen on 127.0.0.1 port 0: Too many open files"},
		{open_abstract, 0, "cannot listen on unix:@test-listener: Too many open files"},
		{open_file, 0, "cannot open and lock the directory "},
		{open_file, 1, "/ids: Too many open files"}, /* the lock has that one */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GPtrArray) listeners = listeners_new();
		g_autoptr(GError) error = NULL;
		guint before = count_open_fds();

		with_few_descriptors(CASES[i].n_left, CASES[i].open, listeners, &error);
		g_assert_error(error, G_IO_ERROR, G_IO_ERROR_TOO_MANY_OPEN_FILES);
		g_assert_nonnull(strstr(error->message, CASES[i].words));
		g_assert_cmpuint(listeners->len, ==, 0);
		g_assert_cmpuint(count_open_fds(), ==, before);
	}
}

static void assert_open_local(const char *path, const SocketFileAccess *access,
			      GPtrArray *listeners)
{
	g_autoptr(GError) error = NULL;
	gboolean opened = listener_open_local(path, access, listeners, &error);

	g_assert_no_error(error);
	g_assert_true(opened);
	g_assert_true(listener_is_local(listeners->pdata[listeners->len - 1]));
}

static void assert_local_refused(const char *path, const char *format, const char *argument)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autofree char *why = g_strdup_printf("%s%s", format, argument);
	g_autofree char *message = g_strdup_printf("cannot listen on unix:%s: %s", path, why);
	g_autoptr(GError) error = NULL;
	guint before = count_open_fds();

	g_assert_false(listener_open_local(path, &ANYBODY, listeners, &error));
	g_assert_nonnull(error);
	g_assert_cmpstr(error->message, ==, message);
	g_assert_cmpuint(listeners->len, ==, 0);
	g_assert_cmpuint(count_open_fds(), ==, before);
}

/* A local socket is of the user who connects, has the mode that was asked for, and is gone with its
 * listener. */
TEST("/listener/local", test_local)
{
	g_autofree char *file = in_directory("ids");
	g_autofree char *abstract = g_strdup_printf("@test-listener-%d", getpid());
	const char *const PATHS[] = {file, abstract};

	for (gsize i = 0; i < G_N_ELEMENTS(PATHS); i++) {
		const SocketFileAccess access = {.mode = 0640, .gid = getgid()};
		g_autofree char *expected = g_strconcat("unix:", PATHS[i], NULL);
		g_autofree char *user = g_strdup_printf("unix:uid=%u", getuid());
		g_autofree char *text = NULL, *address = NULL;
		g_autoptr(GPtrArray) listeners = listeners_new();
		struct stat made;
		Origin origin;
		int client, accepted;

		assert_open_local(PATHS[i], &access, listeners);
		address = listener_address(listeners->pdata[0]);
		g_assert_cmpstr(address, ==, expected);
		g_assert_true((stat(file, &made) == 0) == (*PATHS[i] == '/'));
		if (*PATHS[i] == '/')
			g_assert_cmpuint(made.st_mode & 0777, ==, 0640);
		client = local_socket_connect(PATHS[i], HANG_GUARD_MS);
		accepted = accept_one(listeners->pdata[0], &origin);
		text = origin_text(&origin);
		g_assert_cmpstr(text, ==, user);
		close(client);
		close(accepted);
	}
	g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
}

TEST("/listener/local-in-use", test_local_in_use)
{
	g_autofree char *file = in_directory("ids");
	g_autofree char *abstract = g_strdup_printf("@test-listener-%d", getpid());
	g_autoptr(GPtrArray) listeners = listeners_new();

	assert_open_local(file, &ANYBODY, listeners);
	assert_open_local(abstract, &ANYBODY, listeners);
	assert_local_refused(file, "somebody listens there already: stop that, or use another path",
			     "");
	assert_local_refused(abstract, "somebody listens there already; use another name", "");
	g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
}

/* Somebody who listens with as many that wait as may is there too. */
TEST("/listener/local-in-use-and-crowded", test_local_in_use_and_crowded)
{
	g_autofree char *file = in_directory("ids");
	struct sockaddr_un address;
	socklen_t length = local_socket_address(file, &address);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client;

	g_assert_cmpint(bind(listener, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(listener, 0), ==, 0);
	client = local_socket_connect(file, HANG_GUARD_MS);
	g_assert_cmpint(client, >=, 0);
	assert_local_refused(file, "somebody listens there already: stop that, or use another path",
			     "");
	close(client);
	close(listener);
	g_assert_cmpint(g_unlink(file), ==, 0);
}

/* What a server that was killed has left is taken over; what is no socket is not. */
TEST("/listener/local-left-behind", test_local_left_behind)
{
	g_autofree char *file = in_directory("ids"), *elsewhere = in_directory("elsewhere");
	g_autoptr(GPtrArray) listeners = listeners_new();
	struct sockaddr_un address;
	socklen_t length = local_socket_address(file, &address);
	int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client;

	g_assert_cmpint(bind(stale, (struct sockaddr *)&address, length), ==, 0);
	close(stale);
	assert_open_local(file, &ANYBODY, listeners);
	client = local_socket_connect(file, HANG_GUARD_MS);
	g_assert_cmpint(client, >=, 0);
	close(client);
	g_ptr_array_set_size(listeners, 0);

	g_assert_true(g_file_set_contents(file, "precious", -1, NULL));
	assert_local_refused(
		file, "there is a file that is no socket: remove it, or use another path", "");
	g_assert_cmpint(g_unlink(file), ==, 0);
	g_assert_cmpint(mkfifo(file, 0600), ==, 0);
	assert_local_refused(
		file, "there is a file that is no socket: remove it, or use another path", "");
	g_assert_cmpint(g_unlink(file), ==, 0);

	/* a link to a socket */
	stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(stale, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(g_rename(file, elsewhere), ==, 0);
	g_assert_cmpint(symlink(elsewhere, file), ==, 0);
	assert_local_refused(
		file, "there is a file that is no socket: remove it, or use another path", "");
	g_assert_cmpint(g_unlink(file), ==, 0);
	g_assert_cmpint(g_unlink(elsewhere), ==, 0);
	close(stale);

	/* a socket of another kind */
	stale = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(stale, (struct sockaddr *)&address, length), ==, 0);
	assert_local_refused(file, "cannot find out whether somebody listens there already: ",
			     g_strerror(EPROTOTYPE));
	close(stale);
	g_assert_cmpint(g_unlink(file), ==, 0);
}

/* The file of another, which has come in its place, stays. */
TEST("/listener/local-replaced", test_local_replaced)
{
	g_autofree char *file = in_directory("ids");
	g_autoptr(GPtrArray) first = listeners_new();
	g_autoptr(GPtrArray) second = listeners_new();

	assert_open_local(file, &ANYBODY, first);
	g_assert_cmpint(g_unlink(file), ==, 0);
	assert_open_local(file, &ANYBODY, second);
	g_ptr_array_set_size(first, 0);
	g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
	listener_withdraw(second->pdata[0]);
	g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
	listener_withdraw(second->pdata[0]);
}

TEST("/listener/local-directories", test_local_directories)
{
	g_autofree char *missing = in_directory("missing");
	g_autofree char *in_missing = in_directory("missing/ids");
	g_autofree char *file = in_directory("file");
	g_autofree char *in_file = in_directory("file/ids");
	g_autofree char *of_missing = g_strdup_printf("%s: make it, or use another", missing);
	g_autofree char *of_file = g_strdup_printf("%s: %s", file, g_strerror(ENOTDIR));
	g_autofree char *self = in_directory(".");

	assert_local_refused(in_missing, "there is no directory ", of_missing);
	g_assert_true(g_file_set_contents(file, "", 0, NULL));
	assert_local_refused(in_file, "cannot open and lock the directory ", of_file);
	g_unlink(file);
	assert_local_refused(
		self, "there is a file that is no socket: remove it, or use another path", "");
}

/* Whoever holds the lock for longer than a start takes. */
TEST("/listener/local-locked", test_local_locked)
{
	g_autofree char *path = in_directory("ids");
	g_autofree char *why = g_strdup_printf(
		"%s for 5 s: flock(1) does, or a server that hangs as it starts; end it, or use "
		"another directory",
		directory);
	int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	g_assert_cmpint(flock(lock, LOCK_EX | LOCK_NB), ==, 0);
	assert_local_refused(path, "somebody has held a lock on ", why);
	close(lock);
}

/* As a user who may do less; root may do everything. */
TEST("/listener/local-permissions", test_local_permissions)
{
	g_autofree char *path = in_directory("ids");
	g_autoptr(GPtrArray) listeners = listeners_new();
	const SocketFileAccess of_root = {.mode = 0660, .gid = 0};
	g_autofree char *why = g_strdup_printf(
		"Permission denied: the server's user must be able to write the directory %s",
		directory);
	g_autofree char *message = g_strdup_printf(
		"cannot listen on unix:%s: cannot give the socket to group 0: Operation not "
		"permitted: the server's user must be in the group",
		path);
	g_autoptr(GError) error = NULL;
	guint before = count_open_fds();

	if (getuid() != 0) {
		g_test_skip("only root can become somebody else");
		return;
	}
	g_assert_cmpint(chmod(directory, 0755), ==, 0);
	g_assert_cmpint(setegid(NOBODY), ==, 0);
	g_assert_cmpint(seteuid(NOBODY), ==, 0);
	assert_local_refused(path, why, "");
	g_assert_cmpint(seteuid(0), ==, 0);
	g_assert_cmpint(chmod(directory, 0777), ==, 0);
	g_assert_cmpint(seteuid(NOBODY), ==, 0);
	g_assert_false(listener_open_local(path, &of_root, listeners, &error));
	g_assert_cmpstr(error->message, ==, message);
	g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
	g_assert_cmpuint(count_open_fds(), ==, before);
	g_assert_cmpint(seteuid(0), ==, 0);
	g_assert_cmpint(setegid(0), ==, 0);
	g_assert_cmpint(chmod(directory, 0700), ==, 0);
}

/* In a directory where each may remove his own alone, as in /tmp, what another has left stays. */
TEST("/listener/local-left-behind-by-another", test_local_left_behind_by_another)
{
	g_autofree char *path = in_directory("ids");
	g_autofree char *why = g_strdup_printf("cannot remove the socket that was left there: %s",
					       g_strerror(EPERM));
	struct sockaddr_un address;
	socklen_t length = local_socket_address(path, &address);
	int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (getuid() != 0) {
		close(stale);
		g_test_skip("only root can become somebody else");
		return;
	}
	g_assert_cmpint(bind(stale, (struct sockaddr *)&address, length), ==, 0);
	close(stale);
	g_assert_cmpint(chmod(path, 0666), ==, 0);
	g_assert_cmpint(chmod(directory, 01777), ==, 0);
	g_assert_cmpint(seteuid(NOBODY), ==, 0);
	assert_local_refused(path, why, "");
	g_assert_cmpint(seteuid(0), ==, 0);
	g_assert_cmpint(chmod(directory, 0700), ==, 0);
	g_unlink(path);
}

/* A file system that has no room for sockets. */
TEST("/listener/local-where-nothing-is-made", test_local_where_nothing_is_made)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autoptr(GError) error = NULL;
	guint before = count_open_fds();

	g_assert_false(listener_open_local("/proc/ids", &ANYBODY, listeners, &error));
	g_assert_nonnull(error);
	g_assert_true(g_str_has_prefix(error->message, "cannot listen on unix:/proc/ids: "));
	g_assert_cmpuint(count_open_fds(), ==, before);
}

/* Sockets that others keep: what they are is asked of the kernel. */
TEST("/listener/adopted", test_adopted)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	struct sockaddr_un address;
	g_autofree char *path = in_directory("ids");
	socklen_t length = local_socket_address(path, &address);
	int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(bind(local, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(local, 1), ==, 0);
	g_assert_cmpint(listen(inet, 1), ==, 0);
	listener_adopt(local, listeners);
	listener_adopt(inet, listeners);
	g_assert_true(listener_is_local(listeners->pdata[0]));
	g_assert_false(listener_is_local(listeners->pdata[1]));
	for (guint i = 0; i < listeners->len; i++) {
		g_assert_true(listener_is_adopted(listeners->pdata[i]));
		g_assert_cmpint(fcntl(listener_fd(listeners->pdata[i]), F_GETFL) & O_NONBLOCK, !=,
				0);
	}
	g_ptr_array_set_size(listeners, 0);
	g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS)); /* theirs */
	g_unlink(path);
}

/* A pause is kept, and then whoever waits is told of again. */
typedef struct {
	guint n_calls;
	guint pause_ms;
	gint64 called_us[3];
} Ready;

static guint on_ready(Listener *listener G_GNUC_UNUSED, gpointer user_data)
{
	Ready *self = user_data;

	self->called_us[self->n_calls++] = g_get_monotonic_time();
	return self->pause_ms;
}

TEST("/listener/watch", test_watch)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	Ready ready = {.pause_ms = 50};
	int client;

	g_assert_true(listener_open("127.0.0.1", 0, listeners, NULL));
	listener_watch(listeners->pdata[0], on_ready, &ready);
	client = connect_to(port_of(listeners->pdata[0]));
	while (ready.n_calls < 2)
		g_main_context_iteration(NULL, TRUE);
	g_assert_cmpint(ready.called_us[1] - ready.called_us[0], >=, 49 * 1000);
	/* it ends in the midst of a pause */
	g_ptr_array_set_size(listeners, 0);
	g_assert_false(g_main_context_iteration(NULL, FALSE));
	close(client);
}

static void set_up_all(void)
{
	directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);
}

static void tear_down_all(void)
{
	g_rmdir(directory);
	g_free(directory);
}
