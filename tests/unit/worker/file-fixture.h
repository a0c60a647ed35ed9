/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registry.h"

/* The file registry for tests: of worker 3 of datacenter 0, by scripted time. */

#define RECORD  "worker-0-3.json"
#define LOCK    "worker-0-3.lock"
#define NOW     G_GINT64_CONSTANT(500000000000)
#define LENGTH  1000
#define ADDRESS "127.0.0.1:7609"
#define MACHINE "0123"

Registry *file_fixture_registry(const char *directory, const char *nonce);
void file_fixture_free(Registry *registry);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Registry, file_fixture_free)

/* What was begun, or came unasked: there is something, and it comes to its end in one go. */
RegistryResult file_fixture_poll(Registry *registry, gint64 now_tick);

RegistryResult file_fixture_claim(Registry *registry, gint64 now_tick);
Reservation file_fixture_claim_well(Registry *registry, gint64 now_tick);
/* Returns the end. */
gint64 file_fixture_extend_well(Registry *registry, gint64 end_tick);

RegistryResult file_fixture_hand_back(Registry *registry, gint64 last_tick);

/* Takes the error out of @result. */
void file_fixture_assert_failed(const RegistryResult *result, RegistryError code,
				const char *message);
void file_fixture_assert_claim_fails(Registry *registry, RegistryError code, const char *message);
void file_fixture_assert_extend_fails(Registry *registry, RegistryError code, const char *message);

/* (transfer full): what a record of another address holds. */
char *file_fixture_record_text(gint64 end_tick, const char *owner);
/* As a life before left it. */
void file_fixture_write_text(const char *directory, const char *text);
void file_fixture_write_record(const char *directory, gint64 end_tick, const char *owner);
/* As an editor, or a restore from a backup, that keeps the file. */
void file_fixture_write_in_place(const char *directory, const char *text);
