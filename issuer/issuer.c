/* SPDX-License-Identifier: Apache-2.0 */
#include "issuer/issuer.h"

#include "common/address.h"
#include "common/log.h"
#include "common/zookeeper/hosts.h"
#include "core/text.h"
#include "core/uuid.h"
#include "issuer/worker-id-source.h"
#include "worker/file/registry.h"
#include "worker/postgresql/store.h"
#include "worker/registration/registration.h"
#include "worker/zookeeper/store.h"

/* Determines the worker ID to claim: the given one, or one derived from the machine. */
static gboolean find_worker_id(Issuer *self, GError **error)
{
	const Options *options = self->options;
	g_autofree char *from = NULL;
	guint worker_id;

	self->worker_id = options->worker_id;
	self->worker_id_derived = options->worker_id < OPTIONS_WORKER_ID_NONE;
	if (!self->worker_id_derived)
		return TRUE;
	if (!worker_id_source_derive((OptionsWorkerId)options->worker_id, options->advertise,
				     &options->layout, &worker_id, &from, error)) {
		g_prefix_error(error, "--worker-id: ");
		return FALSE;
	}
	self->worker_id = worker_id;
	if (options_has_shared_registry(options))
		return TRUE;
	log_event(LOG_WORKER_ID_DERIVED, log_number("worker_id", worker_id), log_text("from", from),
		  log_text("meaning", "it is not registered, so two machines with the same worker "
				      "ID and datacenter ID issue the same IDs"));
	return TRUE;
}

gboolean issuer_init(Issuer *self, const Options *options, GError **error)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = options->max_ahead_ms,
		.sequence_start_range = (guint)options->sequence_start,
		.max_batch = (guint)options->max_batch,
	};
	gint64 last_ms = layout_last_ms(&options->layout);
	char nonce[UUID_TEXT_SIZE];
	gint64 now_ms;

	/* not from GLib's random numbers, which are the same in parent and child after a fork():
	 * two processes with the same nonce could get the same worker ID */
	uuid_to_text(uuid_random(), nonce);
	*self = (Issuer){.options = options, .nonce = g_strdup(nonce)};
	if (!find_worker_id(self, error))
		return FALSE;
	system_clock_init(&self->clock);
	now_ms = clock_now_ms(&self->clock.clock);
	/* Refuses to start if the layout has ended. A clock before the epoch will be corrected, so
	 * the keeper waits for it. But a clock past the layout's end is probably right, so a wait
	 * would never end. */
	if (now_ms > last_ms) {
		g_autofree char *last = text_time_ms(last_ms);
		g_autofree char *now = text_time_ms(now_ms);

		g_set_error(error, ID_ERROR, ID_ERROR_OUT_OF_RANGE,
			    "the layout ended at %s, and the clock is at %s; use another --layout, "
			    "or correct the clock",
			    last, now);
		return FALSE;
	}
	self->generator = generator_new(&options->layout, &self->clock.clock, &policy);
	return TRUE;
}

/* Returns: (transfer full): the host name as UTF-8: the kernel accepts any bytes, but records and
 *   replies must be UTF-8. */
static char *machine_name(void)
{
	return g_utf8_make_valid(g_get_host_name(), -1);
}

static Registry *make_file_registry(const Issuer *self, const IssuerMember *member)
{
	const Options *options = self->options;
	g_autofree char *host = machine_name();
	/* the name used in messages and in lists of worker IDs */
	g_autofree char *name = member->address != NULL
					? g_strdup(member->address)
					: g_strconcat(member->program, "@", host, NULL);
	g_autofree char *directory =
		options->state_directory ? g_canonicalize_filename(options->state_directory, NULL)
					 : file_registry_default_directory();
	const FileRegistryConfig config = {
		.directory = directory,
		.layout = &options->layout,
		.datacenter_id = (guint)MAX(options->datacenter_id, 0),
		.worker_id = member->address != NULL ? MAX(self->worker_id, 0) : self->worker_id,
		.nonce = self->nonce,
		.address = name,
	};

	/* no warning for embedded nodes: a program that sets a state directory has chosen this */
	if (member->address != NULL && options->datacenter_id < 0 && self->worker_id < 0)
		log_event(LOG_UNIQUE_IN_DIRECTORY, log_text("state_directory", directory),
			  log_text("meaning", "without --datacenter-id and --worker-id, IDs are "
					      "unique only among servers that use this directory"));
	return file_registry_new(&config);
}

/* Parses the address at which other servers reach this server. The value of --advertise has already
 * been checked, but the machine's host name may be invalid, for example a container's name that
 * consists of digits. */
static Address *advertised_address(const IssuerMember *member, GError **error)
{
	g_autoptr(GError) local = NULL;
	Address *address = address_parse_peer(member->address, &local);

	if (address == NULL && g_str_has_prefix(member->address, "unix:")) {
		g_set_error(error, local->domain, local->code,
			    "other servers cannot reach this server at %s; add --listen HOST:PORT, "
			    "or specify the address with --advertise HOST:PORT",
			    member->address);
	} else if (address == NULL) {
		g_autofree char *name = g_strescape(g_get_host_name(), NULL);

		g_set_error(error, local->domain, local->code,
			    "other servers cannot reach this server by the machine's host name "
			    "\"%s\" (%s); specify its address with --advertise HOST:PORT",
			    name, local->message);
	}
	return address;
}

