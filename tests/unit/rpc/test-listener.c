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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/socket.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/open-fds.h"

#define UNIT_TEST_SET_UP    set_up_all
#define UNIT_TEST_TEAR_DOWN tear_down_all
#include "tests/unit/unit-test.h"

#define NOBODY    65534
#define IN_USE    "another process is already listening there; stop it, or use a different path"
#define NO_SOCKET "a file that is not a socket exists there; remove it, or use a different path"

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

static const Listener *listener_at(const GPtrArray *listeners, guint i)
{
	return listeners->pdata[i];
}

static guint16 port_of(const Listener *listener)
{
	g_autofree char *address = listener_address(listener);

	return (guint16)g_ascii_strtoull(strrchr(address, ':') + 1, NULL, 10);
}

/* Connects from this process, and returns the accepted socket, which the caller closes. */
static int accept_one(const Listener *listener, Origin *out_origin)
{
	struct pollfd one = {.fd = listener->fd, .events = POLLIN};

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

/* With an address, a name or all addresses, an IPv4 client can connect. */
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

		g_assert_true(listener_open(HOSTS[i], 0, FALSE, listeners, &error));
		g_assert_no_error(error);
		listener = listeners->pdata[listeners->len - 1]; /* IPv6 comes first */
		g_assert_false(listener->is_local || listener->is_tls || listener->is_adopted);
		client = connect_to(port_of(listener));
		accepted = accept_one(listener, &origin);
		g_assert_cmpint(accepted, >=, 0);
		text = g_strdup(origin.text);
		g_assert_cmpstr(text, ==, "127.0.0.1");
		g_assert_cmpint(option_of(accepted, IPPROTO_TCP, TCP_NODELAY), !=, 0);
		g_assert_cmpint(option_of(accepted, SOL_SOCKET, SO_KEEPALIVE), !=, 0);
		g_assert_cmpint(fcntl(accepted, F_GETFL) & O_NONBLOCK, !=, 0);
		g_assert_cmpint(fcntl(accepted, F_GETFD) & FD_CLOEXEC, !=, 0);
		g_assert_cmpint(listener_accept(listener, &origin), ==, -1);
		g_assert_cmpint(errno, ==, EAGAIN);
		listener->is_tls = TRUE;
		g_clear_pointer(&text, g_free);
		text = listener_address(listener);
		g_assert_true(g_str_has_prefix(text, "tls:"));
		close(accepted);
		close(client);
	}
}

/* The address shows whether IPv4 clients can connect. */
TEST("/listener/addresses", test_addresses)
{
	static const struct {
		const char *host, *address;
	} CASES[] = {
		{"127.0.0.1", "127.0.0.1:"}, {"0.0.0.0", "0.0.0.0:"}, {"::", "[::]:"}, {"*", "*:"}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GPtrArray) listeners = listeners_new();
		g_autofree char *text = NULL;

		g_assert_true(listener_open(CASES[i].host, 0, FALSE, listeners, NULL));
		g_assert_cmpuint(listeners->len, ==, 1);
		text = listener_address(listeners->pdata[0]);
		g_assert_true(g_str_has_prefix(text, CASES[i].address));
	}
}

/* Asserts that opening fails with this error, and leaves the existing listeners. */
static void assert_refused(const char *host, guint16 port, const char *message)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autoptr(GError) error = NULL;
	guint before;

	g_assert_true(listener_open("127.0.0.1", 0, FALSE, listeners, NULL));
	before = count_open_fds();
	g_assert_false(listener_open(host, port, FALSE, listeners, &error));
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
	g_assert_true(listener_open("127.0.0.1", 0, FALSE, listeners, NULL));
	port = port_of(listeners->pdata[0]);
	used = g_strdup_printf("cannot listen on 127.0.0.1 port %u: Address already in use", port);
	assert_refused("127.0.0.1", port, used);
	all = g_strdup_printf("cannot listen on * port %u: Address already in use", port);
	assert_refused("*", port, all);
}

static void open_address(GPtrArray *listeners, GError **error)
{
	g_assert_false(listener_open("127.0.0.1", 0, FALSE, listeners, error));
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
		{open_file, 1, "/ids: Too many open files"}, /* the lock uses this descriptor */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GPtrArray) listeners = listeners_new();
		g_autoptr(GError) error = NULL;
		guint before = count_open_fds();
		TakenFds taken = take_fds(CASES[i].n_left);

		CASES[i].open(listeners, &error);
		give_back_fds(&taken);
		g_assert_error(error, G_IO_ERROR, G_IO_ERROR_TOO_MANY_OPEN_FILES);
		g_assert_nonnull(strstr(error->message, CASES[i].words));
		g_assert_cmpuint(listeners->len, ==, 0);
		g_assert_cmpuint(count_open_fds(), ==, before);
	}
}

