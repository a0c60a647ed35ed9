/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "core/clock.h"
#include "worker/registration/peers.h"
#include "worker/registration/plan.h"
#include "worker/registration/registration.h"
#include "worker/registration/worker-id-choice.h"

/* The data of a server's registration. Only the keeper's thread may use it.
 *
 * registration.c changes the state. step.c and reservation.c do the work of each state. internal.c
 * defines the functions below, which these files share.
 *
 * In comments, a claim is the operation REGISTRY_CLAIM: to create a claim record and to reserve a
 * worker ID. "Claim record" always means the ephemeral record. */

/* The reservation of this server. */
typedef struct {
	/* FALSE if it was released or lost, so that the other members describe the last one, or if
	 * there was none */
	gboolean is_held;
	/* number of the claim operation that created it, counted from 1 in each process */
	guint claim_number;
	guint worker_id;
	gint32 version; /* version of the record that this server wrote */
	gint64 first_tick;
	gint64 end_tick;
	/* version of the floor with which it was compared; -1 if the floor was missing or damaged,
	 * so that writes do not check it */
	gint32 floor_version;
} OwnReservation;

/* A write whose outcome is not known yet: its reply is still expected, or was lost. */
typedef struct {
	/* NONE if no write is open; SETTLING only verifies the held record after a reconnect */
	RegistryOperation operation;
	/* version that the write requires; STORE_NONE if the record must not exist */
	gint32 read_version;
	gint64 read_end_tick; /* end in the record at that version */
	gboolean refused;     /* it is known that the write did not take place */
	/* replaces Registration.reservation if the write took place. For a release, is_held is
	 * FALSE, and end_tick is the end in the record */
	OwnReservation wanted;
} Attempt;

/* The answer for which PREPARING is waiting. */
typedef enum {
	PREPARATION_LAYOUT,
	PREPARATION_REGISTRY,
	PREPARATION_LIMITS,
	PREPARATION_RAISING, /* raises the limits to those of this server */
	PREPARATION_RESERVATIONS,
	PREPARATION_CLAIMS,
	PREPARATION_FLOOR, /* reads the floor, with which the held reservation is compared */
	/* after commits were lost: writes the floor unchanged, to get the store's time, and then
	 * raises it */
	PREPARATION_TIMING_FLOOR,
	PREPARATION_RAISING_FLOOR,
	PREPARATION_MAKING, /* creates missing records of the registry or the datacenter */
} PreparationStep;

/* The requests that read a datacenter. */
enum { DATACENTER_CLAIMS, DATACENTER_RESERVATIONS, DATACENTER_FLOOR, N_DATACENTER_REQUESTS };

typedef struct {
	Registry registry;     /* the interface; must be the first member */
	RegistryReport report; /* report of the next poll, without its result */
	char *hindrance;       /* (nullable): RegistryReport.hindrance */
	gint64 stop_by_us;     /* argument of the current poll */
	Store *store;

	/* The members below are set at the start, and do not change. */
	struct {
		char *servers, *root, *nonce;
		ClaimRecord claim; /* the claim record, without worker ID and session timeout */
		char *name;        /* name in messages: HOST:PORT, or PROGRAM@HOST */
		TlsNames tls;      /* for calls to peers; its strings are copies */
		Layout layout;
		const SystemClock *clock;
		guint datacenter_id;
		gint64 worker_id;           /* the only worker ID to claim; -1 for any */
		gint64 preferred_worker_id; /* -1 if none */
		gint64 connect_timeout_ms, max_clock_skew_ms;
		char *registry_id; /* (nullable): ID that the registry must have */
		gboolean create_registry;
	} config;

	/* Keys in the store, for all datacenters and for this one. They do not change. */
	struct {
		char *registry, *layout, *limits;
		char *floor, *claims, *reservations;
	} keys;

	ZnodeHistory history; /* history of the store on this connection */
	/* (nullable): ID of the registry; does not change after the first connection */
	char *registry_id;
	RegistrationFacts facts; /* facts from which plan.h derives the next state */
	gint64 now_tick;
	gboolean finding_why_down; /* the store is determining why there is no connection */
	struct {
		gint64 began_at_us; /* time of the last answer, or of the first poll */
		gint64 down_at_us; /* time of the last loss of a connection, or of the first poll */
		gint64 report_at_us;
		char *why;  /* (nullable): NULL if unknown, or if the store is not silent */
		char *text; /* (nullable): for RegistryReport.hindrance */
	} silence;
	/* time of the last loss of the connection or the session; 0 if there was none */
	gint64 lost_at_us;

	struct {
		RegistrationState state;
		gboolean busy; /* the state is waiting for an answer from the store or the peers */
		/* request whose answer ends the wait; if 0, another event ends it */
		guint64 request;
	} step;

	gboolean has_begun;  /* the keeper has begun its first operation */
	gboolean has_served; /* a claim has succeeded before */
	gboolean has_created_registry;
	gboolean extension_failed; /* the last extension has failed */

	/* The keeper's current operation, facts.operation: when it began, its arguments and its
	 * result. */
	struct {
		gint64 began_at_us;
		gint64 ticks; /* argument of RegistryOps.begin() */
		/* for a claim: number of records that were skipped, because this server may not
		 * write them */
		guint n_skipped_records;
		gboolean lost_race; /* for a claim: another server has written the chosen record */
		/* if a claim has ended with WAIT: when to retry it, because records can change
		 * without a notification; 0 if no claim is waiting */
		gint64 retry_claim_at_us;
		gboolean cancelled;
		gboolean result_is_ready; /* the next poll returns it */
		RegistryResult result;
	} operation;

	/* Errors that leave the outcome of a step unknown. */
	struct {
		gint error; /* StoreMessage.error of an answer in this step; 0 if none */
		const char *reason;
		const char *remedy; /* (nullable) */
		/* number of steps that ended with such an error since the last success */
		guint n_steps;
	} open_error;

	/* The claim record of this server. */
	struct {
		char *key;    /* (nullable) */
		gint64 order; /* order of its creation */
		/* time by CLOCK_BOOTTIME before the request to create it was sent; 0 if not sent
		 * yet */
		gint64 creation_sent_ns;
	} claim;

	struct {
		PreparationStep step;
		/* (nullable) (element-type utf8): keys of records to create, in order */
		GPtrArray *missing;
		/* number of keys at the start of missing that are only parents of the others */
		guint n_parents;
		guint n_made;                  /* number of records created so far */
		ZnodeHistory registry_history; /* the history in which the registry was created */
		ZnodeLimits limits;            /* 0 if they cannot be used */
		ZnodeFloor floor;              /* as last read or written */
	} preparation;

	/* A datacenter that is being read: this server's own, or, in LISTING_WORKERS, any
	 * datacenter. */
	struct {
		/* (nullable): the records read so far; used in READING_DATACENTER, CHECKING_PEERS
		 * and LISTING_WORKERS */
		DatacenterListing *listing;
		guint64 requests[N_DATACENTER_REQUESTS]; /* 0 if answered */
		/* outcome of the first request that failed; OK if none has failed */
		StoreOutcome outcome;
		const char *reason; /* description of the outcome; static */
	} datacenter;
	WorkerIdChoice choice;
	struct {
		PeerCheck *check;        /* (nullable): set in CHECKING_PEERS */
		PeerReport earlier;      /* report of the previous check */
		PeerCheck *clocks;       /* (nullable): the check of step_request_clocks() */
		gint64 clocks_due_at_us; /* no peer is asked for its clock before this time */
		TlsClient *tls;          /* (nullable): not needed yet */
	} peers;
	/* The list of the workers of all datacenters. Used in LISTING_WORKERS, and while the list
	 * is postponed. */
	struct {
		/* (nullable) (element-type guint): datacenters still to be read, the last one first
		 */
		GArray *datacenters;
		WorkerList *list; /* (nullable): the part of the list that has been read so far */
	} workers;

	OwnReservation reservation;
	/* Facts about the current connection. The store may have been restored from a backup before
	 * the connection was made, so facts from earlier connections do not count. */
	struct {
		/* the held record was read, and is what this server has written */
		gboolean record_was_read;
		/* after the held record was read, the store has accepted a write to it */
		gboolean record_was_written;
	} connection;
	char *lost_why; /* (nullable): why the reservation was lost, for the keeper */
	Attempt attempt;
	guint last_claim_number; /* OwnReservation.claim_number of the last attempted claim */
} Registration;

