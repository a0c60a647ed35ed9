/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <gio/gio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/allow-list.h"
#include "tests/unit/common/certificate.h"
#include "tests/unit/common/tls-line.h"
#include "tests/unit/unit-test.h"

static AllowList *list_new(const char *text)
{
	g_autoptr(GError) error = NULL;
	AllowList *list = allow_list_parse(text, &error);

	g_assert_no_error(error);
	return list;
}

TEST("/allow-list/text", test_text)
{
	static const struct {
		const char *text;
		gboolean has_names;
	} CASES[] = {
		{"192.0.2.7", FALSE},
		{"10.0.0.0/8", FALSE},
		{"0.0.0.0/0,::/0", FALSE},
		{"192.0.2.7/32", FALSE},
		{"2001:db8::/32", FALSE},
		{"2001:DB8::7", FALSE},
		{"::1/128", FALSE},
		{"certificate:billing.example", TRUE},
		{"certificate:The Billing Service", TRUE},
		{" 192.0.2.7 ,\tcertificate:a , ::1 ", TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(AllowList) list = list_new(CASES[i].text);

		g_assert_cmpstr(list->text, ==, CASES[i].text);
		g_assert_true(allow_list_has_names(list) == CASES[i].has_names);
	}
}

TEST("/allow-list/refused", test_refused)
{
	/* a list, and its entry that the error names */
	static const char *const CASES[][2] = {
		{"", ""},
		{",", ""},
		{"192.0.2.7,", ""},
		{" ", ""},
		{"192.0.2.7,,::1", ""},
		{"localhost", "localhost"},
		{"192.0.2", "192.0.2"},
		{"192.0.2.256", "192.0.2.256"},
		{"192.0.2.7 192.0.2.8", "192.0.2.7 192.0.2.8"},
		{"192.0.2.7:80", "192.0.2.7:80"},
		{"[::1]", "[::1]"},
		{"::1,10.0.0.0/33", "10.0.0.0/33"},
		{"2001:db8::/129", "2001:db8::/129"},
		{"10.0.0.1/8", "10.0.0.1/8"},
		{"10.0.0.0/", "10.0.0.0/"},
		{"/8", "/8"},
		{"10.0.0.0/8/8", "10.0.0.0/8/8"},
		{"10.0.0.0/255.0.0.0", "10.0.0.0/255.0.0.0"},
		{"10.0.0.0/x", "10.0.0.0/x"},
		{"10.0.0.0/ 8", "10.0.0.0/ 8"},
		{"10.0.0.0/+8", "10.0.0.0/+8"},
		{"10.0.0.0/-4294967288", "10.0.0.0/-4294967288"},
		{"10.0.0.0/4294967304", "10.0.0.0/4294967304"},
		{"fe80::1%lo", "fe80::1%lo"},
		{"certificate:", "certificate:"},
		/* a suffix of a name does not match */
		{"certificate:.example", "certificate:.example"},
		{"::1,certificate: ", "certificate:"},
		{"Certificate:billing", "Certificate:billing"},
		{"unix:/run/ids", "unix:/run/ids"},
		{"a\nb", "a\\x0ab"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *message = g_strdup_printf(
			"\"%s\" is not an address such as 192.0.2.7, a network such as 10.0.0.0/8 "
			"with 0 bits after the prefix, or certificate:NAME",
			CASES[i][1]);
		g_autoptr(GError) error = NULL;

		g_assert_null(allow_list_parse(CASES[i][0], &error));
		g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
		g_assert_cmpstr(error->message, ==, message);
	}
}

/* Returns an accepted loopback connection from the address @from, on a socket of its family or,
 * with @takes_both, on an IPv6 socket that also accepts IPv4. -1 if there is no IPv6. */
static int accepted_from(const char *from, gboolean takes_both)
{
	g_autoptr(GInetAddress) address = g_inet_address_new_from_string(from);
	gboolean is_v4 = g_inet_address_get_family(address) == G_SOCKET_FAMILY_IPV4;
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_addr = takes_both ? in6addr_any : in6addr_loopback};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	gboolean on_v6 = !is_v4 || takes_both;
	struct sockaddr *here = on_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t length = on_v6 ? sizeof v6 : sizeof v4;
	int listener = socket(here->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int accepted;

	if (listener < 0 || client < 0 || bind(listener, here, length) != 0) {
		close(listener);
		close(client);
		return -1;
	}
	g_assert_cmpint(listen(listener, 1), ==, 0);
	g_assert_cmpint(getsockname(listener, here, &length), ==, 0);
	v4.sin_port = on_v6 ? v6.sin6_port : v4.sin_port;
	v6.sin6_addr = in6addr_loopback;
	if (is_v4) {
		struct sockaddr_in own = {.sin_family = AF_INET};

		memcpy(&own.sin_addr, g_inet_address_to_bytes(address), sizeof own.sin_addr);
		g_assert_cmpint(bind(client, (struct sockaddr *)&own, sizeof own), ==, 0);
		g_assert_cmpint(connect(client, (struct sockaddr *)&v4, sizeof v4), ==, 0);
	} else {
		g_assert_cmpint(connect(client, (struct sockaddr *)&v6, sizeof v6), ==, 0);
	}
	accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	g_assert_cmpint(accepted, >=, 0);
	close(listener);
	close(client);
	return accepted;
}

TEST("/allow-list/addresses", test_addresses)
{
	static const struct {
		const char *list;
		const char *from;
		gboolean admits;
	} CASES[] = {
		{"127.0.0.1", "127.0.0.1", TRUE},
		{"127.0.0.2", "127.0.0.1", FALSE},
		{"127.0.0.2", "127.0.0.2", TRUE},
		{"127.0.0.0/30", "127.0.0.3", TRUE},
		{"127.0.0.0/30", "127.0.0.4", FALSE},
		{"127.0.0.0/8", "127.255.0.9", TRUE},
		{"0.0.0.0/0", "127.0.0.1", TRUE},
		{"10.0.0.0/8,127.0.0.1", "127.0.0.1", TRUE},
		{"::/0", "127.0.0.1", FALSE},
		{"::1", "127.0.0.1", FALSE},
		{"certificate:localhost", "127.0.0.1", FALSE},
		/* an IPv4-mapped address matches as IPv4 */
		{"::ffff:127.0.0.1", "127.0.0.1", TRUE},
		{"::ffff:127.0.0.1", "127.0.0.2", FALSE},
		{"::ffff:127.0.0.0/126", "127.0.0.3", TRUE},
		{"::ffff:127.0.0.0/126", "127.0.0.4", FALSE},
		{"::ffff:0.0.0.0/96", "127.0.0.4", TRUE},
		{"::1", "::1", TRUE},
		{"::/127", "::1", TRUE},
		{"::2", "::1", FALSE},
		{"::2/127", "::1", FALSE},
		{"::/0", "::1", TRUE},
		{"0.0.0.0/0", "::1", FALSE},
		{"::ffff:0.0.0.0/96", "::1", FALSE},
	};
	guint tried = 0;

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		for (gboolean takes_both = FALSE; takes_both <= TRUE; takes_both++) {
			g_autoptr(AllowList) list = list_new(CASES[i].list);
			int fd = accepted_from(CASES[i].from, takes_both);

			if (fd < 0)
				continue;
			g_test_message("%s from %s", CASES[i].list, CASES[i].from);
			g_assert_true(allow_list_admits(list, fd, NULL) == CASES[i].admits);
			tried++;
			close(fd);
		}
	g_assert_cmpuint(tried, >=, 16); /* the IPv4 cases at least */
}

/* An unknown address is on no list. */
TEST("/allow-list/unknown-addresses", test_unknown_addresses)
{
	g_autoptr(AllowList) all = list_new("0.0.0.0/0,::/0");
	int fds[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), ==, 0);
	g_assert_false(allow_list_admits(all, fds[0], NULL));
	close(fds[0]);
	close(fds[1]);
	g_assert_false(allow_list_admits(all, -1, NULL));
}

TEST("/allow-list/everybody", test_everybody)
{
	g_assert_null(allow_list_ref(NULL));
	g_assert_true(allow_list_admits(NULL, -1, NULL));
	g_assert_false(allow_list_has_names(NULL));
	allow_list_unref(NULL);
}

TEST("/allow-list/certificates", test_certificates)
{
	static const struct {
		const char *list;
		gboolean admits;
	} CASES[] = {
		{"certificate:billing.example", TRUE},
		{"certificate:Billing.Example", TRUE},
		{"10.0.0.0/8,certificate:other,certificate:second.example", TRUE},
		{"certificate:other", FALSE},
		{"certificate:example", FALSE},
		{"certificate:*.example", FALSE},
		{"10.0.0.0/8", FALSE},
	};
	const char *file = certificate_new(&(CertificateWords){
		.name = "billing.example", .alternatives = "DNS:second.example"});
	g_autoptr(TlsContext) server = tls_context_new_server(file, file, file, NULL);
	g_autoptr(TlsContext) client = tls_context_new_client(file, file, file, NULL);
	g_auto(Line) line = line_new(server, client, NULL);
	int fd = line.fds[LINE_SERVER];

	line_open(&line);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(AllowList) list = list_new(CASES[i].list);

		g_test_message("%s", CASES[i].list);
		g_assert_false(allow_list_admits(list, fd, NULL));
		g_assert_true(allow_list_admits(list, fd, line.streams[LINE_SERVER]) ==
			      CASES[i].admits);
	}
}