static void assert_open_local(const char *path, GPtrArray *listeners)
{
	g_autoptr(GError) error = NULL;
	gboolean opened = listener_open_local(path, &ANYBODY, listeners, &error);

	g_assert_no_error(error);
	g_assert_true(opened);
	g_assert_true(listener_at(listeners, listeners->len - 1)->is_local);
}

static void assert_local_refused(const char *path, const SocketFileAccess *access, const char *why)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autofree char *message = g_strdup_printf("cannot listen on unix:%s: %s", path, why);
	g_autoptr(GError) error = NULL;
	guint before = count_open_fds();

	g_assert_false(listener_open_local(path, access, listeners, &error));
	g_assert_nonnull(error);
	g_assert_cmpstr(error->message, ==, message);
	g_assert_cmpuint(listeners->len, ==, 0);
	g_assert_cmpuint(count_open_fds(), ==, before);
}

/* Returns a socket of @type that is bound to the file, but does not listen yet. */
static int new_bound(const char *path, int type)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	g_assert_cmpint(bind(fd, (struct sockaddr *)&address, length), ==, 0);
	return fd;
}

/* An address is in use by this process, or by a listener whose backlog is full. */
TEST("/listener/local-in-use", test_local_in_use)
{
	g_autofree char *file = in_directory("ids"), *crowded = in_directory("crowded");
	g_autofree char *abstract = g_strdup_printf("@test-listener-%d", getpid());
	g_autoptr(GPtrArray) listeners = listeners_new();
	int listener = new_bound(crowded, SOCK_STREAM);
	int client;

	assert_open_local(file, listeners);
	assert_open_local(abstract, listeners);
	assert_local_refused(file, &ANYBODY, IN_USE);
	assert_local_refused(
		abstract, &ANYBODY,
		"another process is already listening there; stop it, or use a different name");
	g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));

	g_assert_cmpint(listen(listener, 0), ==, 0);
	client = socket_unix_connect(crowded, HANG_GUARD_MS);
	g_assert_cmpint(client, >=, 0);
	assert_local_refused(crowded, &ANYBODY, IN_USE);
	close(client);
	close(listener);
	g_assert_cmpint(g_unlink(crowded), ==, 0);
}

/* The socket file of a killed server is replaced; a file that is not a socket is kept. */
TEST("/listener/local-left-behind", test_local_left_behind)
{
	g_autofree char *file = in_directory("ids"), *elsewhere = in_directory("elsewhere");
	g_autofree char *of_another_kind = g_strconcat(
		"cannot check whether another process listens there: ", g_strerror(EPROTOTYPE),
		NULL);
	g_autoptr(GPtrArray) listeners = listeners_new();
	int client;

	close(new_bound(file, SOCK_STREAM));
	assert_open_local(file, listeners);
	client = socket_unix_connect(file, HANG_GUARD_MS);
	g_assert_cmpint(client, >=, 0);
	close(client);
	g_ptr_array_set_size(listeners, 0);

	g_assert_true(g_file_set_contents(file, "precious", -1, NULL));
	assert_local_refused(file, &ANYBODY, NO_SOCKET);
	g_assert_cmpint(g_unlink(file), ==, 0);
	g_assert_cmpint(mkfifo(file, 0600), ==, 0);
	assert_local_refused(file, &ANYBODY, NO_SOCKET);
	g_assert_cmpint(g_unlink(file), ==, 0);

	/* a link to a socket */
	close(new_bound(elsewhere, SOCK_STREAM));
	g_assert_cmpint(symlink(elsewhere, file), ==, 0);
	assert_local_refused(file, &ANYBODY, NO_SOCKET);
	g_assert_cmpint(g_unlink(file), ==, 0);
	g_assert_cmpint(g_unlink(elsewhere), ==, 0);

	client = new_bound(file, SOCK_DGRAM);
	assert_local_refused(file, &ANYBODY, of_another_kind);
	close(client);
	g_assert_cmpint(g_unlink(file), ==, 0);
}

/* If another server has replaced the socket file, it is not removed. */
TEST("/listener/local-replaced", test_local_replaced)
{
	g_autofree char *file = in_directory("ids");
	g_autoptr(GPtrArray) first = listeners_new();
	g_autoptr(GPtrArray) second = listeners_new();

	assert_open_local(file, first);
	g_assert_cmpint(g_unlink(file), ==, 0);
	assert_open_local(file, second);
	g_ptr_array_set_size(first, 0);
	g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
	listener_withdraw(second->pdata[0]);
	g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
	listener_withdraw(second->pdata[0]);
}

