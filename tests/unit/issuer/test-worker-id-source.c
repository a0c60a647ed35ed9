/* SPDX-License-Identifier: Apache-2.0 */
#include "issuer/worker-id-source.h"
#include "tests/unit/unit-test.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>

#define UNTOUCHED 4242

TEST("/worker-id-source/ip", test_ip)
{
	static const struct {
		const char *text;
		guint bits;
		guint worker_id;
	} CASES[] = {
		{"192.0.2.7", 0, 0},
		{"192.0.2.7", 5, 7},
		{"192.0.2.255", 5, 31},
		{"10.1.2.3", 10, 2 << 8 | 3},
		{"192.0.2.7", 31, (192u << 24 | 2 << 8 | 7) & G_MAXINT},
		{"2001:db8::1:2a", 8, 0x2a},
		{"2001:db8::1:2a", 31, 0x1002a},
		{"2001:db8:ffff:ffff::8000:0", 31, 0},
		{"::ffff:192.0.2.7", 16, 2 << 8 | 7},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GInetAddress) address = g_inet_address_new_from_string(CASES[i].text);

		g_test_message("%s, %u bits", CASES[i].text, CASES[i].bits);
		g_assert_cmpuint(worker_id_source_from_ip(address, CASES[i].bits), ==,
				 CASES[i].worker_id);
	}
}

TEST("/worker-id-source/mac", test_mac)
{
	static const guint8 MAC[] = {0x02, 0xff, 0xfe, 0x80, 0x01, 0x2a};
	static const struct {
		guint bits;
		guint worker_id;
	} CASES[] = {{0, 0},      {1, 0},         {2, 2},          {5, 10},
		     {10, 0x12a}, {24, 0x80012a}, {31, 0x7e80012a}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		g_assert_cmpuint(worker_id_source_from_mac(MAC, CASES[i].bits), ==,
				 CASES[i].worker_id);
}

TEST("/worker-id-source/host-name", test_host_name)
{
	static const struct {
		const char *host_name;
		guint bits;
		gint64 worker_id; /* UNTOUCHED: refused */
	} CASES[] = {
		{"ids-3", 5, 3},
		{"ids-0", 0, 0},
		{"ids-31", 5, 31},
		{"ids-007", 5, 7},
		{"my-ids-2-30", 5, 30},
		{"ids-3.ids.default.svc.cluster.local", 5, 3},
		{"ids-2147483647", 31, 2147483647},
		/* too large */
		{"ids-1", 0, UNTOUCHED},
		{"ids-32", 5, UNTOUCHED},
		{"ids-4294967299", 5, UNTOUCHED},
		{"ids-18446744073709551619", 5, UNTOUCHED},
		{"ids-2147483648", 31, UNTOUCHED},
		/* none */
		{"", 5, UNTOUCHED},
		{"ids", 5, UNTOUCHED},
		{"ids3", 5, UNTOUCHED},
		{"3", 5, UNTOUCHED},
		{"-3", 5, UNTOUCHED},
		{"ids-", 5, UNTOUCHED},
		{"ids-3-", 5, UNTOUCHED},
		{"ids-3a", 5, UNTOUCHED},
		{"ids-a3", 5, UNTOUCHED},
		{"ids-+3", 5, UNTOUCHED},
		{"ids- 3", 5, UNTOUCHED},
		{"ids.rack-3", 5, UNTOUCHED},
		{"1f2e3d4c5b60", 5, UNTOUCHED},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		guint worker_id = UNTOUCHED;
		gboolean found = worker_id_source_from_host_name(CASES[i].host_name, CASES[i].bits,
								 &worker_id, &error);

		g_test_message("%s: %s", CASES[i].host_name, found ? "" : error->message);
		g_assert_cmpint(found, ==, CASES[i].worker_id != UNTOUCHED);
		g_assert_cmpint(found, ==, error == NULL);
		g_assert_cmpint(worker_id, ==, CASES[i].worker_id);
	}
}

typedef struct {
	const char *name;
	int index;
	guint flags;
	gushort family;
	guint8 n_bytes;
	guint8 bytes[8];
} Interface;

#define MAC_2A                                                                                     \
	AF_PACKET, 6,                                                                              \
	{                                                                                          \
		2, 0, 0, 0, 0, 0x2a                                                                \
	}

/* Up to six interfaces, in the order of the system; the first without a name ends the list. */
static const struct {
	Interface interfaces[6];
	const char *found; /* NULL if none */
} FINDS[] = {
	{{{0}}, NULL},
	{{{"lo", 1, IFF_LOOPBACK, AF_PACKET, 6, {0}}}, NULL},
	{{{"lo", 1, IFF_LOOPBACK, MAC_2A}}, NULL},
	{{{"lo", 1, IFF_LOOPBACK, AF_PACKET, 6, {0}}, {"eth0", 2, 0, MAC_2A}}, "eth0"},
	/* the lowest index, at any position, up or down */
	{{{"eth1", 3, IFF_UP, MAC_2A}, {"eth0", 2, 0, MAC_2A}, {"a", 4, IFF_UP, MAC_2A}}, "eth0"},
	/* no MAC address, as with a tunnel; all zeros; not Ethernet; one bit set is enough */
	{{{"tun0", 2, 0, AF_PACKET, 0, {0}},
	  {"gretap0", 3, 0, AF_PACKET, 6, {0}},
	  {"gre0", 4, 0, AF_PACKET, 4, {192, 0, 2, 7}},
	  {"ib0", 5, 0, AF_PACKET, 8, {1, 2, 3, 4, 5, 6, 7, 8}},
	  {"eth0", 6, 0, AF_PACKET, 6, {0, 0, 0, 0, 0, 1}}},
	 "eth0"},
	/* the IP addresses of an interface are entries too, and may be missing */
	{{{"eth0", 0, 0, AF_INET, 6, {1, 2, 3, 4, 5, 6}},
	  {"ppp0", 0, 0, AF_UNSPEC, 0, {0}},
	  {"eth0", 2, 0, MAC_2A}},
	 "eth0"},
	{{{"eth0", 2, 0, AF_INET, 6, {1, 2, 3, 4, 5, 6}}}, NULL},
};

TEST("/worker-id-source/find-interface", test_find_interface)
{
	for (gsize i = 0; i < G_N_ELEMENTS(FINDS); i++) {
		struct ifaddrs entries[7] = {0};
		struct sockaddr_ll links[6] = {0};
		const struct ifaddrs *found;
		guint n = 0;

		for (; n < 6 && FINDS[i].interfaces[n].name != NULL; n++) {
			const Interface *interface = &FINDS[i].interfaces[n];

			links[n] = (struct sockaddr_ll){.sll_family = interface->family,
							.sll_ifindex = interface->index,
							.sll_halen = interface->n_bytes};
			memcpy(links[n].sll_addr, interface->bytes, sizeof links[n].sll_addr);
			entries[n].ifa_name = (char *)interface->name;
			entries[n].ifa_flags = interface->flags;
			if (interface->family != AF_UNSPEC)
				entries[n].ifa_addr = (struct sockaddr *)&links[n];
			if (n > 0)
				entries[n - 1].ifa_next = &entries[n];
		}
		found = worker_id_source_find_interface(n > 0 ? entries : NULL);
		g_test_message("case %zu", i);
		g_assert_cmpstr(found != NULL ? found->ifa_name : NULL, ==, FINDS[i].found);
		if (found != NULL)
			g_assert_cmpint(found->ifa_addr->sa_family, ==, AF_PACKET);
	}
}