/* The log suggests an entry only if that entry admits the client. */
TEST("/allow-list/entry-for", test_entry_for)
{
	static const struct {
		const char *name;
		const char *alternatives;
		const char *entry;
	} CASES[] = {
		{"one", "DNS:two.example,DNS:three.example", "certificate:two.example"},
		{"one", NULL, "certificate:one"},
		/* DNS:good.example, then a NUL and .evil */
		{"one", "DER:30148212676f6f642e6578616d706c65002e6576696c", "certificate:one"},
		{".example", "DER:30148212676f6f642e6578616d706c65002e6576696c", NULL},
		{"a,certificate:b", NULL, NULL},
		{"one ", NULL, NULL},
	};

	g_assert_null(allow_list_entry_for(NULL));
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const char *file = certificate_new(&(CertificateWords){
			.name = CASES[i].name, .alternatives = CASES[i].alternatives});
		g_autoptr(TlsContext) server = tls_context_new_server(file, file, file, NULL);
		g_autoptr(TlsContext) client = tls_context_new_client(file, file, file, NULL);
		g_auto(Line) line = line_new(server, client, NULL);
		g_autofree char *entry = NULL;

		line_open(&line);
		entry = allow_list_entry_for(line.streams[LINE_SERVER]);
		g_assert_cmpstr(entry, ==, CASES[i].entry);
	}
}

/* If one of two holders releases the list, the other can still use it. */
TEST("/allow-list/references", test_references)
{
	AllowList *list = list_new("127.0.0.1");

	g_assert_true(allow_list_ref(list) == list);
	allow_list_unref(list);
	g_assert_cmpstr(list->text, ==, "127.0.0.1");
	allow_list_unref(list);
}