/* Ends the keeper's operation successfully, because the store has confirmed its write. */
void registration_succeed(Registration *self);

/* Ends the keeper's operation with an error. If there is no operation, reports LOST. A reservation
 * that could not be released is no longer held: its worker ID is quarantined until its end. */
void registration_fail(Registration *self, RegistryError code, const char *format, ...)
	G_GNUC_PRINTF(3, 4);

/* Schedules the retry of a failed claim at @tick, or after a session timeout if that is earlier,
 * because records can change without a notification. */
void registration_retry_claim_at(Registration *self, gint64 tick);

/* Discards the data read from the datacenter and the choice that is based on them, so that the next
 * claim reads the datacenter again. */
void registration_forget_datacenter(Registration *self);

/* Returns: (transfer full): the data of the claim record.
 * @worker_id: -1 for the held worker ID, if there is one */
char *registration_claim_json(const Registration *self, gint worker_id);

/* Handles the disappearance of the claim record while the session is alive. All other records may
 * be gone too. */
void registration_lose_claim(Registration *self);

typedef enum {
	/* after losing a race, so that it does not immediately compete with the same servers */
	REGISTRATION_SHORT_PAUSE,
	REGISTRATION_LONG_PAUSE, /* after an unexpected answer */
	/* after a request with unknown outcome: no pause if there is no connection, otherwise a
	 * long one, because the next answer can be the same */
	REGISTRATION_UNSURE_PAUSE,
} RegistrationPause;

/* Delays the next step. Logs a warning if three steps since the last success have ended with UNSURE
 * and an error that is not about the connection. The operation does not fail, because the next try
 * can succeed. */
void registration_pause(Registration *self, RegistrationPause pause);

/* Records the error in an answer to the current step, for registration_pause(). */
void registration_note_error(Registration *self, const StoreMessage *answer);

/* Resets the count, and removes the error from RegistryReport.hindrance. Call it if a step has
 * succeeded, or if the server has no reservation for a reason other than this error. */
void registration_forget_open_errors(Registration *self);

/* Makes the state wait for the answer to @request; 0 to wait for another event. */
void registration_begin_wait(Registration *self, guint64 request);
void registration_end_wait(Registration *self);

/* Handles an error that will not end by itself: logs it, pauses, and makes the operation fail
 * if it must not wait. Before the first reservation, the error is fatal. */
void registration_complain(Registration *self, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Calls registration_complain() about a request for @key that was answered with @outcome. */
void registration_complain_of(Registration *self, const char *key, StoreOutcome outcome,
			      const char *reason);

/* Computes the store's clock from the time of a write.
 * @time_ms: 0 if the store reported no time */
void registration_note_time(Registration *self, gint64 time_ms, gint64 sent_ns, gint64 received_ns);

/* Forgets that the held record has been read and written on this connection, so that it is read
 * before anything is written. */
void registration_forget_record(Registration *self);
