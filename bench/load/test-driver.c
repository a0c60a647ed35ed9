/* SPDX-License-Identifier: Apache-2.0 */
#include <gio/gio.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/load/driver.h"

#define HEAD "\0\0\0\x1e\x80\1\0\2\0\0\0\6get_id\0\0\0\0\x0a\0\0"
#define OOPS "\0\0\0\x24\x80\1\0\3\0\0\0\6get_id\0\0\0\0\x0b\0\1\0\0\0\3oop\x08\0\2\0\0\0\6\0"

/* A server of one connection that answers whatever it reads with the same bytes. */
typedef struct {
	int listener;
	const char *reply;
	gsize reply_bytes; /* 0: closes instead */
	gboolean silent;
} Server;

static void *serve(void *data)
{
	const Server *self = data;
	int fd = accept(self->listener, NULL, NULL);
	char buffer[4096];

	g_assert_cmpint(fd, >=, 0);
	while (recv(fd, buffer, sizeof(buffer), 0) > 0) {
		if (self->silent)
			continue;
		if (self->reply_bytes == 0 ||
		    send(fd, self->reply, self->reply_bytes, MSG_NOSIGNAL) < 0)
			break;
	}
	close(fd);
	return NULL;
}

/* (transfer full): where it listens */
/* (transfer full): where */
static Address *server_listen(Server *self)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(address);
	g_autofree char *text = NULL;

	self->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	g_assert_cmpint(bind(self->listener, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(self->listener, 1), ==, 0);
	g_assert_cmpint(getsockname(self->listener, (struct sockaddr *)&address, &length), ==, 0);
	text = g_strdup_printf("127.0.0.1:%u", ntohs(address.sin_port));
	return address_parse_peer(text, NULL);
}

/* (transfer full): what 50 ms of load on @server come to */
static Driver *run_load(Server *server, IdLog *id_log)
{
	g_autoptr(Address) address = server_listen(server);
	g_autoptr(Wire) wire = wire_new(WIRE_GET_ID, "test", 1, 1);
	g_autoptr(GPtrArray) connections =
		g_ptr_array_new_with_free_func((GDestroyNotify)connection_free);
	DriverConfig config = {.wire = wire, .id_log = id_log};
	g_autoptr(GError) error = NULL;
	pthread_t thread;
	Driver *driver;

	g_assert_cmpint(pthread_create(&thread, NULL, serve, server), ==, 0);
	g_ptr_array_add(connections, connection_new(address, wire, &error));
	g_assert_no_error(error);
	driver = driver_new(g_steal_pointer(&connections), &error);
	g_assert_no_error(error);
	config.measure_from_ns = driver_now_ns();
	config.measure_until_ns = config.measure_from_ns + 50 * 1000 * 1000;
	driver_start(driver, &config);
	g_assert_true(driver_wait(driver, NULL));
	pthread_join(thread, NULL);
	close(server->listener);
	return driver;
}

static void test_errors(void)
{
	static const struct {
		Server server;
		const char *error;
	} cases[] = {
		{{.reply_bytes = 0}, "the server closed the connection, with 1 calls in flight"},
		{{.silent = TRUE}, "no answer in time, with 1 calls in flight"},
		{{.reply = "HTTP/1.1 400\r\n", .reply_bytes = 14},
		 "bytes that are no reply, with 1 calls in flight"},
		{{.reply = OOPS, .reply_bytes = sizeof(OOPS) - 1}, "an exception: oop"},
		{{.reply = HEAD "\0\0\0\0\0\0\0\0", .reply_bytes = 34},
		 "an ID that is 0 or negative"},
		{{.reply = HEAD "\x80\0\0\0\0\0\0\1", .reply_bytes = 34},
		 "an ID that is 0 or negative"},
		/* more replies than calls: the second is no reply to anything */
		{{.reply = HEAD "\0\0\0\0\0\0\0\1\0" HEAD "\0\0\0\0\0\0\0\1", .reply_bytes = 68},
		 "bytes that are no reply, with 0 calls in flight"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Server server = cases[i].server;
		g_autoptr(Driver) driver = run_load(&server, NULL);

		g_assert_cmpstr(driver_tally(driver)->first_error, ==, cases[i].error);
		g_assert_cmpuint(driver_tally(driver)->errors, >=, 1);
		g_assert_cmpuint(driver_errors(driver), <=, driver_tally(driver)->errors);
	}
}

/* The same ID for every call: each but the first is a duplicate, and not above the one before. */
static void test_duplicates(void)
{
	Server server = {.reply = HEAD "\0\0\0\0\0\0\0\1", .reply_bytes = 34};
	IdLog *logs = id_log_new_all(1, 1000000);
	g_autoptr(Driver) driver = run_load(&server, logs);
	const Tally *tally = driver_tally(driver);
	IdLogVerdict verdict = id_log_check_all(logs, 1);

	g_assert_cmpuint(tally->errors, ==, 0);
	g_assert_cmpuint(tally->calls, >=, 2);
	g_assert_cmpuint(tally->calls, <=, tally->answered);
	g_assert_cmpuint(tally->ids, ==, tally->calls);
	g_assert_cmpuint(tally->latency_ns.total, ==, tally->calls);
	g_assert_cmpuint(tally->out_of_order, ==, tally->answered - 1);
	g_assert_cmpuint(verdict.checked, ==, tally->answered);
	g_assert_cmpuint(verdict.duplicates, ==, tally->answered - 1);
	g_assert_cmpint(verdict.duplicate, ==, 1);
	id_log_free_all(logs);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/driver/errors", test_errors);
	g_test_add_func("/driver/duplicates", test_duplicates);
	return g_test_run();
}