/* Returns whether all servers in @servers are on this machine. @servers: in the form of ZooKeeper's
 * client */
static gboolean is_local_ensemble(const char *servers)
{
	g_auto(GStrv) each = g_strsplit(servers, ",", -1);
	gboolean is_local = TRUE;

	for (char **one = each; *one != NULL; one++) {
		g_autofree char *host = g_strndup(*one, (gsize)(strrchr(*one, ':') - *one));

		is_local = is_local && address_host_is_loopback(host);
	}
	return is_local;
}

/* Warns if servers on other machines that use the same ZooKeeper cannot reach @address. */
static void check_address(const Address *address, const ZookeeperHosts *hosts)
{
	if (address_host_is_loopback(address->host) && !is_local_ensemble(hosts->servers))
		log_event(LOG_ADDRESS_LOCAL, log_text("address", address->text),
			  log_text("zookeeper", hosts->servers),
			  log_text("remedy",
				   "servers and clients on other machines cannot reach this "
				   "address; listen on another one (--listen *:7609), or "
				   "specify it with --advertise HOST:PORT"));
}

static Store *make_zookeeper_store(const Options *options, const Address *address, GError **error)
{
	const TlsNames tls = options_tls_names(options);
	g_autofree char *auth = NULL;

	if (address != NULL)
		check_address(address, options->zookeeper);
	if (!zookeeper_hosts_set_tls(options->zookeeper, &tls, error)) {
		g_prefix_error(error, "--zookeeper: ");
		return NULL;
	}
	if (options->zookeeper_auth != NULL) {
		auth = zookeeper_hosts_read_auth(options->zookeeper_auth, error);
		if (auth == NULL) {
			g_prefix_error(error, "--zookeeper-auth: ");
			return NULL;
		}
	}
	return zookeeper_store_new(&(ZookeeperStoreConfig){
		.hosts = options->zookeeper,
		.auth = auth,
		.session_timeout_ms = options->session_timeout_ms,
	});
}

static Store *make_postgresql_store(const Options *options)
{
	log_name_postgresql();
	return postgresql_store_new(&(PostgresqlStoreConfig){
		.target = options->postgresql,
		.schema = options->postgresql_schema,
		.session_timeout_ms = options->session_timeout_ms,
	});
}

static Registry *make_shared_registry(const Issuer *self, const IssuerMember *member,
				      GError **error)
{
	const Options *options = self->options;
	gboolean is_server = member->address != NULL;
	g_autoptr(Address) address = is_server ? advertised_address(member, error) : NULL;
	g_autofree char *host = machine_name();
	g_autofree char *schema_root = g_strconcat("/", options->postgresql_schema, NULL);
	Store *store;

	if (is_server && address == NULL)
		return NULL;
	store = options->zookeeper != NULL ? make_zookeeper_store(options, address, error)
					   : make_postgresql_store(options);
	if (store == NULL)
		return NULL;

	const RegistrationConfig config = {
		.servers = options->zookeeper != NULL ? options->zookeeper->servers
						      : options->postgresql->shown,
		.root = options->zookeeper != NULL ? options->zookeeper->root : schema_root,
		.layout = &options->layout,
		.clock = &self->clock,
		.datacenter_id = (guint)options->datacenter_id,
		.worker_id = self->worker_id_derived ? -1 : self->worker_id,
		.preferred_worker_id = self->worker_id_derived ? self->worker_id : -1,
		.nonce = self->nonce,
		.address = address,
		.program = member->program,
		.host = host,
		.version = member->version,
		.connect_timeout_ms = options->connect_timeout_ms,
		.max_length_ms = options->reservation_ms,
		.max_clock_skew_ms = options->max_clock_skew_ms,
		.registry_id = options->registry_id,
		.create_registry = options->create_registry,
		.skip_sanity_checks = options->skip_sanity_checks,
		.tls = options_tls_names(options),
	};

	return registration_new(store, &config);
}

gboolean issuer_join(Issuer *self, const IssuerMember *member, void (*changed)(gpointer user_data),
		     gpointer user_data, GError **error)
{
	const Options *options = self->options;
	Registry *registry = options_has_shared_registry(options)
				     ? make_shared_registry(self, member, error)
				     : make_file_registry(self, member);
	const KeeperConfig config = {
		.max_clock_skew_ms = options->max_clock_skew_ms,
		.reclaim_on_step_back = options->on_clock_step == OPTIONS_CLOCK_STEP_RECLAIM,
		.max_ahead_ms = options->max_ahead_ms,
		.datacenter_id = (gint)MAX(options->datacenter_id, 0),
		.changed = changed,
		.user_data = user_data,
	};

	if (registry == NULL)
		return FALSE;
	self->keeper = keeper_new(registry, self->generator, &self->clock, &config);
	return TRUE;
}

void issuer_clear(Issuer *self)
{
	g_clear_pointer(&self->keeper, keeper_free);
	g_clear_pointer(&self->generator, generator_free);
	g_clear_pointer(&self->nonce, g_free);
}