TEST("/listener/local-directories", test_local_directories)
{
	g_autofree char *in_missing = in_directory("missing/ids");
	g_autofree char *file = in_directory("file"), *in_file = in_directory("file/ids");
	g_autofree char *self = in_directory(".");
	g_autofree char *of_missing = g_strdup_printf(
		"the directory %s/missing does not exist; create it, or use another", directory);
	g_autofree char *of_file = g_strdup_printf("cannot open and lock the directory %s: %s",
						   file, g_strerror(ENOTDIR));
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autoptr(GError) error = NULL;
	guint before = count_open_fds();

	assert_local_refused(in_missing, &ANYBODY, of_missing);
	g_assert_true(g_file_set_contents(file, "", 0, NULL));
	assert_local_refused(in_file, &ANYBODY, of_file);
	g_unlink(file);
	assert_local_refused(self, &ANYBODY, NO_SOCKET);

	/* a file system without sockets */
	g_assert_false(listener_open_local("/proc/ids", &ANYBODY, listeners, &error));
	g_assert_nonnull(error);
	g_assert_true(g_str_has_prefix(error->message, "cannot listen on unix:/proc/ids: "));
	g_assert_cmpuint(count_open_fds(), ==, before);
}

/* Another process holds the lock on the directory for too long. */
TEST("/listener/local-locked", test_local_locked)
{
	g_autofree char *path = in_directory("ids");
	g_autofree char *why = g_strdup_printf(
		"cannot lock %s within 5 s: another process holds the lock, for example flock(1) "
		"or a server that hung during startup; stop that process, or use another directory",
		directory);
	int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	g_assert_cmpint(flock(lock, LOCK_EX | LOCK_NB), ==, 0);
	assert_local_refused(path, &ANYBODY, why);
	close(lock);
}

/* Asserts that the user NOBODY cannot open the socket in a directory with @mode. */
static void assert_nobody_refused(mode_t mode, const char *path, const SocketFileAccess *access,
				  const char *why)
{
	g_assert_cmpint(chmod(directory, mode), ==, 0);
	g_assert_cmpint(setegid(NOBODY), ==, 0);
	g_assert_cmpint(seteuid(NOBODY), ==, 0);
	assert_local_refused(path, access, why);
	g_assert_cmpint(seteuid(0), ==, 0);
	g_assert_cmpint(setegid(0), ==, 0);
	g_assert_cmpint(chmod(directory, 0700), ==, 0);
}

TEST("/listener/local-permissions", test_local_permissions)
{
	g_autofree char *path = in_directory("ids");
	const SocketFileAccess of_root = {.mode = 0660, .gid = 0};
	g_autofree char *not_writable = g_strdup_printf(
		"Permission denied; give the server's user write permission for the directory %s",
		directory);
	g_autofree char *not_its_own =
		g_strdup_printf("cannot remove the old socket: %s", g_strerror(EPERM));

	if (getuid() != 0) {
		g_test_skip("only root can become another user");
		return;
	}
	assert_nobody_refused(0755, path, &ANYBODY, not_writable);
	assert_nobody_refused(
		0777, path, &of_root,
		"cannot change the group of the socket to 0: Operation not permitted; "
		"add the server's user to this group");
	g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));

	/* a directory where each user may remove only his own files, as in /tmp */
	close(new_bound(path, SOCK_STREAM));
	g_assert_cmpint(chmod(path, 0666), ==, 0);
	assert_nobody_refused(01777, path, &ANYBODY, not_its_own);
	g_unlink(path);
}

/* Sockets passed by another process: the kernel reports their addresses. */
TEST("/listener/adopted", test_adopted)
{
	g_autoptr(GPtrArray) listeners = listeners_new();
	g_autofree char *path = in_directory("ids");
	int local = new_bound(path, SOCK_STREAM);
	int inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(listen(local, 1), ==, 0);
	g_assert_cmpint(listen(inet, 1), ==, 0);
	listener_adopt(local, listeners);
	listener_adopt(inet, listeners);
	g_assert_true(listener_at(listeners, 0)->is_local);
	g_assert_false(listener_at(listeners, 1)->is_local);
	for (guint i = 0; i < listeners->len; i++) {
		g_assert_true(listener_at(listeners, i)->is_adopted);
		g_assert_cmpint(fcntl(listener_at(listeners, i)->fd, F_GETFL) & O_NONBLOCK, !=, 0);
	}
	g_ptr_array_set_size(listeners, 0);
	/* the file belongs to the other process */
	g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
	g_unlink(path);
}

/* After a pause, waiting clients are reported again. */
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

	g_assert_true(listener_open("127.0.0.1", 0, FALSE, listeners, NULL));
	listener_watch(listeners->pdata[0], on_ready, &ready);
	client = connect_to(port_of(listeners->pdata[0]));
	while (ready.n_calls < 2)
		g_main_context_iteration(NULL, TRUE);
	g_assert_cmpint(ready.called_us[1] - ready.called_us[0], >=, 49 * 1000);
	/* the listener ends during a pause */
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
