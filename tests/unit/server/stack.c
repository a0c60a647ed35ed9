/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server/stack.h"

#include <string.h>

#include "common/log.h"
#include "gen-c_glib/generated-types.h"

static gint64 stack_now_ns(const Clock *clock)
{
	return ((const Stack *)clock)->now_ns;
}

gint64 stack_us_per_look;
static gint64 now_us = 1;

static gint64 stack_now_us(void)
{
	return now_us += stack_us_per_look;
}

static void registry_free(Registry *registry)
{
	g_free(registry);
}

static Registry *registry_none_new(void)
{
	static const RegistryOps OPS = {.free = registry_free};
	Registry *registry = g_new0(Registry, 1);

	registry->ops = &OPS;
	return registry;
}

Stack *stack_new(gboolean fast, gint64 max_ahead_ms)
{
	Stack *self = g_new0(Stack, 1);
	const GeneratorPolicy policy = {max_ahead_ms, 1, 10000};
	const KeeperConfig keeper = {.max_clock_skew_ms = 10000};
	g_autoptr(GPtrArray) no_targets = g_ptr_array_new();

	log_set_level(LOG_LEVEL_ERROR);
	generated_types_init();
	self->clock.now_ns = stack_now_ns;
	system_clock_init(&self->keeper_clock);
	self->generator = generator_new(&LAYOUT_TWITTER, &self->clock, &policy);
	self->keeper =
		keeper_new(registry_none_new(), self->generator, &self->keeper_clock, &keeper);
	issuer_source_init(&self->source, self->generator);
	self->source.keeper = self->keeper;
	self->counters = counter_set_new();
	self->agents = agent_counters_new();
	self->audit = audit_log_new(no_targets, 1024, NULL);
	uuid_generator_init(&self->ulids, &self->clock);
	self->config = (ServiceConfig){
		.source = &self->source.source,
		.ulids = &self->ulids,
		.counters = self->counters,
		.agents = self->agents,
		.audit = self->audit,
		.address = "127.0.0.1:7609",
		.nonce = "nonce",
		.max_wait_ms = 1000,
	};
	self->service = codecs_service(&self->config, fast);
	self->shared = (StreamShared){
		.service = &self->service,
		.handler =
			self->service.new_handler(&self->config, counter_set_add(self->counters)),
		.max_message_bytes = 1024,
		.max_depth = 64,
		.now_us = stack_now_us,
	};
	self->room = 1024 * 1024;
	self->in = g_byte_array_new();
	stack_set_ms(self, 1000);
	stack_publish(self, 1, 100000);
	return self;
}

void stack_free(Stack *self)
{
	g_byte_array_unref(self->in);
	stream_clear(&self->stream);
	g_free(self->shared.spare);
	self->service.free_handler(self->shared.handler);
	counter_set_free(self->counters);
	agent_counters_free(self->agents);
	audit_log_free(self->audit);
	keeper_free(self->keeper);
	uuid_generator_clear(&self->ulids);
	generator_free(self->generator);
	g_free(self);
}

void stack_reconnect(Stack *self)
{
	stream_clear(&self->stream);
	self->stream = (Stream){0};
	g_byte_array_set_size(self->in, 0);
	self->allowance = (RpcAllowance){0};
}

void stack_hold(Stack *self, const void *bytes, gsize length)
{
	g_byte_array_append(self->in, bytes, (guint)length);
}

StreamStatus stack_feed(Stack *self, const void *bytes, gsize length, GByteArray *out)
{
	g_autofree guint8 *exact = NULL;
	StreamStatus status;

	stack_hold(self, bytes, length);
	/* an exact copy, so that AddressSanitizer detects reads past the end */
	exact = g_malloc(MAX(self->in->len, 1));
	if (self->in->len > 0)
		memcpy(exact, self->in->data, self->in->len);
	self->pass = (RpcPass){
		.allowance = self->allowance,
		.turn_us = STACK_TURN_US,
		.bytes = exact,
		.length = self->in->len,
		.room = self->room,
		.out = out,
	};
	status = stream_answer(&self->stream, &self->shared, &self->pass);
	self->pass.bytes = NULL;
	self->reason = self->pass.bad;
	g_assert_cmpuint(self->pass.consumed, <=, self->in->len);
	g_assert_true((status == STREAM_CLOSE) == (self->reason != NULL));
	g_assert_true(status != STREAM_PARKED || self->stream.parked != NULL);
	g_assert_true((status == STREAM_PARKED) == (self->pass.wait.what_for != RPC_WAIT_NONE));
	g_byte_array_remove_range(self->in, 0, (guint)self->pass.consumed);
	self->consumed += self->pass.consumed;
	return status;
}

void stack_publish(Stack *self, gint64 first_tick, gint64 end_tick)
{
	if (self->lease != NULL)
		lease_retire(self->lease, &LAYOUT_TWITTER);
	self->lease = end_tick == 0 ? NULL : lease_new(&LAYOUT_TWITTER, 1, 2, first_tick, end_tick);
	generator_publish(self->generator, self->lease);
}

void stack_set_ms(Stack *self, gint64 since_epoch_ms)
{
	self->now_ns = (LAYOUT_TWITTER.epoch_ms + since_epoch_ms) * 1000000;
}
